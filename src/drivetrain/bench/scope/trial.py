"""One run of a program in a fresh process: alone, or under a tool, and what that left behind.

Program, Tool | None -> python [TOOL] SCRIPT ... -> window.json, a recording -> Trial
"""

import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from drivetrain import scope
from drivetrain.bench.process import LOG_NAME, kill, last_words, start
from drivetrain.bench.scope.contenders import JUDGED, RECORDING, Program, Tool
from drivetrain.bench.scope.held_out import HeldOut, held_out
from drivetrain.bench.scope.window import FILE, Window
from drivetrain.core.errors import RunError

TIMEOUT_S = 600.0
CACHE = "own-cache"


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What a run came to.

    Attributes:
        wall_s: Of the program's window.
        cpu_s: CPU-seconds of its process in the window.
        report_s: From the window's end until the report was on disk; the program's own end is in it.
        nbytes: What the tool left on disk, its report included.
        held_out: Corrected time against the time alone, by blocks of the run itself; JUDGED only.
    """

    wall_s: float
    cpu_s: float
    report_s: float
    nbytes: int
    held_out: HeldOut | None


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
            held_out=held_out(scope.load(folder / RECORDING), found.pid) if tool is JUDGED else None,
        )


def finish(words: Sequence[str], folder: Path, timeout_s: float = TIMEOUT_S) -> None:
    """Run Python with these words to its end, with one computation thread.

    Raises:
        RunError: It failed, or took longer than that.
    """
    # What earlier programs said of this machine is no part of the measurement.
    tied = ("-P", "-m", "drivetrain.bench.tied", *words)
    process = start(tied, folder=folder, variables={"XDG_CACHE_HOME": str(folder / CACHE)})
    try:
        code = process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        raise RunError(f"{words[-1]}: took longer than {timeout_s:.0f} s") from None
    finally:
        kill(process)
    if code != 0:
        raise RunError(f"ended with code {code}: {last_words(folder)}")


def files(folder: Path) -> list[Path]:
    """What a tool left: everything but the program's own."""
    own = {FILE.name, LOG_NAME}
    return [
        file
        for file in folder.rglob("*")
        if file.is_file() and file.name not in own and not {"run", CACHE}.intersection(file.relative_to(folder).parts)
    ]
