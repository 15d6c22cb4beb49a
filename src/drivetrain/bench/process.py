"""A rival: its module, what it needs, and the fresh process that it runs in.

    Rival -> launch: python -m drivetrain.bench.BENCH.peers.RIVAL ARGUMENTS -> log.txt, exit code

Nothing of one process reaches the next: no imported framework, no compiled program, no warm cache.
"""

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from drivetrain.bench import tied
from drivetrain.bench.report import Skipped
from drivetrain.core.processes import import_path

# What pins a process to one computation thread, in every framework; read when it is imported.
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "PJRT_NPROC": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
}
# Everybody compiles in every run: a cache kept from an earlier one would hide that cost.
NO_COMPILATION_CACHE = {"JAX_ENABLE_COMPILATION_CACHE": "false"}
LOG_NAME = "log.txt"
TIDY_S = 10.0  # for resource trackers to remove what others left


@dataclass(frozen=True, kw_only=True)
class Rival:
    """One contender.

    Attributes:
        name: In tables.
        module: What its process runs.
        requires: Modules that must be installed for it.
        install: The command that installs them.
        variables: Of its process's environment, beside those that everybody has.
        form: Of a module that serves several: a last word on its command line; empty for none.
    """

    name: str
    module: str
    requires: tuple[str, ...]
    install: str
    variables: tuple[tuple[str, str], ...] = ()
    form: str = ""

    def missing(self) -> Skipped | None:
        """The reason why this rival cannot run here; None when it can."""
        reason = lacking(*self.requires)
        return Skipped(name=self.name, reason=reason, remedy=self.install) if reason else None


def lacking(*modules: str) -> str:
    """Which of these modules are not installed, in words; empty where all are. None is imported but for its parent."""
    absent = [name for name in modules if not is_installed(name)]
    return f"not installed: {', '.join(absent)}" if absent else ""


def is_installed(module: str) -> bool:
    """Whether a module can be found; one inside a package that is not there, too, is not."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def environment_of(threads: int | None, inherited: Mapping[str, str]) -> dict[str, str]:
    """Environment variables of a rival's process: our import path, thread counts, no cache, who began it.

    Args:
        threads: 1 pins every framework to one computation thread; None leaves its own choice.
        inherited: The variables of this process.
    """
    variables = {name: value for name, value in inherited.items() if name not in ONE_THREAD}
    pinned = ONE_THREAD if threads == 1 else {}
    return variables | import_path() | NO_COMPILATION_CACHE | pinned | {tied.VARIABLE: str(os.getpid())}


def launch(
    rival: Rival,
    arguments: Sequence[str],
    *,
    folder: Path,
    threads: int | None = 1,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a rival's module in a process group of its own, with its output in `folder`/log.txt."""
    words = ["-P", "-W", "ignore", "-m", rival.module, *arguments, *([rival.form] if rival.form else [])]
    return start(words, folder=folder, threads=threads, pass_fds=pass_fds, variables=dict(rival.variables))


def start(
    words: Sequence[str],
    *,
    folder: Path,
    threads: int | None = 1,
    pass_fds: Sequence[int] = (),
    variables: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start Python with these words on its command line, and more environment variables, in the same way.

    What it leaves among temporary files lies in the folder, too: Stable-Baselines3 makes a directory for each training.
    """
    with (folder / LOG_NAME).open("w") as log:
        return subprocess.Popen(
            [sys.executable, *words],
            cwd=folder,
            env=environment_of(threads, {**os.environ, **(variables or {})}) | {"TMPDIR": str(folder.absolute())},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=pass_fds,
        )


def last_words(folder: Path) -> str:
    """The last line that a rival wrote to its log."""
    return (last_lines(folder, most=1) or ["no output"])[0]


def last_lines(folder: Path, *, most: int) -> list[str]:
    """The last lines that a rival wrote to its log, at most so many."""
    return (folder / LOG_NAME).read_text(errors="replace").strip().splitlines()[-most:]


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a rival with its children, also where it has ended itself, and wait until all of them are gone.

    Python's resource trackers among them end by themselves: they first remove the named semaphores and the
    shared memory that those who were killed cannot remove any more.
    """
    late = time.monotonic() + TIDY_S
    while pids := list(running_members(process.pid)):
        for pid in pids:
            if time.monotonic() > late or not is_resource_tracker(pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)
    process.wait()


def running_members(group: int) -> Iterator[int]:
    """The processes of a process group that can still run."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            state, _, its_group = stat.read_text().rpartition(")")[2].split()[:3]
            if int(its_group) == group and state not in "ZX":
                yield int(stat.parent.name)


def is_resource_tracker(pid: int) -> bool:
    """Whether a process is the one that `multiprocessing` starts to remove what others leave behind."""
    try:
        return b"multiprocessing.resource_tracker import main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False
