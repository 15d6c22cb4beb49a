"""One run of a program in a fresh process: alone, or under a tool, and what that left behind.

Program, Tool | None -> python [TOOL] SCRIPT ... -> window.json, a recording -> Trial
"""

import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from drivetrain import scope
from drivetrain.bench.process import LOG_NAME, kill, last_words, start
from drivetrain.bench.scope.contenders import OURS, RECORDING, Program, Tool
from drivetrain.bench.scope.window import FILE, Window
from drivetrain.core.errors import RunError
from drivetrain.scope import costs
from drivetrain.scope.profile import Profile
from drivetrain.scope.trace.events import BEGIN

TIMEOUT_S = 600.0


@dataclass(frozen=True, kw_only=True)
class Added:
    """Seconds that recording added to the window of a program, as the recording itself has it."""

    likely_s: float
    low_s: float
    high_s: float
    num_spans: int


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What a run came to.

    Attributes:
        wall_s: Of the program's window.
        cpu_s: CPU-seconds of its process in the window.
        report_s: From the window's end until the report was on disk; the program's own end is in it.
        nbytes: What the tool left on disk, its report included.
        added: What the recording says that it added; ours only.
    """

    wall_s: float
    cpu_s: float
    report_s: float
    nbytes: int
    added: Added | None


def run(program: Program, tool: Tool | None) -> Trial:
    """Run a program once, in an empty folder that is removed afterwards.

    Raises:
        RunError: A process failed, or took too long; ends with its last line.
    """
    with tempfile.TemporaryDirectory(prefix="drivetrain-bench-") as name:
        folder = Path(name)
        words = [str(program.script), *program.arguments] if tool is None else tool.command(program)
        finish(words, folder)
        if not (folder / FILE).exists():
            raise RunError(f"{program.name}: the program left no {FILE}: {last_words(folder)}")
        found = Window.load(folder)
        before = files(folder)
        if tool is not None and tool.report:
            finish(tool.report, folder)
        report_s = (time.monotonic_ns() - found.end_ns) / 1e9
        after = files(folder) if tool is not None else before
        return Trial(
            wall_s=found.wall_s,
            cpu_s=found.cpu_s,
            report_s=report_s,
            nbytes=sum(file.stat().st_size for file in after),
            added=added(scope.load(folder / RECORDING), found) if tool is OURS else None,
        )


def finish(words: Sequence[str], folder: Path) -> None:
    """Run Python with these words to its end, with one computation thread."""
    process = start(words, folder=folder)
    try:
        code = process.wait(TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise RunError(f"{words[-1]}: took longer than {TIMEOUT_S:.0f} s") from None
    finally:
        kill(process)
    if code != 0:
        raise RunError(f"ended with code {code}: {last_words(folder)}")


def files(folder: Path) -> list[Path]:
    """What a tool left: everything but the program's own."""
    own = {FILE.name, LOG_NAME}
    return [file for file in folder.rglob("*") if file.is_file() and file.name not in own and "run" not in file.parts]


def added(profile: Profile, window: Window) -> Added:
    """What recording added to the main thread of a program in its window, by the correction of reports.

    Raises:
        RunError: The program's process is not in the recording, or its cost is not known.
    """
    trace = profile.trace
    per_process = costs.measured(trace)
    found = [i for i, t in enumerate(trace.threads) if t.tid == window.pid and per_process[t.process] is not None]
    if not found:
        raise RunError(f"process {window.pid} of the program, or what a span costs there, is not in its recording")
    thread = trace.threads[found[0]]
    cost = per_process[thread.process]
    assert cost is not None
    line = profile.timelines[found[0]]
    begin_ns = thread.time_ns[thread.kind == BEGIN]
    inside = np.asarray((begin_ns >= window.begin_ns) & (begin_ns < window.end_ns))
    charge = costs.charge(cost, line.entered[inside], line.entered_from[inside], profile.space.size)
    return Added(
        likely_s=float(charge.likely_ns.sum()) / 1e9,
        low_s=float(charge.low_ns.sum()) / 1e9,
        high_s=float(charge.high_ns.sum()) / 1e9,
        num_spans=int(inside.sum()),
    )
