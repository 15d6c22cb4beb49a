"""`drivetrain profile SCRIPT.py ARGS...`: run a program as Python would, and record where its time goes."""

import contextlib
import itertools
import os
import resource
import shlex
import signal
import sys
import time
from pathlib import Path

from drivetrain import scope
from drivetrain.core.errors import DrivetrainError, InvalidInput
from drivetrain.core.paths import given_path
from drivetrain.core.words import MOST_DIGITS
from drivetrain.scope import program
from drivetrain.scope.calibration import prior
from drivetrain.scope.calibration.costs import multiples
from drivetrain.scope.cupti.plan import plan
from drivetrain.scope.report import terminal
from drivetrain.scope.report.console import console, path_shown
from drivetrain.scope.session import CALIBRATE_EVERY, check_calibrate_every

USAGE = """usage: drivetrain profile [OPTIONS] SCRIPT.py [ARGS...]
       drivetrain profile [OPTIONS] -m MODULE [ARGS...]

Run a Python program unchanged, and record where its time goes: simulation, inference, replay, backpropagation,
optimizer, in all its processes. Ends with the program's exit code, after a table on standard error.

  -o DIR                a new or empty folder for the recording; the default is profiles/DATE-TIME.
  --simulator NAME      a function that simulates and belongs to no framework that is known: MODULE:FUNCTION or
                        MODULE:CLASS.METHOD, in Python or native; any number of them.
  --torch-operators     record each operator of PyTorch, not only modules whole: tells Python between operators from
                        native code, and costs more. Compiles a few lines the first time.
  --gpu auto|on|off     record what NVIDIA GPUs do, by CUPTI: where there is a driver (auto, the default); refuse to run
                        without (on); leave them alone (off). Needs the extra `cupti`; compiles a few lines the first
                        time.
  --calibrate-every N   one of N blocks of steps is left unrecorded, to learn what recording costs: 10 by default,
                        0 for none."""

_WITH_VALUE = ("-o", "--simulator", "--gpu", "--calibrate-every")
_WITHOUT = ("--torch-operators",)


def run(argv: list[str]) -> int:
    """Take our own options from the front, leave everything else to the program, and pass on how it ended.

    Not read by tyro: what follows the script is the program's, whatever it looks like.
    """
    if not argv or argv[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if argv else 2
    options, command = _split(argv)
    calibrate_every = _number(options)
    hooks = program.asked_hooks(options.get("--simulator", []), operators="--torch-operators" in options)
    gpu = plan(options.get("--gpu", ["auto"])[-1])
    folder = given_path("-o", options["-o"][-1], "a new folder") if "-o" in options else _new_folder()
    code = program.run(folder, command, hooks, gpu=gpu, calibrate_every=calibrate_every)
    try:
        _show(folder)
    except Exception as error:  # standard error that is closed or full, say: how the program ended is told in any case
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(f"drivetrain: the report failed: {type(error).__name__}: {error}\n")
    return _end_like(code)


def _new_folder() -> Path:
    """profiles/DATE-TIME, made by nobody else: programs that begin in the same second are numbered.

    Raises:
        InvalidInput: It cannot be made.
    """
    name = time.strftime("%Y%m%d-%H%M%S")
    for number in itertools.count(1):
        folder = Path("profiles") / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir(parents=True)
            return folder
        except OSError as error:
            if not isinstance(error, FileExistsError) or not folder.exists():  # or `profiles` leads nowhere
                where = f"in {folder.parent}: {error.strerror}"
                raise InvalidInput(f"profile: cannot make a folder {where}; name another by -o DIR") from error
    raise AssertionError


def _show(folder: Path) -> None:
    """Print the report, and keep what the run says of this machine."""
    where = console(stderr=True)
    with contextlib.suppress(DrivetrainError):  # a program that was killed at once has left nothing to show
        profile = scope.load(folder)
        terminal.show(profile, where)
        if not profile.correction.changes:
            prior.remember(multiples(profile.trace, profile.correction.costs))
    # In one line, however long: it is there to be copied.
    shown = path_shown(folder, where)
    where.print(f"profile: {shown}; show it again: {shlex.join(['drivetrain', 'report', shown])}", soft_wrap=True)


def _split(argv: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Our own options with their values, and what follows `python`."""
    options: dict[str, list[str]] = {}
    while argv and (name := argv[0].partition("=")[0]) in (*_WITH_VALUE, *_WITHOUT):
        if name != argv[0]:
            if name not in _WITH_VALUE or not name.startswith("--"):
                break
            argv = [name, argv[0].removeprefix(f"{name}="), *argv[1:]]  # --gpu=on is --gpu on
        num_words = 2 if name in _WITH_VALUE else 1
        if len(argv) <= num_words or (num_words == 2 and argv[1] in (*_WITH_VALUE, *_WITHOUT)):
            value = " VALUE" if num_words == 2 else ""
            raise InvalidInput(f"profile: expected {name}{value} SCRIPT.py [ARGS...], got {shlex.join(argv)}")
        options.setdefault(name, []).extend(argv[1:num_words])
        argv = argv[num_words:]
    if argv[0] == "-m":
        if len(argv) < 2:
            raise InvalidInput("profile: expected -m MODULE, got no module")
    elif argv[0].startswith("-"):
        raise InvalidInput(
            f"profile: unknown option {argv[0]!r}: only {', '.join((*_WITH_VALUE, *_WITHOUT))} come before the program"
        )
    elif not argv[0] or not Path(argv[0]).exists():
        raise InvalidInput(f"profile: {argv[0] or repr('')}: no such file; name a script, or a module by -m")
    return options, argv


def _number(options: dict[str, list[str]]) -> int:
    text = options.get("--calibrate-every", [str(CALIBRATE_EVERY)])[-1]
    if not text.isdecimal() or len(text) > MOST_DIGITS:
        got = f"one of {len(text):,} digits" if text.isdecimal() else repr(text)
        raise InvalidInput(f"--calibrate-every: expected a number of blocks, got {got}")
    check_calibrate_every(int(text))
    return int(text)


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
