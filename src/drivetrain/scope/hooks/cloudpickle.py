"""cloudpickle: a class that comes by value, as those of a script come to its subprocesses, is defined empty, and gets
its methods afterwards; and a function that goes by value is taken apart, and arrives without its operation.
"""

import functools
from types import ModuleType
from typing import Any

from drivetrain.scope.hooks.patch import apply_to
from drivetrain.scope.spans import annotation_of


def install(module: ModuleType) -> None:
    """Hook where classes get their methods, and where functions are taken apart."""
    framework: Any = module
    original = framework._class_setstate

    @functools.wraps(original)  # it is pickled by its name
    def class_setstate(cls: type, state: Any) -> Any:
        result = original(cls, state)
        apply_to(cls)
        return result

    framework._class_setstate = class_setstate
    reduce = framework.Pickler.reducer_override

    @functools.wraps(reduce)
    def reducer_override(pickler: Any, found: Any) -> Any:
        reduced, inside = reduce(pickler, found), annotation_of(found)
        if inside is None or reduced is NotImplemented:  # by its name: whoever imports it decorates it there
            return reduced
        return inside, (found.__wrapped__,)

    framework.Pickler.reducer_override = reducer_override
