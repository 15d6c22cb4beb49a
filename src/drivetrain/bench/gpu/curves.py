"""The comparisons of arXiv 2207.07736 on the GPU, in the report and pictures of `drivetrain bench sim --paper`."""

from pathlib import Path

from drivetrain.bench.gpu.plan import Found, Part
from drivetrain.bench.process import lacking
from drivetrain.bench.scope.trial import finish
from drivetrain.bench.sim.contenders import CUDA

NAME = "curves"
JSON, PAGE = "sim-paper-gpu.json", "sim-paper-gpu.md"


def run(folder: Path, limit_s: float) -> Found:
    """Measure them, each three times, and draw them where matplotlib is.

    Raises:
        RunError: It failed, or took too long.
    """
    there = folder.absolute()
    words = ["bench", "sim", "--paper", "--device", "gpu", "--rounds", "3"]
    words += ["--json", str(there / JSON), "--markdown", str(there / PAGE)]
    if not lacking("matplotlib"):
        words += ["--plots", str(there)]
    finish(["-m", "drivetrain.cli.main", *words], folder, limit_s)
    return Found()


PART = Part(name=NAME, most_s=530, run=run, missing=lambda: lacking(*CUDA.requires))
