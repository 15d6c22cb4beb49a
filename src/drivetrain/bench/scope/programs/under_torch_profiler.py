"""A program under torch.profiler, unchanged: UNDER.py SCRIPT ARGUMENTS; the trace it shows is written at the end."""

# The peer may be absent where types are checked.
# pyright: basic, reportMissingImports=false

import runpy
import sys

import torch


def main(words: list[str]) -> None:
    """Run the script as Python would; CPU operators, as `torch.profiler.profile` records them by default."""
    sys.argv = words
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        runpy.run_path(words[0], run_name="__main__")
    profiler.export_chrome_trace("report.json")


if __name__ == "__main__":
    main(sys.argv[1:])
