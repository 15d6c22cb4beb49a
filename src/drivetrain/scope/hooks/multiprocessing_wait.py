"""multiprocessing: waiting for another process's message is class `wait`, in whatever operation is around."""

from types import ModuleType

from drivetrain.scope.hooks.patch import record
from drivetrain.scope.sites import Site


def install(module: ModuleType) -> None:
    """Hook connections; unpickling what came is not waiting, and not in the spans."""
    connection = vars(module)["Connection"]
    record(connection, "_recv_bytes", Site("Connection.recv", "", "wait"))
    record(connection, "_poll", Site("Connection.poll", "", "wait"))
