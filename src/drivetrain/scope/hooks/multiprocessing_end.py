"""multiprocessing: a child ends its recording before it leaves by os._exit, which runs no exit handlers."""

import functools
from types import ModuleType
from typing import Any

from drivetrain.scope import _native


def install(module: ModuleType) -> None:
    """Hook what every child runs in."""
    process: Any = vars(module)["BaseProcess"]
    original = process._bootstrap

    @functools.wraps(original)
    def bootstrap(*args: Any, **keywords: Any) -> Any:
        try:
            return original(*args, **keywords)
        finally:
            _native.stop()

    process._bootstrap = bootstrap
