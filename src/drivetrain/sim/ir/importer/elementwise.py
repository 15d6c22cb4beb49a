"""Primitives that compute each element on its own, and those that change nothing."""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false, reportPrivateImportUsage=false

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from drivetrain.sim.ir import ops
from drivetrain.sim.ir.build import Builder
from drivetrain.sim.ir.importer.importer import Importer, Parts, handles, held_as
from drivetrain.sim.ir.program import Value

RENAMED = {
    "add_any": "add", "population_count": "popcount", "shift_left": "shl", "shift_right_logical": "shr_logical",
}  # fmt: skip
SAME = {name: name for name in ops.UNARY | ops.ARITHMETIC} | RENAMED
"""What a primitive is here; most have JAX's names."""


@handles(*SAME)
def _elementwise(at: Importer, eqn: Any, inputs: list[Parts]) -> Value:
    values = [value for (value,) in inputs]
    if eqn.primitive.name == "mul" and (chosen := by_flag(at, values)) is not None:
        return chosen
    if eqn.primitive.name in ("pow", "mul"):  # of a whole exponent; of narrow factors with a wide product
        values = [at.builder.convert(value, at.dtype_of(eqn.outvars[0].aval)) for value in values]
    return at.builder.elementwise(SAME[eqn.primitive.name], *values)


def by_flag(at: Importer, factors: list[Value]) -> Value | None:
    """A float times a Boolean, as XLA computes it: the float or 0, also where it is NaN or infinite.

    So authors leave out what has no meaning, `(distance > 0) * (x / distance)`. None for other factors, and where the
    Boolean was repeated to an array's shape, of which XLA multiplies.
    """
    for one, other in (factors, factors[::-1]):
        flag = at.builder.flags.get(one)
        if flag is not None and other.dtype == "float32" and one.shape == other.shape:
            return at.builder.elementwise("select", flag, other, at.builder.full(other.shape, 0, "float32"))
    return None


@handles("shift_right_arithmetic")
def _shift_right_arithmetic(at: Importer, eqn: Any, inputs: list[Parts]) -> Value:
    """Of unsigned numbers, too, the uppermost bit is repeated: they are shifted as the signed ones of these bits."""
    (x,), (count,) = inputs
    if not x.dtype.startswith("u"):
        return at.builder.elementwise("shr_arithmetic", x, count)
    signed = [at.builder.convert(value, x.dtype[1:]) for value in (x, count)]
    return at.builder.convert(at.builder.elementwise("shr_arithmetic", *signed), x.dtype)


@handles(*ops.COMPARE)
def _compare(at: Importer, eqn: Any, inputs: list[Parts]) -> Value:
    """Keys, which are only equal or not, are equal where both words are."""
    name = eqn.primitive.name
    words = [at.builder.elementwise(name, x, y) for x, y in zip(*inputs, strict=True)]
    return functools.reduce(functools.partial(at.builder.elementwise, "or" if name == "ne" else "and"), words)


@handles("eq_to", "le_to", "lt_to")
def _compare_total(at: Importer, eqn: Any, inputs: list[Parts]) -> Value:
    """IEEE total order: for floats, that of the bits with negative numbers turned round."""
    values = [value for (value,) in inputs]
    if values[0].dtype == "float32":
        values = [ordered_bits(at.builder, value) for value in values]
    return at.builder.elementwise(eqn.primitive.name.removesuffix("_to"), *values)


def ordered_bits(builder: Builder, x: Value) -> Value:
    """float32 as int32 in the same order, -0 before 0."""
    bits = builder.emit("bitcast", (x,), x.shape, "int32")
    sign = builder.elementwise("shr_arithmetic", bits, builder.const(np.int32(31)))
    return builder.elementwise("xor", bits, builder.elementwise("and", sign, builder.const(np.int32(0x7FFFFFFF))))


@handles("convert_element_type")
def _convert(at: Importer, eqn: Any, inputs: list[Parts]) -> Value:
    (x,), dtype = inputs[0], held_as(eqn.params["new_dtype"])
    if dtype == "bool" and x.dtype != "bool":
        return at.builder.elementwise("ne", x, at.builder.full(x.shape, 0, x.dtype))
    return at.builder.convert(x, dtype)


@handles("copy", "copy_p", "stop_gradient", "optimization_barrier", "random_clone", "device_put")
def _identity(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    return inputs


@handles("reduce_precision")
def _reduce_precision(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    if (eqn.params["exponent_bits"], eqn.params["mantissa_bits"]) != (8, 23):
        raise at.unsupported("a precision below float32", "compute in float32")
    return inputs


@handles("square")
def _square(at: Importer, eqn: Any, inputs: list[Parts]) -> Value:
    return at.builder.elementwise("mul", inputs[0][0], inputs[0][0])


@handles("one_minus_square")
def _one_minus_square(at: Importer, eqn: Any, inputs: list[Parts]) -> Value:
    """(1 + x) (1 - x), as XLA computes it: what JAX has since 0.11.2 in derivatives of tanh, asin, acos and atanh."""
    (x,) = inputs[0]
    one = at.builder.full(x.shape, 1, x.dtype)
    return at.builder.elementwise("mul", at.builder.elementwise("add", one, x), at.builder.elementwise("sub", one, x))


@handles("log2")
def _log2(at: Importer, eqn: Any, inputs: list[Parts]) -> Value:
    """A multiple of the natural logarithm, as XLA computes it; a primitive since JAX 0.11.2, until then two."""
    x = at.builder.elementwise("log", inputs[0][0])
    return at.builder.elementwise("mul", x, at.builder.full(x.shape, 1 / math.log(2), x.dtype))


@handles("polynomial")
def _polynomial(at: Importer, eqn: Any, inputs: list[Parts]) -> Value:
    """By Horner's rule, as XLA computes it: what JAX has since 0.12 in `jnp.polyval`; numbers alone fit any shape."""
    shape = eqn.outvars[0].aval.shape
    x, *coefficients = (at.builder.broadcast(value, shape, range(len(value.shape))) for (value,) in inputs)
    result = coefficients.pop()
    while coefficients:
        result = at.builder.elementwise("add", at.builder.elementwise("mul", result, x), coefficients.pop())
    return result


@handles("integer_pow")
def _integer_pow(at: Importer, eqn: Any, inputs: list[Parts]) -> Value:
    """By squaring, as XLA does."""
    (x,), exponent = inputs[0], int(eqn.params["y"])
    result, power, left = at.builder.full(x.shape, 1, x.dtype), x, abs(exponent)
    while left:
        result = at.builder.elementwise("mul", result, power) if left & 1 else result
        left >>= 1
        power = at.builder.elementwise("mul", power, power) if left else power
    return result if exponent >= 0 else at.builder.elementwise("div", at.builder.full(x.shape, 1, x.dtype), result)


@handles("round")
def _round(at: Importer, eqn: Any, inputs: list[Parts]) -> Value:
    kind = "round_even" if int(eqn.params["rounding_method"]) == 1 else "round_away"
    return at.builder.elementwise(kind, inputs[0][0])


@handles("clamp")
def _clamp(at: Importer, eqn: Any, inputs: list[Parts]) -> Value:
    (low,), (x,), (high,) = inputs
    return at.builder.elementwise("min", at.builder.elementwise("max", x, low), high)


@handles("select_n")
def _select(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    """Outside of the cases the first or the last, as XLA does it."""
    (which,), *cases = inputs
    if which.dtype == "bool" and len(cases) == 2:
        return [tuple(at.builder.elementwise("select", which, y, x) for x, y in zip(*cases, strict=True))]
    chosen = cases[-1]
    for number, case in reversed(list(enumerate(cases[:-1]))):
        is_it = at.builder.elementwise("le", which, at.builder.full(which.shape, number, which.dtype))
        chosen = tuple(at.builder.elementwise("select", is_it, x, y) for x, y in zip(case, chosen, strict=True))
    return [chosen]
