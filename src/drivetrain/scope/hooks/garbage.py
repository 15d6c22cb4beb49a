"""Collections of Python's garbage collector: a class of time of their own, wherever they interrupt."""

import gc

from drivetrain.scope.sites import Site
from drivetrain.scope.spans import span


def install() -> None:
    """Record every collection of this process."""
    collection = span(Site("garbage collection", "", "gc"))

    def watch(stage: str, info: dict[str, int]) -> None:
        if stage == "start":
            collection.__enter__()
        else:
            collection.__exit__(None, None, None)

    gc.callbacks.append(watch)
