"""The meaning of every operation in NumPy, for a batch of environments: readable, and slow.

Each array has a leading axis [num_envs], or 1 where all environments share it. Constant folding evaluates
with it, and the engine `numpy` is it.
"""

# NumPy's functions in tables.
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from drivetrain.sim.ir.program import Block, Op, Value

Array = npt.NDArray[Any]
Known = dict[Value, Array]


def evaluate(block: Block, arguments: Sequence[Array], outer: Known | None = None) -> list[Array]:
    """Run a block.

    Args:
        arguments: One array per input of the block, leading axis [num_envs] or [1].
        outer: Values of the blocks around it.
    """
    known: Known = dict(outer or {})
    known.update(zip(block.inputs, arguments, strict=True))
    with np.errstate(all="ignore"):
        for op in block.ops:
            known.update(zip(op.outputs, run(op, known), strict=True))
    return [known[value] for value in block.outputs]


def run(op: Op, known: Known) -> Sequence[Array]:
    """The outputs of one operation."""
    if op.name in REGIONS:
        return REGIONS[op.name](op, known)
    inputs = [known[value] for value in op.inputs]
    if op.name == "threefry":
        return threefry(*inputs)
    if op.name == "sort":
        return sort(op, inputs)
    result = OF_OPS[op.name](op, inputs) if op.name in OF_OPS else FUNCTIONS[op.name](*inputs)
    return [np.asarray(result).astype(op.out.dtype, copy=False)]


# ---- elementwise -----------------------------------------------------------------------------------------


def convert(x: Array, dtype: str) -> Array:
    """By value; floats become the nearest integer towards zero that there is, NaN 0."""
    if x.dtype.kind == "f" and np.dtype(dtype).kind in "iu":
        limits = np.iinfo(dtype)
        wide = np.clip(np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=1e30, neginf=-1e30), limits.min, limits.max)
        return np.trunc(wide).astype(np.int64).astype(dtype)
    return x.astype(dtype)


def divide(x: Array, y: Array) -> Array:
    """Integers towards zero; by zero, all bits set."""
    if x.dtype.kind == "f":
        return x / y
    wide, by = x.astype(np.int64), y.astype(np.int64)
    safe = np.where(by == 0, 1, by)
    return np.where(by == 0, -1, np.sign(wide) * np.sign(safe) * (abs(wide) // abs(safe))).astype(x.dtype)


def remainder(x: Array, y: Array) -> Array:
    """With the sign of x; by zero, x itself."""
    if x.dtype.kind == "f":
        return np.fmod(x, y)
    return np.where(y == 0, x, np.fmod(x, np.where(y == 0, 1, y))).astype(x.dtype)


def power(x: Array, y: Array) -> Array:
    """As C's `pow`. Where one exponent stands for all and is 0.5, NumPy takes roots, and -inf has none."""
    return np.power(x, np.broadcast_to(y, np.broadcast_shapes(x.shape, y.shape)).copy())


def shift(x: Array, count: Array, kind: str) -> Array:
    """By a count of bits; by the width or more, all bits are the sign's or 0."""
    width = x.dtype.itemsize * 8
    inside = (count >= 0) & (count < width)
    safe = np.where(inside, count, 0).astype(np.int64)
    unsigned = x.view(f"u{x.dtype.itemsize}")
    if kind == "shl":
        return np.where(inside, np.left_shift(unsigned, safe.astype(unsigned.dtype)), 0).view(x.dtype)
    if kind == "shr_logical":
        return np.where(inside, np.right_shift(unsigned, safe.astype(unsigned.dtype)), 0).view(x.dtype)
    signed = x.view(f"i{x.dtype.itemsize}")
    return np.right_shift(signed, np.where(inside, count, width - 1).astype(signed.dtype)).view(x.dtype)


def threefry(k0: Array, k1: Array, c0: Array, c1: Array) -> tuple[Array, Array]:
    """Threefry-2x32 with 20 rounds (Salmon et al. 2011, section 3.2, as in JAX)."""
    keys = (k0, k1, k0 ^ k1 ^ np.uint32(0x1BD11BDA))
    x, y = c0 + k0, c1 + k1
    for group in range(5):
        for distance in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            x = x + y
            y = x ^ ((y << np.uint32(distance)) | (y >> np.uint32(32 - distance)))
        x = x + keys[(group + 1) % 3]
        y = y + keys[(group + 2) % 3] + np.uint32(group + 1)
    return x, y


def erf_inv(x: Array) -> Array:
    """Giles 2010, "Approximating the erfinv function", table 5: the single-precision polynomial."""
    w = -np.log1p(-x * x)
    small, large = w - np.float32(2.5), np.sqrt(w) - np.float32(3.0)
    p, q = np.float32(2.81022636e-08), np.float32(-0.000200214257)
    for a, b in zip(ERF_INV_SMALL, ERF_INV_LARGE, strict=True):
        p, q = np.float32(a) + p * small, np.float32(b) + q * large
    return np.where(np.abs(x) == 1, x * np.float32(np.inf), np.where(w < 5, p, q) * x)


ERF_INV_SMALL = (3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
                 0.246640727, 1.50140941)  # fmt: skip
ERF_INV_LARGE = (0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
                 1.00167406, 2.83297682)  # fmt: skip


def by_number(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """A function of Python's `math`, for each element; outside its domain NaN."""

    def one(x: float) -> float:
        try:
            return function(x)
        except (ValueError, OverflowError):
            return math.nan

    return lambda x: np.vectorize(one, otypes=[np.float64])(x)


def count_bits(x: Array) -> Array:
    """That are set in each integer; NumPy would count those of a negative number's absolute value."""
    return np.bitwise_count(x.view(f"u{x.itemsize}"))


def count_leading_zeros(x: Array) -> Array:
    """Of the bits of each integer."""
    return np.vectorize(lambda n: x.dtype.itemsize * 8 - int(n).bit_length(), otypes=[np.int64])(
        x.view(f"u{x.itemsize}")
    )


def sign_of(x: Array) -> Array:
    """-1, 0 or 1, of a float's zero itself; NumPy's gives the positive one."""
    return np.where(x == 0, x, np.sign(x))


def rounded_away(x: Any) -> Any:
    """The nearest whole number, of two the one further from zero; x + 0.5 would be rounded itself."""
    whole = np.trunc(np.abs(x))
    return np.copysign(whole + (np.abs(x) - whole >= 0.5), x)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "neg": np.negative, "abs": np.abs, "sign": sign_of, "not": np.invert, "floor": np.floor, "ceil": np.ceil,
    "round_even": np.rint, "round_away": rounded_away,
    "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "cbrt": np.cbrt, "exp": np.exp, "exp2": np.exp2,
    "log": np.log, "log1p": np.log1p, "expm1": np.expm1, "tanh": np.tanh, "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "erf": by_number(math.erf), "erfc": by_number(math.erfc), "erf_inv": erf_inv, "is_finite": np.isfinite,
    "popcount": count_bits, "clz": count_leading_zeros,
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": divide, "rem": remainder, "max": np.maximum,
    "min": np.minimum, "pow": power, "atan2": np.arctan2, "nextafter": np.nextafter, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "shl": lambda x, n: shift(x, n, "shl"),
    "shr_logical": lambda x, n: shift(x, n, "shr_logical"),
    "shr_arithmetic": lambda x, n: shift(x, n, "shr_arithmetic"),
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "select": np.where,
}  # fmt: skip


# ---- data movement, reductions, conversions: what hangs on attributes and types ------------------------------


def rows(x: Array) -> Array:
    """[num_envs, size]."""
    return x.reshape(len(x), -1)


def affine_positions(shape: Sequence[int], offset: int, strides: Sequence[int]) -> npt.NDArray[np.int64]:
    """Offset + sum of index times stride, for every index of a shape."""
    grid = np.full(tuple(shape), offset, np.int64)
    for axis, stride in enumerate(strides):
        grid += (np.arange(shape[axis]) * stride).reshape([-1 if k == axis else 1 for k in range(len(shape))])
    return grid


def take(x: Array, index: Array) -> Array:
    """Elements of each environment's flat x."""
    num_envs = max(len(x), len(index))
    flat = np.broadcast_to(rows(x), (num_envs, rows(x).shape[1]))
    places = np.broadcast_to(rows(index), (num_envs, rows(index).shape[1]))
    return np.take_along_axis(flat, places.astype(np.int64), 1).reshape(num_envs, *index.shape[1:])


def put(x: Array, index: Array, updates: Array, mask: Array, kind: str) -> Array:
    """One update after the other, so that the last of several wins."""
    num_envs = max(len(x), len(index), len(updates), len(mask))
    out = np.broadcast_to(rows(x), (num_envs, rows(x).shape[1])).copy()
    every = np.arange(num_envs)
    for column in range(rows(index).shape[1]):
        place, new, where = (rows(part)[:, column] for part in (index, updates, mask))
        old = out[every, place]
        out[every, place] = np.where(where, COMBINE[kind](old, new), old)
    return out.reshape(num_envs, *x.shape[1:])


COMBINE: dict[str, Callable[[Array, Array], Array]] = {
    "set": lambda old, new: new, "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum,
}  # fmt: skip
REDUCE: dict[str, Callable[[Array], Array]] = {
    "sum": lambda x: np.sum(x, -1, dtype=x.dtype), "prod": lambda x: np.prod(x, -1, dtype=x.dtype),
    "max": lambda x: np.max(x, -1), "min": lambda x: np.min(x, -1), "and": lambda x: np.bitwise_and.reduce(x, -1),
    "or": lambda x: np.bitwise_or.reduce(x, -1), "xor": lambda x: np.bitwise_xor.reduce(x, -1),
    "argmax": lambda x: np.argmax(x, -1), "argmin": lambda x: np.argmin(x, -1),
}  # fmt: skip
CUMULATE: dict[str, Callable[[Array], Array]] = {
    "sum": lambda x: np.cumsum(x, -1, dtype=x.dtype), "prod": lambda x: np.cumprod(x, -1, dtype=x.dtype),
    "max": lambda x: np.maximum.accumulate(x, -1), "min": lambda x: np.minimum.accumulate(x, -1),
}  # fmt: skip


def sort(op: Op, inputs: Sequence[Array]) -> Sequence[Array]:
    """All inputs by the first few, stable."""
    keys = [np.broadcast_to(x, np.broadcast_shapes(*(y.shape for y in inputs))) for x in inputs]
    order = np.lexsort(tuple(reversed(keys[: op.attrs["num_keys"]])), -1)
    return [np.take_along_axis(x, order, -1) for x in keys]


def concat(inputs: Sequence[Array], axis: int) -> Array:
    """Along an axis of one environment."""
    num_envs = max(map(len, inputs))
    return np.concatenate([np.broadcast_to(x, (num_envs, *x.shape[1:])) for x in inputs], axis + 1)


def stack(op: Op, inputs: Sequence[Array]) -> Array:
    """Scalars as an array of the output's shape."""
    return np.stack(np.broadcast_arrays(*inputs), -1).reshape(-1, *op.out.shape)


def pick(inputs: Sequence[Array]) -> Array:
    """Scalar number inputs[0] of those that follow."""
    index, *choices = np.broadcast_arrays(*inputs)
    return np.stack(choices, -1)[np.arange(len(index)), index.astype(np.int64)]


OF_OPS: dict[str, Callable[[Op, Sequence[Array]], Any]] = {
    "const": lambda op, _: op.attrs["value"][None],
    "convert": lambda op, x: convert(x[0], op.out.dtype),
    "bitcast": lambda op, x: np.ascontiguousarray(x[0]).view(op.out.dtype),
    "view": lambda op, x: rows(x[0])[:, affine_positions(op.out.shape, op.attrs["offset"], op.attrs["strides"])],
    "concat": lambda op, x: concat(x, op.attrs["axis"]),
    "stack": stack,
    "take": lambda op, x: take(x[0], x[1]),
    "pick": lambda op, x: pick(x),
    "put": lambda op, x: put(x[0], x[1], x[2], x[3], op.attrs["kind"]),
    "reduce": lambda op, x: REDUCE[op.attrs["kind"]](x[0]),
    "dot": lambda op, x: (x[0][:, None] @ x[1])[:, 0],
    "cumulate": lambda op, x: CUMULATE[op.attrs["kind"]](x[0]),
}


# ---- regions ---------------------------------------------------------------------------------------------


def choose(condition: Array, x: Array, y: Array) -> Array:
    """X in the environments where the scalar condition holds, else y."""
    return np.where(condition.reshape(-1, *[1] * (max(x.ndim, y.ndim) - 1)), x, y)


def run_if(op: Op, known: Known) -> Sequence[Array]:
    """Only the branches that some environment takes."""
    condition, (then, other) = known[op.inputs[0]], op.regions
    if condition.all():
        return evaluate(then, (), known)
    if not condition.any():
        return evaluate(other, (), known)
    return [choose(condition, x, y) for x, y in zip(evaluate(then, (), known), evaluate(other, (), known), strict=True)]


def run_while(op: Op, known: Known) -> Sequence[Array]:
    """Until no environment goes on; those that are done stay as they are."""
    carried = [known[value] for value in op.inputs]
    active = evaluate(op.regions[0], carried, known)[0]
    while active.any():
        after = evaluate(op.regions[1], carried, known)
        carried = [choose(active, new, old) for new, old in zip(after, carried, strict=True)]
        active = active & evaluate(op.regions[0], carried, known)[0]
    return carried


def run_for(op: Op, known: Known) -> Sequence[Array]:
    """As often as attrs length says."""
    carried = [known[value] for value in op.inputs]
    for index in range(op.attrs["length"]):
        carried = evaluate(op.regions[0], [np.full(1, index, np.int32), *carried], known)
    return carried


REGIONS: dict[str, Callable[[Op, Known], Sequence[Array]]] = {"if": run_if, "while": run_while, "for": run_for}
