"""The system's C++ compiler, for what is compiled where it is used.

    FOLDER/NAME.RANDOM/NAME ──▶ FOLDER/NAME

Results are made aside and renamed, so that who finds one finds a whole one.
"""

import functools
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from drivetrain.core.errors import CompileError
from drivetrain.core.processes import end_all
from drivetrain.core.words import counted

LIMIT_CPU_S = 300
"""Of each of a compiler's processes; the processor's time, of which a busy machine gives little for a minute."""
TIMEOUT_S = 1800.0
"""For a compiler that waits, as for a file of a server that is gone."""
VERSION_TIMEOUT_S = 30
"""For one that is asked for its version, which takes some milliseconds."""
SMALLEST = "#include <cmath>\n#include <cstdint>\n#include <cstring>\ninline constexpr std::int32_t one = 1;\n"
"""What every compiler of C++17 takes."""
KILLED = "it was killed, as programs are where memory runs out"
"""What `refusal` says of one that somebody ended, or one of the programs that it began."""

Command = tuple[str, ...]
"""A compiler's path, and what CXX has after it, as in "ccache g++"."""


def find_cxx() -> Command | None:
    """CXX, or where that is not set the first of g++ and clang++; None where there is none."""
    wanted = os.environ.get("CXX", "").strip()
    commands = [_words(wanted)] if wanted else [["g++"], ["clang++"]]
    found = ((shutil.which(name), rest) for name, *rest in commands)
    return next(((path, *rest) for path, rest in found if path is not None), None)


def none_found() -> str:
    """What there is in place of a compiler where `find_cxx` finds none, in words."""
    wanted = os.environ.get("CXX")
    return f"no {wanted} (from CXX)" if wanted else "neither g++ nor clang++"


def _words(command: str) -> list[str]:
    """As a shell parts them; a path with spaces in it, and what no shell would take, is one."""
    try:
        return [command] if shutil.which(command) else shlex.split(command)
    except ValueError:
        return [command]


@functools.cache
def version_of(compiler: Command) -> str:
    """The first line of what a compiler says of itself: results depend on it.

    Raises:
        CompileError: It cannot be run, or did not say anything in time.
    """
    command = [*compiler, "--version"]
    try:
        return _answered(command, VERSION_TIMEOUT_S).stdout.partition("\n")[0]
    except subprocess.TimeoutExpired:
        raise CompileError(
            f"the C++ compiler does not answer: `{shlex.join(command)}` was not done after "
            f"{counted(VERSION_TIMEOUT_S, 'second')}; mend it, or name another by CXX"
        ) from None
    except OSError as error:
        raise CompileError(
            f"the C++ compiler cannot be run: `{shlex.join(command)}`: {error.strerror}; mend it, "
            "or name another by CXX"
        ) from error


@contextmanager
def compiled_aside(target: Path) -> Generator[Path, None, None]:
    """A path of the same name in a new folder beside `target`, `NAME.RANDOM`, which a compiler may fill with more.

    When the block ends, what lies at that path takes the place of `target`; when it raises, `target` is as it was.
    The folder goes away either way.

    Raises:
        OSError: There is nothing at the path, or the folder of `target` cannot be written to.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f"{target.name}.") as folder:
        aside = Path(folder) / target.name
        yield aside
        with aside.open("rb") as whole:
            os.fsync(whole)  # or a machine that stops now may keep the name, and nothing behind it
        aside.replace(target)


def refusal(command: Sequence[str], source: str = "") -> str | None:
    """Run a compiler; the first error that it names, or that it took too long, or None where it went through.

    Args:
        command: The compiler and its arguments.
        source: What it reads from standard input.
    """
    limited = ["sh", "-c", f'ulimit -S -t {LIMIT_CPU_S} 2>/dev/null; exec "$@"', "sh", *command]
    try:
        done = _answered(limited, TIMEOUT_S, source)
    except subprocess.TimeoutExpired:
        return f"it was not done after {TIMEOUT_S:g} seconds"
    if done.returncode == 0:
        return None
    if done.returncode == -signal.SIGXCPU or str(signal.strsignal(signal.SIGXCPU)) in done.stderr:
        return f"it was not done after {counted(LIMIT_CPU_S, 'second')} of processor time"
    if done.returncode == -signal.SIGKILL or str(signal.strsignal(signal.SIGKILL)) in done.stderr:
        return KILLED
    first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr[:300])
    return first.strip() or f"exit code {done.returncode}, without a word"


def _answered(command: Sequence[str], timeout_s: float, source: str = "") -> subprocess.CompletedProcess[str]:
    """What a compiler has come to; whatever ends the wait for it ends all that it has begun, too.

    Raises:
        subprocess.TimeoutExpired: It was not done in time.
    """
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, errors="replace") as process:
        try:
            said, complained = process.communicate(source, timeout=timeout_s)
        except BaseException:  # also an interruption, which a notebook tells this process alone
            end_all(process)
            raise
    return subprocess.CompletedProcess(command, process.returncode, said, complained)
