"""What makes of a step or a reset something else than a function of its arguments: two traces of each are looked at.

traced twice ─▶ programs · attributes · generators of random numbers · clocks that were read meanwhile
"""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

import datetime
import gc
import pickle
import random
import sys
import time
from collections.abc import Callable
from collections.abc import Generator as Yields
from contextlib import contextmanager
from types import FrameType
from typing import Any, cast

import jax.core
import numpy as np

from drivetrain.core.garbage import uncollected
from drivetrain.sim.api import Environment
from drivetrain.sim.fingerprint import traced_for
from drivetrain.sim.fingerprint.trusted import ROOTS, root
from drivetrain.sim.gymnax import GymnaxEnvironment
from drivetrain.sim.trace import text_of

TIMES = ["time", "monotonic", "perf_counter", "process_time", "thread_time"]
CLOCKS = {getattr(time, f"{name}{unit}") for name in TIMES for unit in ("", "_ns")} | {
    time.localtime, time.gmtime, time.ctime, time.strftime,
}  # fmt: skip
NOW = ("now", "utcnow", "today")
"""Of the classes of `datetime`."""
GENERATORS = (random.Random, np.random.Generator, np.random.RandomState)
SHARED = (cast("Any", random.random).__self__, cast("Any", np.random.random).__self__)
"""What functions of the two modules draw from; `gc` does not know it where somebody has called `gc.freeze`."""


def impurities(env: Environment, what: str, trace_it: Callable[[], tuple[Any, Any]]) -> list[str]:
    """What a second trace of a method does otherwise than the first, and what both read and change.

    Args:
        env: Whose attributes are looked at.
        what: The method's name.
        trace_it: Gives shapes and a jaxpr.
    """
    generators = [x for x in [*SHARED, *gc.get_objects()] if issubclass(type(x), GENERATORS)]
    drawn, held = states(generators), [attributes(env)]
    programs, clocks = list[Any](), list[str]()
    for _ in range(2):
        # JAX would answer from its memory what it has traced under jit before.
        with traced_for(object()), watched(clocks):
            programs.append(trace_it()[1])
        held.append(attributes(env))
    before, between, after = held
    changed = sorted(name for name in after if name in before and not before[name] == between[name] == after[name])
    told = [f"it changes the attribute {name!r}; keep what changes in the state, which it returns" for name in changed]
    if programs[0].effects:
        told.append("it prints or calls back into Python (as jax.debug.print does); take that out")
    if clocks:
        told.append(f"it reads {clocks[0]}; count steps in the state instead")
    elif text_of(programs[0]) != text_of(programs[1]):
        told.append(
            "traced a second time it is another program; take random numbers from the key (jax.random, not random or "
            "numpy.random), and read no clock, counter or file"
        )
    elif states(generators) != drawn:
        told.append("it draws from `random` or numpy.random; take random numbers from the key, with jax.random")
    return [f"`{what}` is impure: {fault}" for fault in told]


@contextmanager
def watched(clocks: list[str]) -> Yields[None]:
    """Note which clocks are read, and where, by others than JAX, NumPy and the standard library."""

    def watch(frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and is_clock(called) and root(frame.f_globals.get("__name__")) not in ROOTS:
            name = f"{called.__self__.__name__}.{called.__name__}"
            clocks.append(f"{name}, a clock ({frame.f_code.co_filename}:{frame.f_lineno})")

    others = sys.getprofile()
    with uncollected():  # by callbacks of which, as hypothesis has one, clocks are read in the midst of a trace
        sys.setprofile(watch)
        try:
            yield
        finally:
            sys.setprofile(others)


def is_clock(called: Any) -> bool:
    """Whether a function in C tells the time."""
    owner = getattr(called, "__self__", None)
    return called in CLOCKS or (isinstance(owner, type) and issubclass(owner, datetime.date) and called.__name__ in NOW)


def states(generators: list[Any]) -> list[Any]:
    """Of generators of random numbers, in a form that can be compared."""
    return [comparable(generator) for generator in generators]


def attributes(env: Environment) -> dict[str, Any]:
    """Attributes of the environment and of its class in a form that can be compared."""
    inner = env.inner if isinstance(env, GymnaxEnvironment) else env
    own: dict[str, Any] = getattr(inner, "__dict__", {})
    of_classes = {name: value for kind in type(inner).__mro__[-2::-1] for name, value in vars(kind).items()}
    return {name: comparable(value) for name, value in (of_classes | own).items()}


def comparable(value: Any) -> Any:
    """A value by what it shows, and by all that it holds where that can be written down."""
    if isinstance(value, jax.core.Tracer):
        return object()
    try:
        return repr(value), pickle.dumps(value)
    except Exception:  # of what cannot be pickled
        return repr(value)
