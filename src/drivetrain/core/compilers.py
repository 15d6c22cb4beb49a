"""The system's C++ compiler, for what is compiled where it is used.

    FOLDER/RANDOM/NAME ──▶ FOLDER/NAME

Results are made aside and renamed, so that who finds one finds a whole one.
"""

import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

TIMEOUT_S = 300.0


def find_cxx() -> str | None:
    """Path of CXX, or where that is not set of the first of g++ and clang++; None where there is none."""
    wanted = os.environ.get("CXX")
    names = [wanted] if wanted else ["g++", "clang++"]
    return next((path for name in names if (path := shutil.which(name)) is not None), None)


@functools.cache
def version_of(compiler: str) -> str:
    """The first line of what a compiler says of itself: results depend on it."""
    said = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    return said.stdout.partition("\n")[0]


@contextmanager
def compiled_aside(target: Path) -> Generator[Path, None, None]:
    """A path of the same name in a new folder beside `target`, which a compiler may fill with more.

    When the block ends, what lies at that path takes the place of `target`; when it raises, `target` is as it was.
    The folder goes away either way.

    Raises:
        OSError: There is nothing at the path, or the folder of `target` cannot be written to.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        aside = Path(folder) / target.name
        yield aside
        with aside.open("rb") as whole:
            os.fsync(whole)  # or a machine that stops now may keep the name, and nothing behind it
        aside.replace(target)


def refusal(command: Sequence[str], source: str = "") -> str | None:
    """Run a compiler; the first error that it names, or None where it went through.

    Args:
        command: The compiler and its arguments.
        source: What it reads from standard input.
    """
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    if done.returncode == 0:
        return None
    said = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr[:300])
    return said.strip() or f"exit code {done.returncode}, without a word"
