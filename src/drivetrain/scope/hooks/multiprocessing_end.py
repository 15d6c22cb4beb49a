"""multiprocessing: a child ends its recording before it leaves by os._exit, which runs no exit handlers."""

import functools
import os
import sys
from types import ModuleType
from typing import Any

from drivetrain.scope import _native

_MARK = "ends_recording"


def install(module: ModuleType) -> None:
    """Hook what every child runs in, once."""
    process: Any = vars(module)["BaseProcess"]
    original = process._bootstrap
    if hasattr(original, _MARK):
        return

    @functools.wraps(original)
    def bootstrap(*args: Any, **keywords: Any) -> Any:
        try:
            return original(*args, **keywords)
        finally:
            _native.stop()

    setattr(bootstrap, _MARK, True)
    process._bootstrap = bootstrap


@functools.cache
def install_in_forked() -> None:
    """Hook it in forked children that record, whenever it was imported; once in a process."""
    os.register_at_fork(after_in_child=_hook_here)


def _hook_here() -> None:
    if _native.recording() and "multiprocessing.process" in sys.modules:
        install(sys.modules["multiprocessing.process"])
