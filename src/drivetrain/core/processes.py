"""Processes of our own: interpreters that run one module, each the first of a process group.

what it is told (a pickle on its standard input) -> python -P -m MODULE -> what it writes

The group keeps them out of the terminal's reach, so that Ctrl-C is their parent's, and holds whatever their
environments start: ended together. A process that asks for it (`die_with`) ends with its parent.
"""

import atexit
import contextlib
import ctypes
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn, Protocol, cast

from drivetrain.core.paths import folder_here

_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15


class Process(Protocol):
    """What can be ended."""

    pid: int
    """Its process id, and that of its group."""

    def kill(self) -> None:
        """Send it SIGKILL, if it still runs."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, when it has ended; subprocess.TimeoutExpired after so many seconds."""
        ...


def begin(
    module: str,
    told: Any,
    *,
    environment: Mapping[str, str],
    stdout: IO[Any],
    stderr: IO[Any],
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """A process that runs `module` with our `sys.path`; one that died before it was told says so by its exit code.

    Args:
        module: Its name; it asks `told` for what it is to do.
        environment: Variables beside ours.
        stdout: Where it prints.
        stderr: Where its errors go.
        pass_fds: What it has open besides.
    """
    words = pickle.dumps(told)
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", module],
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=stderr,
        env={**os.environ, **environment, **import_path()},
        pass_fds=pass_fds,
        process_group=0,
    )
    assert process.stdin is not None
    try:
        with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
            pipe.write(words)
    except BaseException:  # Ctrl-C, before anybody knows of it
        end(process)
        raise
    return process


def told() -> Any:
    """What this process was told by who has begun it, as a pickle on standard input."""
    with open(0, "rb", closefd=False) as stdin:
        return pickle.load(stdin)


def how_ended(code: int) -> str:
    """What an exit code says: a signal, or the code."""
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def succeeds_anew(program: str) -> bool:
    """Whether a few lines of Python raise nothing in a new process with our `sys.path`."""
    return said_anew(program) is not None


def said_anew(program: str) -> str | None:
    """What a few lines of Python print in a new process with our `sys.path`; None: they have raised something."""
    command, environment = [sys.executable, "-P", "-c", program], {**os.environ, **import_path()}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace", check=False)
    return done.stdout if done.returncode == 0 else None


def import_path() -> dict[str, str]:
    """The variable of an environment with which another interpreter finds the modules that this one does.

    A folder with a colon in its name, which parts folders there, is named as seen from here, where the other begins. A
    relative one is where it was when this one first looked into it, and looks since.

    Raises:
        InvalidInput: The present folder, which is among them, was removed.
    """
    texts = [path for path in sys.path if isinstance(cast(object, path), str)]  # `import` looks at no others
    folders = [str(getattr(sys.path_importer_cache.get(path), "path", path)) or str(folder_here()) for path in texts]
    return {"PYTHONPATH": os.pathsep.join(os.path.relpath(path) if os.pathsep in path else path for path in folders)}


def end(process: Process, patience_s: float | None = None) -> bool:
    """End it at once, with its group, and wait until it is gone; it may have ended.

    Args:
        process: Which.
        patience_s: Seconds to wait at most; None: as long as it takes.

    Returns:
        Whether it is gone. One that is not runs no code any more: the kernel keeps it until a disk answers, or a server
        of files.
    """
    end_group(process)
    process.kill()  # it may have left its group
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(patience_s)
        return True
    return False


def end_group(process: Process) -> None:
    """End what is left of its group, also after it has ended itself."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def end_all(process: Process) -> None:
    """End one that is of our own group, as a compiler, and whatever it has begun; its caller waits for it."""
    below = list(descendants(process.pid))
    process.kill()
    for pid in below:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def descendants(pid: int) -> Iterator[int]:
    """Process ids below `pid`, of those alive now."""
    for listing in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(word) for word in listing.read_text().split()]
        except OSError:  # the thread ended in between
            continue
        for child in children:
            yield child
            yield from descendants(child)


def die_with(supervisor_pid: int) -> None:
    """Have the kernel kill this process when its parent dies; leave if it already has.

    The signal follows the parent's thread that started us; that thread waits for us until we end.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != supervisor_pid:
        sys.exit("the supervisor died before this process had started")


def go_by(name: str) -> None:
    """Be called so by the kernel: in `top`, `ps -o comm` and debuggers; of the name it keeps 15 bytes."""
    ctypes.CDLL(None).prctl(_PR_SET_NAME, ctypes.c_char_p(name.encode()), 0, 0, 0)


def leave(*, patience_s: float | None = None) -> NoReturn:
    """End with exit code 0 as an interpreter does, without taking apart what it has loaded: that is a tenth of a second
    of JAX's process. Threads are waited for, and what was registered with `atexit` is called.

    Args:
        patience_s: Seconds for threads to end, as those of environments may not, and then again for what was
            registered, which may wait for a process; None: as long as it takes.
    """
    watch = _after(patience_s, lambda: _leave_behind(patience_s))
    # As multiprocessing does in its forks.
    threading._shutdown()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    watch.cancel()
    _end_well(patience_s)


def _after(seconds: float | None, act: Callable[[], object]) -> threading.Timer:
    """A thread that does it then; None: that never begins."""
    timer = threading.Timer(seconds or 0.0, act)
    timer.daemon = True
    if seconds is not None:
        timer.start()
    return timer


def _leave_behind(patience_s: float | None) -> None:
    left = [thread.name for thread in threading.enumerate() if not thread.daemon and thread.name != "MainThread"]
    _say(f"ended, though threads go on that were waited for: {', '.join(left)}")
    _end_well(patience_s)


def _end_well(patience_s: float | None) -> NoReturn:
    """Call what was registered, as long as there is patience for it."""
    _after(patience_s, _give_up)
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _give_up() -> NoReturn:
    _say("ended, though what was registered with atexit, as by a process that multiprocessing waits for, goes on")
    os._exit(0)


def _say(words: str) -> None:
    with contextlib.suppress(OSError):
        os.write(2, f"{words}\n".encode())  # another thread may hold the stream
