"""The curves of `--paper` as pictures, drawn from the report's JSON."""

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from drivetrain.bench.sim.cases import UNFUSED, XLA_UNFUSED
from drivetrain.bench.sim.contenders import MAKE, OURS, TORCH, TORCH_COMPILED, XLA
from drivetrain.bench.sim.paper import KNOB_NUMS_ENVS, OVER_STEPS, PYTORCH, PYTORCH_K, VECTORISED, fused

Document = Mapping[str, Any]
Points = Sequence[tuple[float, float]]
LABELS = {
    OURS.name: "native, K = 64",
    UNFUSED: "native, K = 1",
    XLA.name: "XLA, K = 64",
    XLA_UNFUSED: "XLA, K = 1",
    MAKE.name: "gymnasium.make",
}
FRAMEWORKS = {
    XLA.name: f"XLA, K = {PYTORCH_K}",
    TORCH_COMPILED.name: "PyTorch, torch.compile",
    TORCH.name: "PyTorch, eager",
}


def draw(document: Document, folder: Path) -> list[Path]:
    """Write one picture per comparison that the report has; their files.

    Raises:
        OSError: A file cannot be written.
    """
    rates = [
        ("sim-vectorised.svg", VECTORISED, "environments N", LABELS),
        ("sim-pytorch.svg", PYTORCH, "environments N", FRAMEWORKS),
        ("sim-steps.svg", OVER_STEPS, "steps per call K", {OURS.name: "native", XLA.name: "XLA"}),
    ]
    written: list[Path] = []
    for file, group, axis, labels in rates:
        curves = {label: rates_of(document, group, name) for name, label in labels.items()}
        written += picture(folder / file, axis, "million steps per CPU-second", curves)
    ratios = {f"N = {n:,}": ratios_of(document, fused(n), "bytes touched, 0 not") for n in KNOB_NUMS_ENVS}
    axis = "bytes of state that a step touches"
    written += picture(folder / "sim-fused.svg", axis, "fused over unfused", ratios)
    product = {"fused and vectorised": quotients(document, OURS.name), "vectorised": quotients(document, UNFUSED)}
    return written + picture(folder / "sim-product.svg", "environments N", "times gymnasium.make", product)


def cases_of(document: Document, group: str) -> list[tuple[float, Document]]:
    """The cases of a group, by the first number in their names."""
    return [(number_in(case["name"].rpartition(": ")[2]), case) for case in document["cases"] if case["group"] == group]


def number_in(text: str) -> float:
    """The first number of a text, thousands separated by commas."""
    words = [word.replace(",", "") for word in text.split()]
    return float(next(word for word in words if word.isdigit()))


def value(case: Document, name: str) -> float | None:
    """Somebody's median."""
    return case["ours"] if name == OURS.name else {**case["peers"], **case["references"]}.get(name)


def rates_of(document: Document, group: str, name: str) -> Points:
    """One contender's curve."""
    return [(x, y) for x, case in cases_of(document, group) if (y := value(case, name))]


def quotients(document: Document, name: str) -> Points:
    """A contender over a single simulator, over N."""
    points = [(x, value(case, name), value(case, MAKE.name)) for x, case in cases_of(document, VECTORISED)]
    return [(x, y / single) for x, y, single in points if y and single]


def ratios_of(document: Document, group: str, ending: str) -> Points:
    """Fused over unfused along `Knob`."""
    points = [(x, value(case, OURS.name), value(case, UNFUSED)) for x, case in cases_of(document, group)
              if case["name"].endswith(ending)]  # fmt: skip
    return [(x, y / slow) for x, y, slow in points if y and slow]


def picture(path: Path, x_label: str, y_label: str, curves: Mapping[str, Points]) -> list[Path]:
    """Curves on logarithmic axes; nothing where there are none."""
    if not any(curves.values()):
        return []
    figure: Any = importlib.import_module("matplotlib.figure").Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    for label, points in curves.items():
        if points:
            axes.plot(*zip(*sorted(points), strict=True), marker="o", label=label)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})
    return [path]
