"""Waiting of the standard library: for another thread, another process, or a file, in whatever operation is around.

Only what Python classes wait in can be hooked. threading's events, barriers, semaphores and queues, and futures, all
wait in `Condition.wait`; multiplexers wait for pipes, sockets and asyncio's next event; the process that tracks
resources of `multiprocessing` waits as long as it lives. `time.sleep`, `threading.Lock` and `queue.SimpleQueue` are
builtins, which programs may check for, and stay what they are: what they wait for is recorded below them
(hooks/system_waits.py).
"""

from types import ModuleType

from drivetrain.scope.hooks.patch import record
from drivetrain.scope.sites import Site

_TRACKER = "multiprocessing.resource_tracker"
_METHODS: dict[str, list[tuple[str, str, str]]] = {
    "threading": [("Condition", "wait", "Condition.wait"), ("Thread", "join", "Thread.join")],
    "selectors": [
        (owner, "select", "selectors.select") for owner in ("SelectSelector", "_PollLikeSelector", "EpollSelector")
    ],
    "subprocess": [("Popen", "wait", "subprocess.wait")],
    # Unpickling what came is not waiting, and not in the span.
    "multiprocessing.connection": [("Connection", "_recv_bytes", "Connection.recv")],
    "multiprocessing.popen_fork": [("Popen", "wait", "Process.join")],  # of all ways to start a process
    "multiprocessing.synchronize": [
        ("Condition", "wait", "Condition.wait between processes"),
        ("SemLock", "__enter__", "lock between processes"),
    ],
}


def install(module: ModuleType) -> None:
    """Hook the classes of one module."""
    if module.__name__ == _TRACKER:  # a process that reads a pipe until the program ends, in a plain loop
        record(module, "main", Site("resource_tracker.main", "", "wait"))
        return
    for owner, method, name in _METHODS[module.__name__]:
        record(vars(module)[owner], method, Site(name, "", "wait"), collapses=True)
