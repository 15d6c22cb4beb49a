"""`drivetrain profile SCRIPT.py ARGS...`: run a program as Python would, and record where its time goes."""

import contextlib
import os
import resource
import signal
import sys
import time
from pathlib import Path

import rich.console

from drivetrain import scope
from drivetrain.core.errors import DrivetrainError, InvalidInput
from drivetrain.scope import program
from drivetrain.scope.report import terminal

USAGE = """usage: drivetrain profile [-o DIR] SCRIPT.py [ARGS...]
       drivetrain profile [-o DIR] -m MODULE [ARGS...]

Run a Python program unchanged, and record where its time goes: simulation, inference, replay, backpropagation,
optimizer, in all its processes. Ends with the program's exit code, after a table on standard error.

  -o DIR   a new folder for the recording; the default is profiles/DATE-TIME."""


def run(argv: list[str]) -> int:
    """Take our own option from the front, leave everything else to the program, and pass on how it ended.

    Not read by tyro: what follows the script is the program's, whatever it looks like.
    """
    if not argv or argv[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if argv else 2
    folder, command = _split(argv)
    code = program.run(folder, command)
    console = rich.console.Console(stderr=True)
    with contextlib.suppress(DrivetrainError):  # a program that was killed at once has left nothing to show
        terminal.show(scope.load(folder), console)
    console.print(f"profile: {folder}; show it again: drivetrain report {folder}", highlight=False, markup=False)
    return _end_like(code)


def _split(argv: list[str]) -> tuple[Path, list[str]]:
    folder = Path("profiles") / time.strftime("%Y%m%d-%H%M%S")
    if argv[0] == "-o":
        if len(argv) < 3:
            raise InvalidInput("profile: expected -o DIR SCRIPT.py [ARGS...], got too few words")
        folder, argv = Path(argv[1]), argv[2:]
    if argv[0] == "-m":
        if len(argv) < 2:
            raise InvalidInput("profile: expected -m MODULE, got no module")
    elif argv[0].startswith("-"):
        raise InvalidInput(f"profile: unknown option {argv[0]!r}: only -o DIR comes before the program")
    elif not Path(argv[0]).exists():
        raise InvalidInput(f"profile: {argv[0]}: no such file; name a script, or a module by -m")
    return folder, argv


def _end_like(code: int) -> int:
    """The program's exit code; where a signal ended it, end by the same signal."""
    if code >= 0:
        return code
    sys.stdout.flush()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the program's own core dump is enough
    with contextlib.suppress(OSError, ValueError):  # SIGKILL has no handler to reset
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
    return 128 - code  # a signal that does not end us
