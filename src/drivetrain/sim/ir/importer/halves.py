"""float16 inside a step: a float32 that is rounded to what a float16 holds after each operation, as XLA computes it.

A sum, difference, product, quotient or root of two such numbers in float32, rounded once more, is the correctly rounded
one (Figueroa 1995: 24 bits are at least 2 * 11 + 2). Sums over arrays are refused: when XLA rounds there is its own.
On processors with float16 of their own (AVX512-FP16) XLA rounds a product and what is added to it once, not twice.
XLA divides by a constant as it multiplies with its rounded inverse, a unit of the last place off; that is done here for
numbers that stand in the program, not for those that are first taken from a table.
"""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false, reportPrivateImportUsage=false

from typing import Any

import numpy as np

from drivetrain.sim.ir.build import Builder
from drivetrain.sim.ir.program import Value

ROUNDED = frozenset({"convert_element_type", "add", "add_any", "sub", "mul", "div", "sqrt", "square"})
"""Primitives whose results in float32 may be none of float16."""
EXACT = frozenset({
    "neg", "abs", "sign", "floor", "ceil", "round", "max", "min", "clamp", "is_finite", "eq", "ne", "lt", "le", "gt",
    "ge", "select_n", "reshape", "squeeze", "expand_dims", "broadcast_in_dim", "transpose", "rev", "slice", "pad",
    "concatenate", "stack", "unstack", "tile", "split", "gather", "scatter", "dynamic_slice", "dynamic_update_slice",
    "reduce_max", "reduce_min", "argmax", "argmin", "copy", "copy_p", "stop_gradient", "optimization_barrier", "cond",
    "scan", "while", "empty", "empty2",
})  # fmt: skip
"""Primitives that only choose, move or compare, or give what is whole or was there before."""
LEAST_NORMAL, LEAST_INFINITE = 2.0**-14, 65520.0
"""Below the first the spacing is 2^-24; from the second on the nearest is infinite."""


def is_half(var: Any) -> bool:
    """Whether a variable or a literal is of float16."""
    return getattr(var.aval, "dtype", None) == np.float16


def rounded(b: Builder, x: Value) -> Value:
    """The nearest float16 of each float32, of two the even one."""

    def bits(number: int) -> Value:
        return b.const(np.uint32(number))

    word = b.emit("bitcast", (x,), x.shape, "uint32")
    is_odd = b.elementwise("and", b.elementwise("shr_logical", word, bits(13)), bits(1))
    up = b.elementwise("add", b.elementwise("add", word, bits(0xFFF)), is_odd)
    normal = b.emit("bitcast", (b.elementwise("and", up, bits(0xFFFFE000)),), x.shape, "float32")
    size, half = b.elementwise("abs", x), b.const(np.float32(0.5))
    small = b.elementwise("sub", b.elementwise("add", size, half), half)  # numbers from 0.5 on are 2^-24 apart
    sign = b.elementwise("and", word, bits(0x80000000))

    def signed(positive: Value) -> Value:
        word = b.emit("bitcast", (positive,), positive.shape, "uint32")
        return b.emit("bitcast", (b.elementwise("or", word, sign),), x.shape, "float32")

    is_small = b.elementwise("lt", size, b.const(np.float32(LEAST_NORMAL)))
    fits = b.elementwise("lt", size, b.const(np.float32(LEAST_INFINITE)))
    is_number = b.elementwise("eq", x, x)
    infinite = signed(b.full(x.shape, np.inf, "float32"))
    beyond = b.elementwise("select", is_number, infinite, x)
    return b.elementwise("select", is_small, signed(small), b.elementwise("select", fits, normal, beyond))


def inverse(eqn: Any) -> np.float32 | None:
    """By what a quotient by a number is a product, as XLA writes it; None where it is another equation."""
    if eqn.primitive.name != "div" or not is_half(eqn.outvars[0]) or not hasattr(eqn.invars[1], "val"):
        return None
    with np.errstate(all="ignore"):
        return np.float32(np.float16(1) / np.float16(eqn.invars[1].val))
