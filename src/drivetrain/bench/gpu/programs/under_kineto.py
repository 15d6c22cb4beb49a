"""A program under torch.profiler, the GPU included: UNDER_KINETO.py TRACE SCRIPT ARGUMENTS."""

# PyTorch may be absent where types are checked.
# pyright: basic, reportMissingImports=false

import runpy
import sys

import torch


def main(trace: str, words: list[str]) -> None:
    """Run the script as Python would, and write the trace."""
    sys.argv = words
    asked = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=asked) as profiler:
        runpy.run_path(words[0], run_name="__main__")
    profiler.export_chrome_trace(trace)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
