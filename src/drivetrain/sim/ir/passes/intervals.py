"""Which numbers the results of operations on integers can be: intervals with both ends, from those of the inputs."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from drivetrain.sim.ir.program import Op, Value

Interval = tuple[int, int]
Of = Callable[[Value], Interval]


def whole(dtype: str) -> Interval:
    """Every number of a type; of floats, which are not followed, more than any integer's."""
    if dtype == "bool":
        return 0, 1
    if dtype == "float32":
        return -(2**200), 2**200
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


def union(*intervals: Interval) -> Interval:
    """The smallest interval around several."""
    return min(low for low, _ in intervals), max(high for _, high in intervals)


def interval_of(op: Op, of: Of, makers: Mapping[Value, Op]) -> Interval | None:
    """The interval of an operation's only output; None where nothing is known. May exceed the type: it wraps then."""
    if op.name == "const":
        array: Any = op.attrs["value"]
        return (int(array.min()), int(array.max())) if array.size and array.dtype.kind in "iub" else None
    if op.name == "select":
        condition, x, y = op.inputs
        return union(*(refined(value, condition, holds, of, makers) for value, holds in ((x, True), (y, False))))
    rule = INTERVALS.get(op.name)
    return rule(op, of) if rule is not None and all(v.dtype != "float32" for v in op.inputs) else None


OPPOSITE = {"lt": "ge", "ge": "lt", "le": "gt", "gt": "le", "eq": "ne", "ne": "eq"}
MOST_NESTED = 6
"""Conditions inside each other that are looked through: where each is part of several others, these are many."""


def refined(
    value: Value, condition: Value, holds: bool, of: Of, makers: Mapping[Value, Op], left: int = MOST_NESTED
) -> Interval:
    """The interval of a value where a condition is known to hold, or not to.

    So JAX wraps negative positions around, `select(x < 0, x + n, x)`, and corrects remainders of negative numbers.
    """
    test = makers.get(condition)
    if test is None or test.inputs == () or test.inputs[-1].dtype == "float32" or not left:
        return of(value)
    if test.name == "not":
        return refined(value, test.inputs[0], not holds, of, makers, left - 1)
    if test.name in ("and", "or") and test.out.dtype == "bool":
        both = [refined(value, part, holds, of, makers, left - 1) for part in test.inputs]
        return overlap(*both) if (test.name == "and") == holds else union(*both)
    if test.name not in OPPOSITE:
        return of(value)
    x, number = test.inputs
    part = where(test.name if holds else OPPOSITE[test.name], of(x), of(number))
    if part[0] > part[1]:  # never so: this case does not matter
        return of(value)
    if value is x:
        return part
    maker = makers.get(value)
    if maker is None or maker.name != "add" or x not in maker.inputs:
        return of(value)
    low, high = of(maker.inputs[1] if maker.inputs[0] is x else maker.inputs[0])
    (smallest, largest), shifted = whole(value.dtype), (part[0] + low, part[1] + high)
    return shifted if smallest <= shifted[0] and shifted[1] <= largest else of(value)


def where(name: str, x: Interval, number: Interval) -> Interval:
    """The part of an interval in which a comparison with a number of another can hold; empty if low exceeds high."""
    (a, b), (least, most) = x, number
    if name == "ne":
        return (a + (a == least == most), b - (b == least == most))
    low = {"gt": least + 1, "ge": least, "eq": least}.get(name, a)
    high = {"lt": most - 1, "le": most, "eq": most}.get(name, b)
    return max(a, low), min(b, high)


def overlap(x: Interval, y: Interval) -> Interval:
    """What two intervals have in common; the first where that is nothing."""
    low, high = max(x[0], y[0]), min(x[1], y[1])
    return (low, high) if low <= high else x


def corners(op: Op, of: Of, function: Callable[[int, int], int]) -> Interval:
    """Of a function whose extremes lie at the ends of the inputs' intervals."""
    (a, b), (c, d) = (of(value) for value in op.inputs)
    every = [function(x, y) for x in (a, b) for y in (c, d)]
    return min(every), max(every)


def _rem(op: Op, of: Of) -> Interval | None:
    (a, b), (c, d) = (of(value) for value in op.inputs)
    if c <= 0 <= d:  # by zero it is x itself
        return None
    most = max(abs(c), abs(d)) - 1
    return max(a, -most) if a < 0 else 0, min(b, most) if b > 0 else 0


def _div(op: Op, of: Of) -> Interval | None:
    (c, d) = of(op.inputs[1])
    return None if c <= 0 <= d else corners(op, of, lambda x, y: abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1))


def _and(op: Op, of: Of) -> Interval | None:
    """Of bits: no more than the smaller of those that have no sign."""
    highs = [of(value)[1] for value in op.inputs if of(value)[0] >= 0]
    return (0, min(highs)) if highs else None


def _or(op: Op, of: Of) -> Interval | None:
    """Of bits: below the next power of two."""
    intervals = [of(value) for value in op.inputs]
    if min(low for low, _ in intervals) < 0:
        return None
    return 0, 2 ** max(high for _, high in intervals).bit_length() - 1


def _shr(op: Op, of: Of) -> Interval | None:
    (a, b), (c, d) = (of(value) for value in op.inputs)
    return (a >> min(d, 32), b >> c) if a >= 0 and c >= 0 and d < 32 else None


def _abs(op: Op, of: Of) -> Interval:
    a, b = of(op.inputs[0])
    return (0 if a <= 0 <= b else min(abs(a), abs(b))), max(abs(a), abs(b))


def _neg(op: Op, of: Of) -> Interval:
    a, b = of(op.inputs[0])
    return -b, -a


def _first(op: Op, of: Of) -> Interval:
    return of(op.inputs[0])


def _all(op: Op, of: Of) -> Interval:
    return union(*(of(value) for value in op.inputs))


def _pick(op: Op, of: Of) -> Interval:
    return union(*(of(value) for value in op.inputs[1:]))


def _put(op: Op, of: Of) -> Interval | None:
    x, _, updates, _ = op.inputs
    return union(of(x), of(updates)) if op.attrs["kind"] in ("set", "max", "min") else None


def _reduce(op: Op, of: Of) -> Interval | None:
    (low, high), size, kind = of(op.inputs[0]), op.inputs[0].shape[-1], op.attrs["kind"]
    if op.inputs[0].dtype == "bool" and kind not in ("argmax", "argmin"):
        return None
    if kind in ("max", "min"):
        return low, high
    if kind in ("argmax", "argmin"):
        return 0, max(size - 1, 0)
    return (low * size, high * size) if kind == "sum" else None


def _cumulate(op: Op, of: Of) -> Interval | None:
    (low, high), size = of(op.inputs[0]), op.inputs[0].shape[-1]
    if op.attrs["kind"] == "sum":
        return min(low, low * size), max(high, high * size)
    return (low, high) if op.attrs["kind"] in ("max", "min") else None


INTERVALS: dict[str, Callable[[Op, Of], Interval | None]] = {
    "add": lambda op, of: corners(op, of, lambda x, y: x + y),
    "sub": lambda op, of: corners(op, of, lambda x, y: x - y),
    "mul": lambda op, of: corners(op, of, lambda x, y: x * y), "max": lambda op, of: corners(op, of, max),
    "min": lambda op, of: corners(op, of, min), "rem": _rem, "div": _div, "and": _and, "or": _or, "xor": _or,
    "shr_logical": _shr, "shr_arithmetic": _shr, "abs": _abs, "neg": _neg, "sign": lambda _, __: (-1, 1),
    "popcount": lambda _, __: (0, 32), "clz": lambda _, __: (0, 32), "convert": _first, "view": _first, "take": _first,
    "concat": _all, "stack": _all, "pick": _pick, "put": _put, "reduce": _reduce, "cumulate": _cumulate,
}  # fmt: skip
