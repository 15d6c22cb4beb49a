"""Walks the equations of a jaxpr and asks the handler of each primitive to write its operations.

A typed key is two uint32 values, each of the key array's shape, so that moving keys about is moving numbers about,
twice. What only calls another jaxpr (`jit`, `remat`, custom derivatives) is written in its place. Other primitives hold
programs, too, as `reduce` does for two of its elements, so those that call are listed.
"""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false, reportPrivateImportUsage=false

import functools
import itertools
import os
import re
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import jax
import numpy as np
from jax.extend.core import jaxprs_in_params

from drivetrain.core.errors import CompileError
from drivetrain.sim.ir import ops
from drivetrain.sim.ir.build import Builder
from drivetrain.sim.ir.importer.halves import EXACT, ROUNDED, inverse, is_half, rounded
from drivetrain.sim.ir.program import Block, Value

Parts = tuple[Value, ...]
"""A JAX variable: one value, or the two words of a key."""

JAX_FOLDER = os.path.dirname(os.path.abspath(jax.__file__))
OWN_FOLDER = os.path.dirname(os.path.abspath(__file__))
SIM_FOLDER = os.path.dirname(os.path.dirname(OWN_FOLDER))
INSTALLED = re.compile(r"[\\/](site|dist)-packages[\\/]")
"""In the path of a library's file."""
ADVICE = {
    "pure_callback": "compute it in JAX: a kernel cannot call back into Python",
    "io_callback": "compute it in JAX: a kernel cannot call back into Python",
    "debug_callback": "take jax.debug.print out of the environment",
    "debug_print": "take jax.debug.print out of the environment",
    "svd": "use another decomposition: cholesky, lu (jnp.linalg.solve, inv, det)",
    "qr": "use another decomposition: cholesky, lu (jnp.linalg.solve, inv, det)",
    "eigh": "use another decomposition: cholesky, lu (jnp.linalg.solve, inv, det)",
    "ffi_call": 'of rollouts call one of engine="xla" there, which becomes a part of the kernel',
    "reduce": "use jnp.sum, jnp.max and the like, or a jax.lax.fori_loop",
    "reduce_window": "write it with slices and sums",
}
CALLS = frozenset({
    "jit", "pjit", "closed_call", "core_call", "core_closed_call", "call", "remat", "remat2", "checkpoint",
    "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr", "custom_vmap_call",
})  # fmt: skip
"""Primitives that do what the program they hold does."""
NO_KEYS = {
    "sort": "draw an order of their positions, keys[jax.random.permutation(key, len(keys))]",
    "top_k": "choose by numbers, and take keys[positions]",
    "argmax": "compare their words, jax.random.key_data(keys)",
    "argmin": "compare their words, jax.random.key_data(keys)",
    "pad": "put them together by jnp.concatenate",
}
"""Primitives that JAX traces for typed keys and then cannot compile, and what does the same."""


def import_jaxpr(closed: Any, name: str = "the environment") -> Block:
    """A closed jaxpr as a block over its flattened arguments and results.

    Args:
        name: Whose it is, for errors that have no line to name.

    Raises:
        CompileError: It uses a primitive or a type that the representation lacks.
    """
    if any(is_key(var.aval) for var in (*closed.jaxpr.invars, *closed.jaxpr.outvars)):
        raise CompileError(
            f"{name}: expected actions of numbers, got typed random keys; act by their words, "
            "jax.random.key_data(key), and draw with jax.random.wrap_key_data(words)"
        )
    importer = Importer(Builder(), name)
    for var in closed.jaxpr.invars:
        importer.check_dtype(np.dtype(var.aval.dtype).name, "a state, an action, a parameter or a weight")
    for var in closed.jaxpr.outvars:
        importer.check_dtype(np.dtype(var.aval.dtype).name, "a state, or what is recorded,")
    inputs = [tuple(values_like(var)) for var in closed.jaxpr.invars]
    outputs = importer.inline(closed.jaxpr, closed.consts, inputs)
    flat = tuple(value for parts in inputs for value in parts)
    return Block(flat, tuple(importer.builder.ops), tuple(value for parts in outputs for value in parts))


def is_key(aval: Any) -> bool:
    """Whether a type is that of typed random keys."""
    return jax.dtypes.issubdtype(aval.dtype, jax.dtypes.prng_key)


def values_like(var: Any) -> list[Value]:
    """New values for a variable: one, or two words of a key."""
    if is_key(var.aval):
        return [Value(tuple(var.aval.shape), "uint32") for _ in range(2)]
    return [Value(tuple(var.aval.shape), held_as(var.aval.dtype))]


def zeros(b: Builder, var: Any) -> Parts:
    """In the form of a variable."""
    return tuple(b.full(value.shape, 0, value.dtype) for value in values_like(var))


def held_as(dtype: Any) -> str:
    """The name of the type that values of a type of JAX's have here: halves are floats (halves.py)."""
    name = np.dtype(dtype).name
    return "float32" if name == "float16" else name


def source_line(eqn: Any) -> str:
    """FILE:LINE outside JAX that produced an equation; empty when unknown, or one of ours.

    The author's innermost, where a library that was called produced it, as Flax does; else the innermost.
    """
    traceback = getattr(eqn.source_info, "traceback", None)
    frames = [x for x in getattr(traceback, "frames", ()) if not x.file_name.startswith((JAX_FOLDER, "<"))]
    if not frames or frames[0].file_name.startswith(OWN_FOLDER):
        return ""
    called = itertools.takewhile(lambda x: os.path.dirname(x.file_name) != SIM_FOLDER, frames)  # by what traces
    frame = next((x for x in called if not INSTALLED.search(x.file_name)), frames[0])
    return f"{frame.file_name}:{frame.line_num}"


def first_use(jaxpr: Any, var: Any) -> str:
    """FILE:LINE of the first equation that reads a variable; empty when unknown."""
    return next((source_line(eqn) for eqn in jaxpr.eqns if any(x is var for x in eqn.invars)), "")


Handler = Callable[["Importer", Any, list[Parts]], "Value | Sequence[Parts]"]
HANDLERS: dict[str, Handler] = {}


def handles(*names: str) -> Callable[[Handler], Handler]:
    """Register a handler for primitives of these names."""

    def register(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(names, handler))
        return handler

    return register


class Importer:
    """Walks equations, writing operations to a builder."""

    def __init__(self, builder: Builder, name: str) -> None:
        """Operations of the environment of that name go to `builder`."""
        self.builder = builder
        self.name = name

    def inline(self, jaxpr: Any, consts: Sequence[Any], arguments: Sequence[Parts]) -> list[Parts]:
        """Write a jaxpr's operations here, over these arguments; its results."""
        known: dict[Any, Parts] = {}
        known.update(zip(jaxpr.invars, arguments, strict=True))
        for var, value in zip(jaxpr.constvars, consts, strict=True):
            known[var] = self.constant(value, functools.partial(first_use, jaxpr, var))
        for eqn in jaxpr.eqns:
            self.builder.where = source_line(eqn) or self.builder.where
            inputs = [self.read(known, var) for var in eqn.invars]
            results = self.equation(eqn, inputs)
            for var, parts in zip(eqn.outvars, results, strict=True):
                known[var] = parts
        return [self.read(known, var) for var in jaxpr.outvars]

    def read(self, known: dict[Any, Parts], var: Any) -> Parts:
        """The values of a variable, or of a literal."""
        if hasattr(var, "val"):
            name = self.dtype_of(var.aval)
            return (self.builder.const(np.asarray(var.val, var.aval.dtype).astype(name)),)
        return known[var]

    def constant(self, value: Any, line_of_use: Callable[[], str]) -> Parts:
        """A constant that the trace closed over; it comes from no line, so an error names the first that uses it."""
        if hasattr(value, "dtype") and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
            self.check_key(value.dtype)
            words = np.asarray(jax.random.key_data(value))
            return self.builder.const(words[..., 0]), self.builder.const(words[..., 1])
        array = np.asarray(value)
        array = array.astype(held_as(array.dtype)) if array.dtype == np.float16 else array
        if array.dtype.name not in ops.DTYPES:
            self.builder.where = line_of_use() or self.builder.where
        self.check_dtype(array.dtype.name, "a constant")
        return (self.builder.const(array),)

    def equation(self, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
        """Write the operations of one equation; its results."""
        name, params = eqn.primitive.name, eqn.params
        handler = HANDLERS.get(name)
        if handler is None:
            held = (params[key] for key in ("jaxpr", "call_jaxpr", "fun_jaxpr", "call") if key in params)
            inner = next(held, None) if name in CALLS else None
            if inner is None and name not in ADVICE:
                inner = own_program(eqn)
            if inner is None:
                raise self.unsupported(f"the primitive `{name}`", ADVICE.get(name, "write it with other primitives"))
            return self.inline(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), inputs)
        if name in NO_KEYS and any(is_key(var.aval) for var in eqn.invars):
            raise CompileError(
                f"{self.builder.where or self.name}: neither JAX nor an engine here compiles the primitive `{name}` "
                f"for typed random keys: {NO_KEYS[name]}"
            )
        for var in eqn.outvars:
            if is_key(var.aval):
                self.check_key(var.aval.dtype)
            else:
                self.dtype_of(var.aval)
        if eqn.outvars and not any(prod(var.aval.shape) for var in eqn.outvars):  # nothing to compute
            return [zeros(self.builder, var) for var in eqn.outvars]
        in_halves = any(map(is_half, (*eqn.invars, *eqn.outvars)))
        result = self.of_halves(handler, eqn, inputs) if in_halves else handler(self, eqn, inputs)
        results = [(result,)] if isinstance(result, Value) else result
        # A kernel writes as much as a value has, where memory is as JAX says: more would be others' memory.
        for var, parts in zip(eqn.outvars, results, strict=True):
            assert list(map(form, parts)) == list(map(form, values_like(var))), f"{name} gives others than JAX says"
        return results

    def of_halves(self, handler: Handler, eqn: Any, inputs: list[Parts]) -> "Value | Sequence[Parts]":
        """An equation with values of float16 among its inputs or results."""
        name, factor = eqn.primitive.name, inverse(eqn)
        if name not in EXACT | ROUNDED:
            raise self.unsupported(f"the primitive `{name}` of type float16", "convert to float32 before")
        if factor is not None:
            result = self.builder.elementwise("mul", inputs[0][0], self.builder.const(factor))
        else:
            result = handler(self, eqn, inputs)
        if name in EXACT or not is_half(eqn.outvars[0]):
            return result
        return rounded(self.builder, result if isinstance(result, Value) else result[0][0])

    def dtype_of(self, aval: Any) -> str:
        """The name of a type, if we have it."""
        name = held_as(aval.dtype)
        self.check_dtype(name, "a value")
        return name

    def check_dtype(self, name: str, what: str) -> None:
        """Refuse types that the representation lacks."""
        if name not in ops.DTYPES:
            remedy = f"use one of {', '.join(ops.DTYPES)}"
            if name.endswith("64") and jax.config.read("jax_enable_x64"):
                remedy = (
                    "leave JAX's setting jax_enable_x64 off, which makes Python's and NumPy's numbers so wide, or "
                    "make and compile within `with jax.enable_x64(False):`"
                )
            raise self.unsupported(f"{what} of type {name}", remedy)

    def check_key(self, dtype: Any) -> None:
        """Refuse keys of another cipher, threefry4x32 (fry4) too: they have other numbers, and any count of words."""
        if "<fry>" not in str(dtype):
            raise self.unsupported(f"keys of type {dtype}", "use threefry2x32, JAX's default")

    def unsupported(self, what: str, remedy: str) -> CompileError:
        """The error for something that cannot be imported, with the line that asked for it."""
        return CompileError(
            f'{self.builder.where or self.name}: engines other than "xla" do not support {what}: '
            f'{remedy}, or compile with engine="xla"'
        )

    def region(self, jaxpr: Any, arguments: Sequence[Parts]) -> Block:
        """A closed jaxpr as a block of its own, over values that may be those of this block."""
        inner = Importer(Builder(self.builder.where), self.name)
        outputs = inner.inline(jaxpr.jaxpr, jaxpr.consts, arguments)
        return Block((), tuple(inner.builder.ops), flat(outputs))


def own_program(eqn: Any) -> Any:
    """What a primitive of another library does, where its implementation can be traced; None otherwise.

    JAX's own give themselves, compiled, which is no program of others.
    """
    try:
        closed = jax.make_jaxpr(functools.partial(eqn.primitive.impl, **eqn.params))(*(var.aval for var in eqn.invars))
    except Exception:  # an implementation in NumPy, say, or none
        return None
    fits = [form_of(var) for var in closed.jaxpr.outvars] == [form_of(var) for var in eqn.outvars]
    return closed if fits and eqn.primitive not in primitives_of(closed.jaxpr) else None


def own_programs(jaxpr: Any) -> list[Any]:
    """What primitives of other libraries do, in a program and those inside it: their names do not tell it."""
    known = HANDLERS.keys() | CALLS | ADVICE.keys()
    others = [own_program(eqn) for eqn in jaxpr.eqns if eqn.primitive.name not in known]
    inner = [own_programs(each) for eqn in jaxpr.eqns for each in jaxprs_in_params(eqn.params)]
    return [*(each for each in others if each is not None), *itertools.chain.from_iterable(inner)]


def primitives_of(jaxpr: Any) -> set[Any]:
    """Those of a program and of the programs inside it."""
    inner = [each for eqn in jaxpr.eqns for each in jaxprs_in_params(eqn.params)]
    return {eqn.primitive for eqn in jaxpr.eqns}.union(*map(primitives_of, inner))


def form_of(var: Any) -> tuple[Any, Any]:
    """Shape and type of a variable of JAX's."""
    return tuple(var.aval.shape), var.aval.dtype


def form(value: Value) -> tuple[tuple[int, ...], str]:
    """Shape and type."""
    return value.shape, value.dtype


def flat(parts: Sequence[Parts]) -> Parts:
    """The values of several variables in a row."""
    return tuple(value for values in parts for value in values)


def like(variables: Sequence[Any], values: Sequence[Value]) -> list[Parts]:
    """A row of values as variables: the reverse of `flat`."""
    rest = list(values)
    return [tuple(rest.pop(0) for _ in range(2 if is_key(var.aval) else 1)) for var in variables]
