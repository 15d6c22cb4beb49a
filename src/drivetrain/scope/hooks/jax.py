"""JAX: calls of jitted functions (tracing, compiling, dispatch; on the CPU often the computation) and waiting.

`jax.jit` and `jax.pmap` keep their arguments and their results' attributes; what they return is recorded under the
function's name, in whatever operation is around. Nothing is synchronised that the program does not synchronise.

What a jitted function is for shows while it is traced: one that takes a gradient is an update, one that applies a
network of Flax and takes none a forward pass (scope/rules.py), one that steps a simulator of gymnax simulation; one
that does several of these is none of them. One of which nothing is known but that its program multiplies matrices may
be a forward pass: what becomes of its results tells (scope/acting.py). All that is presumed of it where nothing around
says what it is.
"""

import functools
import sys
import weakref
from collections.abc import Callable
from types import CodeType, ModuleType
from typing import Any, cast

from drivetrain.scope import _native
from drivetrain.scope._native import Wrapped
from drivetrain.scope.hooks.patch import record, record_native
from drivetrain.scope.sites import FETCHED, FORWARD, NETWORK, SEVERAL, Site, table
from drivetrain.scope.spans import span

_LOOPS = ("scan", "while_loop", "fori_loop", "map")
_MULTIPLY = frozenset({"dot_general", "conv_general_dilated", "ragged_dot_general"})
"""Operations of a program of JAX (jaxpr) that networks are made of."""
_numbers: dict[str, dict[tuple[CodeType | None, ...], int]] = {}
"""Name and place of jitted functions -> the code of each of them and of what is around it -> which of them it is."""
_seen: dict[int, set[str]] = {}
"""Sites of jitted functions -> what was done while they were traced."""
_looked_into: "weakref.WeakSet[Any]" = weakref.WeakSet()
"""Programs that a jitted function was compiled from."""


def install(module: ModuleType) -> None:
    """Hook jax.jit, gradients, loops, and waiting for results."""
    jax: Any = module
    record(jax, "block_until_ready", Site("jax.block_until_ready", "", "accelerator_sync", presumed=FETCHED))
    for name in _LOOPS:
        record(jax.lax, name, Site(f"jax.lax.{name}", "", "backend"), collapses=True)
    for name in ("grad", "value_and_grad"):
        setattr(jax, name, _giving_gradients(getattr(jax, name)))
    record(jax, "vjp", Site("jax.vjp", "", "backend", presumed="backpropagation"), tell=saw("backpropagation"))
    jax.jit, jax.pmap = _giving_jitted(jax.jit), _giving_jitted(jax.pmap)
    _wait_for_values(sys.modules["jax._src.array"])
    _look_into_programs(sys.modules["jax._src.pjit"])


def saw(operation: str) -> Callable[[], None]:
    """What tells, wherever it is called, that the jitted functions being traced there do this."""
    return functools.partial(_add, {operation})


def _add(seen: set[str]) -> None:
    """To the jitted functions that this thread is tracing."""
    for number in _native.inside():
        if number in _seen and not seen <= _seen[number]:
            _seen[number] |= seen
            table.presume(number, _purpose(_seen[number]))


def _purpose(seen: set[str]) -> str:
    """An update has forward passes of its own, and networks are not all that multiplies; nothing else may come
    together.
    """
    kinds = seen - {NETWORK} or {NETWORK}
    kinds = kinds - {FORWARD} if "backpropagation" in kinds else kinds
    return next(iter(kinds)) if len(kinds) == 1 else SEVERAL


def _giving_jitted(original: Any) -> Any:
    @functools.wraps(original)
    def jit(*args: Any, **keywords: Any) -> Any:
        jitted = original(*args, **keywords)
        if not hasattr(jitted, "lower"):  # jit(static_argnames=...) gives a decorator first
            return functools.partial(_decorate, jitted)
        return _recorded(jitted)

    return jit


def _decorate(decorator: Any, function: Any) -> Any:
    return _recorded(decorator(function))


def _recorded(jitted: Any) -> Any:
    inside = span(Site(f"jit {_name(jitted)}", "", "backend"), is_traced=True)
    # A function that was traced before is not again, inside another: what was seen of it is handed on.
    return Wrapped(jitted, inside, functools.partial(_add, _seen.setdefault(inside.site, set())))


def _name(jitted: Any) -> str:
    """That of the innermost function, with the place of its code, and a number from the second of a place on: what was
    seen of one function must not be presumed of another. Functions of the same code, in the same wrappers, are one.
    """
    layers = _layers(jitted)
    codes = [_code(layer) for layer in layers]
    name = getattr(layers[-1], "__qualname__", type(layers[-1]).__qualname__)
    if (code := codes[-1]) is not None:
        name = f"{name}, line {code.co_firstlineno} of {getattr(layers[-1], '__module__', '?')}"
    numbers = _numbers.setdefault(name, {})
    number = numbers.setdefault(tuple(codes), len(numbers) + 1)
    return name if number == 1 else f"{name} ({number})"


def _layers(function: Any) -> list[Any]:
    """A function and what is in it: what a wrapper, as `jax.vmap` and decorators make, or a partial function calls."""
    layers: list[Any] = []
    while function is not None:  # JAX refuses one that wraps itself
        layers.append(function)
        is_partial = isinstance(function, functools.partial)
        function = function.func if is_partial else getattr(function, "__wrapped__", None)
    return layers


def _code(function: Any) -> CodeType | None:
    """Of an object that is called like a function, that of its class; None of what is not Python's."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType) and callable(function):
        code = getattr(type(function).__call__, "__code__", None)
    return code if isinstance(code, CodeType) else None


def _giving_gradients(original: Any) -> Any:
    """`jax.grad` and its like: what they return is recorded, and says that it takes a gradient."""
    site = Site(f"jax.{original.__name__}", "", "backend", presumed="backpropagation")
    inside, tell = span(site, collapses=True), saw("backpropagation")

    @functools.wraps(original)
    def gradient(*args: Any, **keywords: Any) -> Any:
        return Wrapped(original(*args, **keywords), inside, tell)

    return gradient


def _wait_for_values(array: Any) -> None:
    """Where Python asks for the numbers of an array, as np.asarray(x) and float(x) do: there it waits for them.

    Raises:
        AttributeError: Arrays of this version are of another make.
    """
    site = Site("jax.Array value", "", "accelerator_sync", presumed=FETCHED)
    cls: Any = array.ArrayImpl
    record_native(cls, "block_until_ready", site)
    _native.record_buffers(cls, table.number(site))
    value = cast(dict[str, Any], vars(cls))["_value"]
    cls._value = property(Wrapped(value.fget, span(site, collapses=True)), doc=value.__doc__)


def _look_into_programs(pjit: Any) -> None:
    """Where a jitted function is run for the first time, its program is at hand as a whole: that of inner functions,
    which JAX does not trace again, is part of it.

    Raises:
        AttributeError: This version compiles elsewhere.
    """
    inside = span(Site("jit, first call", "", "backend"))
    pjit._pjit_call_impl_python = Wrapped(pjit._pjit_call_impl_python, inside, _look_into, tells_arguments=True)


def _look_into(*args: Any, jaxpr: Any, **parameters: Any) -> None:
    """Note it of the jitted function that runs if its program, with constants apart, multiplies matrices."""
    program = jaxpr.jaxpr
    if program not in _looked_into:
        _looked_into.add(program)
        if _multiplies(program):
            _add({NETWORK})


def _multiplies(program: Any) -> bool:
    return any(
        equation.primitive.name in _MULTIPLY or any(map(_multiplies, _programs_in(equation)))
        for equation in program.eqns
    )


def _programs_in(equation: Any) -> list[Any]:
    """Of loops, branches and inner jitted functions."""
    parameters: list[Any] = list(equation.params.values())
    for value in list(parameters):
        if isinstance(value, tuple | list):
            parameters += cast(list[Any], value)
    programs = [getattr(value, "jaxpr", value) for value in parameters]
    return [program for program in programs if hasattr(program, "eqns")]
