"""The curves of `--paper` as pictures, drawn from the report's JSON."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from math import ceil, floor, log10
from pathlib import Path
from typing import Any

from drivetrain.bench.sim.cases import UNFUSED, XLA_UNFUSED
from drivetrain.bench.sim.contenders import MAKE, OURS, TORCH, TORCH_COMPILED, XLA
from drivetrain.bench.sim.devices import GPU
from drivetrain.bench.sim.paper import KNOB, OVER_STEPS, PYTORCH, PYTORCH_K, VECTORISED, K

Document = Mapping[str, Any]
Points = Sequence[tuple[float, float]]
LABELS = {
    OURS.name: "ours, K = 64",
    UNFUSED: "ours, K = 1",
    XLA.name: "XLA, K = 64",
    XLA_UNFUSED: "XLA, K = 1",
    MAKE.name: "gymnasium.make",
}
DEAD_BESIDE = 64
"""Bytes that a step touches where untouched ones vary."""
FRAMEWORKS = {
    XLA.name: f"XLA, K = {PYTORCH_K}",
    TORCH_COMPILED.name: "PyTorch, torch.compile",
    TORCH.name: "PyTorch, eager",
}


def draw(document: Document, folder: Path) -> list[Path]:
    """Write one picture per comparison that the report has; their files. Those of a GPU have names of their own.

    Raises:
        OSError: A file cannot be written.
    """
    on_gpu = document["machine"].get("device") == GPU.name
    start, where = ("sim-gpu", "one GPU") if on_gpu else ("sim", "one core each")
    ours = {OURS.name: "ours", XLA.name: "XLA"}
    rates = [
        ("vectorised", "CartPole: one simulator, many, many and fused", VECTORISED, "environments N", LABELS),
        ("pytorch", "CartPole: XLA against PyTorch", PYTORCH, "environments N", FRAMEWORKS),
        ("steps", "CartPole: steps per call, N = 1,024", OVER_STEPS, "steps per call K", ours),
    ]
    written: list[Path] = []

    def add(name: str, title: str, x_label: str, y_label: str, curves: Mapping[str, Points]) -> None:
        written.extend(picture(folder / f"{start}-{name}.svg", f"{title} ({where})", x_label, y_label, curves))

    for name, title, group, axis, labels in rates:
        curves = {label: rates_of(document, group, who) for who, label in labels.items()}
        add(name, title, axis, f"million steps per {'second' if on_gpu else 'CPU-second'}", curves)
    knobs = [
        ("fused", "Knob: all of the state touched", "bytes of state", touched),
        ("untouched", "Knob: 64 bytes touched, the others not", "bytes of state", untouched),
    ]
    groups = list(dict.fromkeys(case["group"] for case in document["cases"] if case["group"].startswith(KNOB)))
    for name, title, axis, chosen in knobs:
        ratios = {group.removeprefix(KNOB): ratios_of(document, group, chosen) for group in groups}
        labelled = {f"N = {num_envs}": points for num_envs, points in ratios.items()}
        add(name, title, axis, f"fused (K = {K}) over unfused (K = 1)", labelled)
    product = {"fused and vectorised": quotients(document, OURS.name), "vectorised": quotients(document, UNFUSED)}
    add("product", "CartPole: vectorised, fused, and their product", "environments N", "times gymnasium.make", product)
    return written


def touched(live: float, dead: float) -> float | None:
    """Where a point along `Knob` lies on the axis of touched state; None if not there."""
    return live if dead == 0 else None


def untouched(live: float, dead: float) -> float | None:
    """Where it lies on the axis of all state, with the same 64 bytes touched."""
    return live + dead if live == DEAD_BESIDE else None


def cases_of(document: Document, group: str) -> list[tuple[float, Document]]:
    """The cases of a group, by the first number in their names."""
    return [(number_in(case["name"].rpartition(": ")[2]), case) for case in document["cases"] if case["group"] == group]


def number_in(text: str) -> float:
    """The first number of a text, thousands separated by commas."""
    return numbers_in(text)[0]


def numbers_in(text: str) -> list[float]:
    """All of them."""
    words = [word.replace(",", "") for word in text.split()]
    return [float(word) for word in words if word.isdigit()]


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


def ratios_of(document: Document, group: str, chosen: Callable[[float, float], float | None]) -> Points:
    """Fused over unfused along `Knob`, where a point is chosen by its bytes of touched and untouched state."""
    found: list[tuple[float, float]] = []
    for _, case in cases_of(document, group):
        live, dead = numbers_in(case["name"].rpartition(": ")[2])
        x, fast, slow = chosen(live, dead), value(case, OURS.name), value(case, UNFUSED)
        if x is not None and fast and slow:
            found.append((x, fast / slow))
    return found


def picture(path: Path, title: str, x_label: str, y_label: str, curves: Mapping[str, Points]) -> list[Path]:
    """Curves on logarithmic axes with plain numbers; nothing where there are none."""
    if not any(curves.values()):
        return []
    figure: Any = importlib.import_module("matplotlib.figure").Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    for label, points in curves.items():
        if points:
            axes.plot(*zip(*sorted(points), strict=True), marker="o", label=label)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    ticker: Any = importlib.import_module("matplotlib.ticker")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(ticker.StrMethodFormatter("{x:,.10g}"))
    axes.yaxis.set_minor_formatter(ticker.NullFormatter())
    heights = [log10(y) for points in curves.values() for _, y in points]
    axes.set_ylim(
        10 ** floor(min(heights)), 10 ** ceil(max(heights) + 1e-9)
    )  # whole decades, so that ticks have numbers
    axes.set_title(title)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})
    return [path]
