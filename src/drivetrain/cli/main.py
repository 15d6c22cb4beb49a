"""The `drivetrain` command: picks a verb, imports its file alone, and turns errors into one line.

argv -> main -> cli/VERB.py: run(argv) -> exit code

0  it worked               1  the run or a check failed       2  the user can mend it
130  Ctrl-C                141  the reader of our output went away
"""

import contextlib
import difflib
import errno
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from io import TextIOWrapper
from typing import Any, cast

import drivetrain
from drivetrain.core.errors import DrivetrainError, InvalidInput, RunError
from drivetrain.core.extras import missing_extra
from drivetrain.core.interrupts import INTERRUPTED, end_at_next_interrupt, noting_interrupts
from drivetrain.core.paths import folder_here
from drivetrain.core.printable import printable

# verb -> one line of help; each is a file of this folder with `run(argv: list[str]) -> int`.
VERBS: dict[str, str] = {
    "train": "train a policy with parallel actors and a learner",
    "resume": "go on with a run from its checkpoint",
    "eval": "evaluate the policy of a finished or stopped run",
    "plot": "draw the learning curves of runs, with intervals over seeds",
    "envs": "list the environments that can be trained on",
    "profile": "run a program unchanged, and record where its time goes",
    "report": "show where the time of a profiled program went",
    "replay": "say what is in a replay file",
    "bench": "measure drivetrain against its peers on this machine",
    "doctor": "check what this machine and this installation can do",
}

# Those whose arguments may name modules of the user's, as in `--torso module:name`.
TAKE_MODULES = ("train", "resume", "eval")

_STDOUT_FD, _STDERR_FD = 1, 2

OUTPUT_CLOSED = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; argv is without the program's name."""
    try:
        code = answer(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt:  # one more, while `answer` clears up after the first
        code = INTERRUPTED
    if argv is None and code == INTERRUPTED:  # the interpreter ends next
        end_at_next_interrupt()
    return code


def answer(arguments: list[str]) -> int:
    """Run one command line; what goes wrong is a line on standard error, and an exit code."""
    open_streams()
    with noting_interrupts() as interrupts:
        try:
            code = dispatch(arguments)
            sys.stdout.flush()
            return code
        except KeyboardInterrupt:
            return INTERRUPTED
        except BrokenPipeError:
            return OUTPUT_CLOSED
        except Exception as error:  # after Ctrl-C, what it became of, as where a class was being made
            return INTERRUPTED if interrupts.came else report(error)
        finally:
            drop_unwritten()


def open_streams() -> None:
    """Give a process that was started without standard streams the null device for them.

    What is opened next would else become one of them, and get what is printed. What a terminal's encoding
    lacks is printed as an escape, also halves of a pair of surrogates in the "C" locale, which lets only some through.
    """
    while (fd := os.open(os.devnull, os.O_RDWR)) <= _STDERR_FD:
        os.set_inheritable(fd, True)
    os.close(fd)
    sys.stdout = sys.stdout or os.fdopen(_STDOUT_FD, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(_STDERR_FD, "w", closefd=False)
    stdout = cast(object, sys.stdout)
    # Files and fields may have any name.
    if isinstance(stdout, TextIOWrapper) and stdout.errors in ("strict", "surrogateescape"):
        cast("TextIOWrapper[Any]", stdout).reconfigure(errors="backslashreplace")


def dispatch(arguments: list[str]) -> int:
    """Answer --help and --version, or import the chosen verb and run it."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    if arguments[0] == "--version":
        print(f"drivetrain {drivetrain.__version__}")
        return 0
    run = load_verb(arguments[0])
    folder_here()
    if arguments[0] in TAKE_MODULES:
        find_modules_here()
    try:
        return run(arguments[1:])
    except SystemExit:  # after --help, which must have been written as anything else
        sys.stdout.flush()
        raise


def usage() -> str:
    """The help text: one line per verb."""
    width = max(map(len, VERBS))
    verbs = "\n".join(f"  {verb:<{width}}  {summary}" for verb, summary in VERBS.items())
    return (
        "usage: drivetrain VERB [ARGUMENTS]\n"
        "       drivetrain VERB --help\n"
        "       drivetrain --version\n\n"
        f"verbs:\n{verbs}"
    )


def load_verb(verb: str) -> Callable[[list[str]], int]:
    """Import the file of one verb, and return its `run`."""
    if verb not in VERBS:
        nearest = difflib.get_close_matches(verb, VERBS, n=1)
        remedy = f"did you mean {nearest[0]!r}?" if nearest else f"choose from {', '.join(VERBS)}"
        kind = "option" if verb.startswith("-") else "verb"
        raise InvalidInput(f"unknown {kind} {verb!r}: {remedy}")
    module = importlib.import_module(f"drivetrain.cli.{verb}")
    return cast("Callable[[list[str]], int]", module.run)


def find_modules_here() -> None:
    """Modules of the folder the command is given in can be named, but hide none that is installed."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


_REMEDIES = {
    errno.ENOSPC: "neither the run directory nor the output may be on a full disk",
    errno.EFBIG: "neither the shell (`ulimit -f`) nor the file system may let a file grow so large",
    errno.EIO: "a disk that this reads or writes fails (`dmesg` says which)",
    errno.EMFILE: "this shell allows a process too few (`ulimit -n`)",
}


def report(error: Exception) -> int:
    """Print one line for a mistake of the user's; raise anything else again, it is a bug of ours."""
    if isinstance(error, ImportError) and not isinstance(error, DrivetrainError):
        error = missing_extra(error) or error
    if isinstance(error, DrivetrainError):
        message = " ".join(str(error).split())
    elif isinstance(error, MemoryError):
        message = (
            f"there is not enough memory: {str(error) or 'what was asked for does not fit'}; ask for something smaller"
        )
    elif isinstance(error, OSError) and error.filename is not None:
        message = f"{error.filename}: {error.strerror}"
    elif isinstance(error, OSError) and error.errno in _REMEDIES:  # what it was for, the system does not say
        message = f"{error.strerror}: {_REMEDIES[error.errno]}"
    else:
        raise error
    with contextlib.suppress(OSError):  # nobody reads it, or there is no room: the exit code says it all the same
        print(f"drivetrain: error: {printable(message)}", file=sys.stderr)
    return 1 if isinstance(error, RunError) else 2


def drop_unwritten() -> None:
    """Drop what a stream holds and cannot write, as its reader went away or its disk is full.

    Python would try again as it ends, complain, and change the exit code to 120.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


if __name__ == "__main__":
    sys.exit(main())
