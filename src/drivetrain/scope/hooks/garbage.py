"""Collections of Python's garbage collector: a class of time of their own, wherever they interrupt."""

import gc

from drivetrain.scope import _native
from drivetrain.scope.sites import Site, table


def install() -> None:
    """Record every collection of this process."""
    _native.collection_site(table.number(Site("garbage collection", "", "gc")))
    gc.callbacks.append(_native.watch_collection)
