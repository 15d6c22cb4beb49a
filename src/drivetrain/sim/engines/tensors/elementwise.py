"""Elementwise operations on tensors: what `ir/evaluate.py` says in NumPy."""

# PyTorch's functions in tables.
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportUnknownMemberType=false

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from drivetrain.sim.engines.tensors.words import (
    WIDTHS,
    Tensor,
    is_integer,
    ordered,
    shifted_right,
    tensor_of,
    torch,
    wide,
    wrapped,
)
from drivetrain.sim.ir.evaluate import ERF_INV_LARGE, ERF_INV_SMALL
from drivetrain.sim.ir.program import Op

Inputs = Sequence[Tensor]


def elementwise(op: Op, inputs: Inputs) -> Tensor:
    """The only output of an elementwise operation."""
    given, out = op.inputs[0].dtype, op.out.dtype
    if op.name in COMPARE:
        return COMPARE[op.name](*(ordered(x, given) for x in inputs))
    if op.name == "select":
        return torch.where(*inputs)
    if op.name == "convert":
        return converted(inputs[0], given, out)
    if op.name == "bitcast":
        return bits_as(inputs[0], given, out)
    if given == "bool":
        return LOGIC[op.name](*inputs)
    if not is_integer(given):
        return FLOATS[op.name](*inputs)
    return wrapped(INTEGERS[op.name](given, *inputs), out)


def converted(x: Tensor, given: str, out: str) -> Tensor:
    """By value; floats are cut towards zero and saturate, NaN gives 0."""
    if out == "bool":
        return x != 0
    if out == "float32":
        return (wide(x, given) if given == "uint32" else x).to(torch.float32)
    if given != "float32":
        return wrapped(x.to(torch.int32), out)
    limits = np.iinfo(out)
    whole = torch.nan_to_num(x.to(torch.float64), nan=0.0).clamp(float(limits.min), float(limits.max))
    return wrapped(torch.trunc(whole).to(torch.int64), out)


def bits_as(x: Tensor, given: str, out: str) -> Tensor:
    """The same bits as another type of the same width."""
    if "float32" in (given, out):
        return x.view(torch.float32 if out == "float32" else torch.int32) if given != out else x
    return wrapped(x, out)


# ---- integers ----------------------------------------------------------------------------------------------


def divided(dtype: str, x: Tensor, y: Tensor) -> Tensor:
    """Towards zero; by zero, all bits set."""
    a, b = wide(x, dtype), wide(y, dtype)
    return torch.where(b == 0, -1, torch.div(a, torch.where(b == 0, 1, b), rounding_mode="trunc"))


def remaining(dtype: str, x: Tensor, y: Tensor) -> Tensor:
    """With the sign of x; by zero, x itself."""
    a, b = wide(x, dtype), wide(y, dtype)
    return torch.where(b == 0, a, torch.fmod(a, torch.where(b == 0, 1, b)))


def chosen(dtype: str, x: Tensor, y: Tensor, larger: bool) -> Tensor:
    """The larger or the smaller."""
    first = ordered(x, dtype) > ordered(y, dtype)
    return torch.where(first == larger, x, y)


def left(dtype: str, x: Tensor, count: Tensor) -> Tensor:
    """Bits moved to the left; by the width or more, or by less than none, none are left."""
    inside = inside_width(dtype, count)
    return torch.where(inside, x << torch.where(inside, count, 0), 0)


def right(dtype: str, x: Tensor, count: Tensor, keeps_sign: bool) -> Tensor:
    """Bits moved to the right, the sign's or zeros behind them."""
    inside, width = inside_width(dtype, count), WIDTHS.get(dtype, 32)
    if keeps_sign:
        return wrapped(x, f"int{width}") >> torch.where(inside, count, width - 1)
    bits = x.to(torch.int64) & (2**width - 1)
    return torch.where(inside, bits >> torch.where(inside, count, 0), 0)


def inside_width(dtype: str, count: Tensor) -> Tensor:
    """Whether a count of bits is one of a type's; an unsigned count beyond int32 is negative as a word."""
    return (count >= 0) & (count < WIDTHS.get(dtype, 32))


def to_power(_: str, x: Tensor, y: Tensor) -> Tensor:
    """By squaring, wrapping around."""
    result = torch.ones_like(x)
    for bit in range(32):
        result = torch.where(((y >> bit) & 1) != 0, result * x, result)
        x = x * x
    return result


def own_bits(dtype: str, x: Tensor) -> Tensor:
    """A word without the copies of the sign above a narrow type's bits."""
    return x & (2 ** WIDTHS[dtype] - 1) if dtype in WIDTHS else x


def popcount(dtype: str, x: Tensor) -> Tensor:
    """How many bits are set: sums of pairs, of fours, of eights."""
    x = own_bits(dtype, x)
    x = x - (shifted_right(x, 1) & 0x55555555)
    x = (x & 0x33333333) + (shifted_right(x, 2) & 0x33333333)
    x = (x + shifted_right(x, 4)) & 0x0F0F0F0F
    return shifted_right(x * 0x01010101, 24)


def leading_zeros(dtype: str, x: Tensor) -> Tensor:
    """How many bits are above the first that is set."""
    width, x = WIDTHS.get(dtype, 32), own_bits(dtype, x)
    for distance in (1, 2, 4, 8, 16):
        x = x | shifted_right(x, distance)
    return width - popcount(dtype, x)


INTEGERS: dict[str, Callable[..., Tensor]] = {
    "neg": lambda _, x: -x, "abs": lambda d, x: x if d.startswith("u") else x.abs(),
    "sign": lambda d, x: (x != 0).to(torch.int32) if d.startswith("u") else torch.sign(x),
    "not": lambda _, x: ~x, "popcount": popcount, "clz": leading_zeros,
    "add": lambda _, x, y: x + y, "sub": lambda _, x, y: x - y, "mul": lambda _, x, y: x * y,
    "div": divided, "rem": remaining, "pow": to_power,
    "max": lambda d, x, y: chosen(d, x, y, True), "min": lambda d, x, y: chosen(d, x, y, False),
    "and": lambda _, x, y: x & y, "or": lambda _, x, y: x | y, "xor": lambda _, x, y: x ^ y,
    "shl": left, "shr_logical": lambda d, x, n: right(d, x, n, False),
    "shr_arithmetic": lambda d, x, n: right(d, x, n, True),
}  # fmt: skip
LOGIC: dict[str, Callable[..., Tensor]] = {
    "not": lambda x: ~x, "and": lambda x, y: x & y, "or": lambda x, y: x | y, "xor": lambda x, y: x ^ y,
    "max": lambda x, y: x | y, "min": lambda x, y: x & y, "add": lambda x, y: x | y, "mul": lambda x, y: x & y,
}  # fmt: skip


# ---- floats ------------------------------------------------------------------------------------------------


def erf_inv(x: Tensor) -> Tensor:
    """Giles 2010, "Approximating the erfinv function", table 5, as XLA computes it."""
    w = -torch.log1p(-x * x)
    small, large = w - 2.5, torch.sqrt(w) - 3.0
    p, q = torch.full_like(x, 2.81022636e-08), torch.full_like(x, -0.000200214257)
    for a, b in zip(ERF_INV_SMALL, ERF_INV_LARGE, strict=True):
        p, q = a + p * small, b + q * large
    return torch.where(x.abs() == 1, x * torch.inf, torch.where(w < 5, p, q) * x)


def in_double(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function computed in double precision, which PyTorch does not have, or not closely, in single."""
    return lambda *inputs: function(*(x.to(torch.float64) for x in inputs)).to(torch.float32)


FLOATS: dict[str, Callable[..., Tensor]] = {
    "neg": lambda x: -x, "abs": lambda x: x.abs(),
    "sign": lambda x: torch.where((x == 0) | torch.isnan(x), x, torch.sign(x)),
    "floor": lambda x: x.floor(), "ceil": lambda x: x.ceil(), "round_even": lambda x: x.round(),
    "round_away": lambda x: torch.copysign(x.abs().trunc() + (x.abs().frac() >= 0.5), x),
    "sqrt": in_double(lambda x: x.sqrt()),  # single ones are not rounded correctly, which float16 hangs on
    "rsqrt": lambda x: 1 / x.sqrt(),
    "cbrt": in_double(lambda x: torch.copysign(x.abs() ** (1 / 3), x)),
    "exp": lambda x: x.exp(), "exp2": lambda x: x.exp2(), "log": lambda x: x.log(), "log1p": lambda x: x.log1p(),
    "expm1": lambda x: x.expm1(), "tanh": lambda x: x.tanh(), "logistic": lambda x: torch.sigmoid(x),
    "sin": lambda x: x.sin(), "cos": lambda x: x.cos(), "tan": lambda x: x.tan(), "asin": lambda x: x.asin(),
    "acos": lambda x: x.acos(), "atan": lambda x: x.atan(),
    "sinh": in_double(lambda x: x.sinh()), "cosh": in_double(lambda x: x.cosh()),  # single ones are infinite too soon
    "asinh": lambda x: x.asinh(), "acosh": lambda x: x.acosh(), "atanh": lambda x: x.atanh(),
    "erf": lambda x: torch.erf(x), "erfc": lambda x: torch.erfc(x), "erf_inv": erf_inv,
    "is_finite": lambda x: torch.isfinite(x),
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "div": lambda x, y: x / y,
    "rem": in_double(lambda x, y: torch.fmod(x, y)),  # exact; PyTorch's own vectors give NaN beyond a float32 quotient
    "max": lambda x, y: torch.maximum(x, y),
    "min": lambda x, y: torch.minimum(x, y), "pow": lambda x, y: torch.pow(x, y),
    "atan2": lambda x, y: torch.atan2(x, y), "nextafter": lambda x, y: torch.nextafter(x, y),
}  # fmt: skip
COMPARE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "eq": lambda x, y: x == y, "ne": lambda x, y: x != y, "lt": lambda x, y: x < y, "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y,
}  # fmt: skip


# ---- random numbers ----------------------------------------------------------------------------------------

PARITY = int(np.uint32(0x1BD11BDA).view(np.int32))


def threefry(k0: Tensor, k1: Tensor, c0: Tensor, c1: Tensor) -> tuple[Tensor, Tensor]:
    """Threefry-2x32 with 20 rounds (Salmon et al. 2011, section 3.2, as in JAX)."""
    keys = (k0, k1, k0 ^ k1 ^ PARITY)
    x, y = c0 + k0, c1 + k1
    for group in range(5):
        for distance in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            x = x + y
            y = x ^ ((y << distance) | shifted_right(y, 32 - distance))
        x = x + keys[(group + 1) % 3]
        y = y + keys[(group + 2) % 3] + (group + 1)
    return x, y


def constant(op: Op) -> Tensor:
    """A constant, for all environments."""
    value: Any = op.attrs["value"]
    return tensor_of(value)[None]
