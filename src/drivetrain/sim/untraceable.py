"""What keeps an environment from being traced, as one sentence: where, what, and what to write instead."""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

import os
import re
import sys
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

import jax

from drivetrain.core.errors import CompileError
from drivetrain.sim.ir.importer.importer import INSTALLED
from drivetrain.sim.random import Counter

Answer = TypeVar("Answer")
FOLDERS = tuple(
    os.path.dirname(os.path.abspath(str(sys.modules[name].__file__))) + os.sep
    for name in ("jax", "jaxlib", "ml_dtypes", "numpy")  # the others come with JAX
)
"""Whose lines are not the author's."""
OWN = tuple(os.path.join(os.path.dirname(os.path.abspath(__file__)), part).rstrip(os.sep) for part in ("", "gymnasium"))
"""Where what traces an environment is; ours that are traced are beside it."""
NEEDS_NUMBER = (
    "it needs a number in Python (NumPy, int(), range(), a shape, an index of a list) that is only known when it runs: "
    "compute it in jax.numpy"
)
GIVE_SIZE = (
    "the size of an array depends on a value that is only known when it runs: give the most that there can be "
    "(size= of jnp.nonzero, jnp.where and jnp.unique, length= of jnp.bincount, total_repeat_length= of jnp.repeat), or "
    "mask an array of that size (jnp.arange(most) < n)"
)
KINDS: tuple[tuple[type[Exception] | tuple[type[Exception], ...], str], ...] = (
    (jax.errors.TracerBoolConversionError, "it decides in Python (`if`, `while`, `and`) by a value that is only known "
     "when it runs: use jnp.where, jax.lax.cond or jax.lax.while_loop"),
    (jax.errors.NonConcreteBooleanIndexError, "it takes elements by a mask, so their number is only known when it "
     "runs: use jnp.where(mask, x, 0) for x[mask]"),
    ((jax.errors.TracerArrayConversionError, jax.errors.TracerIntegerConversionError,
      jax.errors.ConcretizationTypeError), NEEDS_NUMBER),
    (jax.errors.KeyReuseError, "a key is used twice, so two random numbers are the same or related: split it first "
     "(`key, other = jax.random.split(key)`) and use each part once"),
)  # fmt: skip
"""What errors of JAX mean, the more special ones first."""
CONVERTED = "The problem arose with the"
"""In the message of an error of JAX's about `float(x)` and the like; others are of functions of JAX's own."""
SIZED = ("Shapes must be 1D sequences of concrete values", "must have __hash__ and __eq__ methods")
"""In messages of `jnp.zeros(n)`, and of `jax.random.split(key, n)`."""
SLICED = (
    "it slices by a number that is only known when it runs: use jax.lax.dynamic_slice, or a mask "
    "(jnp.where(jnp.arange(n) < k, x, 0) for x[:k])"
)
"""What JAX says in one way until 0.10 and in another since 0.11."""
MESSAGES = (
    (Counter.__name__, "under philox its key is a counter, which jax.random does not know: draw with "
     'drivetrain.sim.random, or use generator="threefry"'),
    ("invalid PRNG key data", "JAX's setting jax_default_prng_impl is another than threefry2x32, of which the keys "
     "here are: leave it at its default"),
    ("Slice entries must be static", SLICED),
    ("Array slice indices must have static", SLICED),
    ("unhashable type: 'DynamicJaxprTracer'", "it looks something up (in a dictionary or a set, or as a static "
     "argument of jit) by a value that is only known when it runs: index an array instead"),
)  # fmt: skip
"""What others of JAX's say, and mean."""
NO_ARRAY = re.compile(r"returned a value of type <class '(.+?)'>( at output component \S+)?, which is not")


def failure(name: str, what: str, error: Exception) -> CompileError:
    """The error of a trace, with the author's line.

    Args:
        name: Of the environment.
        what: Was traced: a method of it, or "policy".
        error: What stopped the trace.
    """
    cause = error
    if isinstance(error, jax.errors.KeyReuseError) and isinstance(error.__cause__, Exception):
        cause = error.__cause__
    return CompileError(f"{name}: `{what}` cannot be traced{line_of(cause)}: {reason(what, error)}")


def line_of(error: Exception) -> str:
    """The last line of a traceback that is neither a library's nor of what traces; empty if there is none.

    Where what traces called a library alone, as gymnax, it is that library's.
    """
    own, called, here = "", "", error.__traceback__
    while here is not None:
        file = here.tb_frame.f_code.co_filename
        if os.path.dirname(file) in OWN:
            own, called = "", ""  # who called this called no environment
        elif not file.startswith(FOLDERS):
            called = f" ({file}:{here.tb_lineno})"
            own = own if INSTALLED.search(file) else called
        here = here.tb_next
    return own or called


def reason(what: str, error: Exception) -> str:
    """What went wrong, and what to do about it."""
    text = " ".join(str(error).split())
    of_jax = type(error) is jax.errors.ConcretizationTypeError and CONVERTED not in text
    if of_jax and "`length` argument to `scan`" in text:
        return "the length of a jax.lax.scan is only known when it runs: use jax.lax.fori_loop"
    if of_jax or ("Tracer" in text and any(part in text for part in SIZED)):
        return GIVE_SIZE
    for kinds, meaning in KINDS:
        if isinstance(error, kinds):
            return meaning
    for part, meaning in MESSAGES:
        if part in text:
            return meaning
    no_array = NO_ARRAY.search(text)
    if no_array is not None:
        return (
            f"it gives a {no_array[1]}{no_array[2] or ''}, and JAX passes on arrays alone: leave it out, or, if it is "
            "a class of arrays, register it with jax.tree_util.register_dataclass"
        )
    told = f"{type(error).__name__}: {text[:300]}" if text else f"{type(error).__name__} in `{raised_by(error)}`"
    if what == "action_space":
        told += "; action_space(params) gives something whose sample(key) draws with JAX, as drivetrain.sim.spaces do"
    return told


def raised_by(error: Exception) -> str:
    """The function that raised it: of a method that a base class leaves to its author, the one that is missing."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return frame.f_code.co_name


def asked(name: str, what: str, ask: Callable[[], Answer]) -> Answer:
    """What an author's code answers outside of a trace; what it raises names it, too."""
    try:
        with jax.transfer_guard_host_to_device("allow"):  # bounds, as jnp.array([1.0, 8.0])
            return ask()
    except Exception as error:
        raise failure(name, what, error) from error


def counted(results: Any) -> str:
    """How many values there are instead."""
    return str(len(results)) if isinstance(results, tuple | list) else f"one {type(results).__name__}"


def check_number(name: str, what: str, results: Any, names: tuple[str, ...]) -> None:
    """A method gives as many values as it should.

    Raises:
        CompileError: It gives others.
    """
    if not isinstance(results, tuple | list) or len(results) != len(names):
        number = {2: "two", 6: "6"}[len(names)]
        raise CompileError(
            f"{name}: `{what}` must give {number} values, {', '.join(names[:-1])}"
            f"{' and ' if len(names) == 2 else ', '}{names[-1]}, got {counted(results)}"
        )
