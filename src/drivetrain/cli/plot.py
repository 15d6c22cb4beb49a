"""`drivetrain plot RUN...`: learning curves, with intervals over seeds, as PNG or SVG."""

import importlib
import io
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from drivetrain.cli.flags import read_flags
from drivetrain.core.aside import write_all, written_aside
from drivetrain.core.errors import InvalidInput
from drivetrain.core.outputs import require_folders
from drivetrain.core.words import reward
from drivetrain.train.telemetry.curves import Curve, curves

_SUFFIXES = (".png", ".svg", ".pdf")
_WIDTH, _HEIGHT, _LINE_HEIGHT = 7.0, 4.3, 0.2  # in inches: of the picture, of what is below the legend, of its lines
_LINE_LENGTH = 80


@dataclass(frozen=True, kw_only=True)
class _Flags:
    """Draw the evaluations of runs over their environment steps; runs alike but for the seed make one curve."""

    run_dirs: Annotated[
        tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUN...", help_behavior_hint="(required)")
    ]
    """Folders of runs, or of the runs of several seeds."""
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("learning-curves.png")
    """The file to write: .png, .svg or .pdf."""


def run(argv: list[str]) -> int:
    """Draw, and say where."""
    flags = read_flags(_Flags, argv, prog="drivetrain plot", apart="all RUNs stand together, in front of the flags")
    if not flags.run_dirs:
        raise InvalidInput("expected folders of runs: drivetrain plot RUN... [-o FILE]")
    if flags.output.suffix.lower() not in _SUFFIXES:
        raise InvalidInput(f"--output: expected a file ending in {' or '.join(_SUFFIXES)}, got {flags.output}")
    require_folders(flags.output)
    found, left_out = curves(flags.run_dirs)
    draw(found, flags.output)
    for run_dir, why in left_out.items():
        print(f"left out: {run_dir} {why}")
    for label, (curve, num_runs) in found.items():
        interval = f" (95% interval {reward(curve.low[-1])}..{reward(curve.high[-1])})" if num_runs > 1 else ""
        print(f"{label}, {num_runs} run{'s' * (num_runs > 1)}: {reward(curve.mean[-1])}{interval} at the end")
    print(f"written to {flags.output}")
    return 0


def draw(found: dict[str, tuple[Curve, int]], path: Path) -> None:
    """Write the picture, without any window.

    Raises:
        OSError: The file cannot be written.
    """
    names = [_legend_of(label, num_runs) for label, (_, num_runs) in found.items()]
    num_lines = len("\n".join(names).splitlines())
    size = (_WIDTH, _HEIGHT + _LINE_HEIGHT * num_lines)
    figure: Any = importlib.import_module("matplotlib.figure").Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    for text, (curve, num_runs) in zip(names, found.values(), strict=True):
        is_point = len(curve.num_steps) == 1  # a line, and what lies between two, needs more to be seen
        (line,) = axes.plot(curve.num_steps, curve.mean, marker="o" if is_point else None, label=text)
        if num_runs > 1 and is_point:
            axes.vlines(curve.num_steps, curve.low, curve.high, color=line.get_color(), alpha=0.5)
        elif num_runs > 1:
            axes.fill_between(curve.num_steps, curve.low, curve.high, color=line.get_color(), alpha=0.2, linewidth=0)
    axes.set_xlabel("environment steps")
    axes.set_ylabel("return of an evaluation")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.grid(visible=True, alpha=0.3)
    figure.legend(loc="outside upper left", frameon=False)  # over the axes it would hide curves
    picture = io.BytesIO()
    figure.savefig(picture, dpi=150, format=path.suffix[1:].lower())
    with written_aside(path) as file:
        write_all(file, picture.getbuffer())


def _legend_of(label: str, num_runs: int) -> str:
    """What a curve is called beside the others, in lines as long as the picture is wide."""
    lines = textwrap.wrap(f"{label} ({num_runs} run{'s' * (num_runs > 1)})", _LINE_LENGTH)
    return "\n".join(lines).replace("$", r"\$")  # two would begin and end a formula
