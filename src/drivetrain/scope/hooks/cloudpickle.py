"""cloudpickle: a class that comes by value, as those of a script come to its subprocesses, is defined empty, and gets
its methods afterwards.
"""

import functools
from types import ModuleType
from typing import Any

from drivetrain.scope.hooks.patch import apply_to


def install(module: ModuleType) -> None:
    """Hook where classes get their methods."""
    framework: Any = module
    original = framework._class_setstate

    @functools.wraps(original)  # it is pickled by its name
    def class_setstate(cls: type, state: Any) -> Any:
        result = original(cls, state)
        apply_to(cls)
        return result

    framework._class_setstate = class_setstate
