"""Range analysis: comparisons, clamps and remainders that the possible values of integers decide disappear.

Indexing in JAX wraps negative positions around and clamps what lies outside. A position from `rem`, `clip`, `argmax`,
a loop or a mask is known to lie inside, and all of that is for nothing. Inputs of the step may be anything: a state is
taken as it is given.
"""

from collections.abc import Callable

import numpy as np

from drivetrain.sim.ir.build import Builder
from drivetrain.sim.ir.passes.intervals import Interval, interval_of, whole
from drivetrain.sim.ir.program import Block, Op, Value, rebuilt, remade


def drop_bounds(block: Block) -> Block:
    """The block without operations on integers whose result is one of their inputs, or always the same."""
    return Ranges().block(block)


class Ranges:
    """Rewrites from top to bottom, knowing the interval of every value so far."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self.intervals: dict[Value, Interval] = {}
        self.makers: dict[Value, Op] = {}
        self.renamed: dict[Value, Value] = {}

    def of(self, value: Value) -> Interval:
        """The smallest and the largest number that an element of a value can be; floats are not followed."""
        return self.intervals.get(value) or whole(value.dtype)

    def number(self, value: Value) -> int | None:
        """The only number that a value can be, or None."""
        low, high = self.of(value)
        return low if low == high else None

    def block(self, block: Block) -> Block:
        """One block; names inside are unique, so regions share what is known."""
        builder = Builder()
        for op in block.ops:
            builder.where = op.where
            if op.name == "for":
                self.intervals[op.regions[0].inputs[0]] = 0, max(op.attrs["length"] - 1, 0)
            regions = [self.block(region) for region in op.regions]
            self.rewrite(builder, rebuilt(op, self.renamed, regions))
        return remade(block, builder.ops, self.renamed)

    def rewrite(self, builder: Builder, op: Op) -> None:
        """Write one operation, or nothing where its result is known by another name."""
        rule = RULES.get(op.name)
        same = rule(self, builder, op) if rule is not None and op.inputs[-1].dtype not in ("float32", "bool") else None
        if same is not None:
            self.renamed[op.out] = same
            self.learn(builder.ops[-1:])
            return
        builder.ops.append(op)
        self.learn([op])

    def learn(self, ops: list[Op]) -> None:
        """Remember what is known of the results of operations."""
        for op in ops:
            for value in op.outputs:
                self.makers.setdefault(value, op)
                found = interval_of(op, self.of, self.makers)
                if found is not None and value.dtype != "float32" and len(op.outputs) == 1:
                    low, high = whole(value.dtype)
                    self.intervals[value] = found if low <= found[0] and found[1] <= high else (low, high)


def _max(at: Ranges, _: Builder, op: Op) -> Value | None:
    x, y = op.inputs
    return x if at.of(x)[0] >= at.of(y)[1] else y if at.of(y)[0] >= at.of(x)[1] else None


def _min(at: Ranges, _: Builder, op: Op) -> Value | None:
    x, y = op.inputs
    return x if at.of(x)[1] <= at.of(y)[0] else y if at.of(y)[1] <= at.of(x)[0] else None


def _rem(at: Ranges, _: Builder, op: Op) -> Value | None:
    x, y = op.inputs
    return x if at.of(x)[0] >= 0 and at.of(x)[1] < at.of(y)[0] else None


def _abs(at: Ranges, _: Builder, op: Op) -> Value | None:
    return op.inputs[0] if at.of(op.inputs[0])[0] >= 0 else None


def _and(at: Ranges, _: Builder, op: Op) -> Value | None:
    """With a mask of the lowest bits, where no other can be set."""
    for x, mask in (op.inputs, op.inputs[::-1]):
        (low, high), (bits, same) = at.of(x), at.of(mask)
        if bits == same and bits & (bits + 1) == 0 and low >= 0 and high <= bits:
            return x
    return None


def _compare(at: Ranges, builder: Builder, op: Op) -> Value | None:
    """Decided where the intervals do not meet, or only in a number that decides it, too."""
    (a, b), (c, d) = at.of(op.inputs[0]), at.of(op.inputs[1])
    always, never = {
        "lt": (b < c, a >= d), "le": (b <= c, a > d), "gt": (a > d, b <= c), "ge": (a >= d, b < c),
        "eq": (a == b == c == d, b < c or d < a), "ne": (b < c or d < a, a == b == c == d),
    }[op.name]  # fmt: skip
    if always or never:
        return builder.full(op.out.shape, np.bool_(always), "bool")
    return _compare_multiple(at, builder, op, c) if op.name in ("eq", "ne") and c == d else None


def _compare_multiple(at: Ranges, builder: Builder, op: Op, number: int) -> Value | None:
    """Of `factor * x + rest` with a number: decided by the remainder, or a comparison of x.

    Where in a row of a table an element lies decides which of several updates of a row can be meant for it.
    """
    rest, product = 0, at.makers.get(op.inputs[0])
    if product is not None and product.name == "add":
        parts = [value for value in product.inputs if at.number(value) is None]
        if len(parts) != 1:
            return None
        rest = sum(at.number(value) or 0 for value in product.inputs)
        product = at.makers.get(parts[0])
    if product is None or product.name != "mul":
        return None
    for x, factor in (product.inputs, product.inputs[::-1]):
        times, (low, high) = at.number(factor) or 0, at.of(x)
        least, most = whole(x.dtype)
        ends = [low * times, high * times, low * times + rest, high * times + rest]
        if times >= 2 and least <= min(ends) and max(ends) <= most:  # nothing wraps
            whole_times, left = divmod(number - rest, times)
            if left or not low <= whole_times <= high:
                return builder.full(op.out.shape, np.bool_(op.name == "ne"), "bool")
            return builder.elementwise(op.name, x, builder.full(x.shape, whole_times, x.dtype))
    return None


Rule = Callable[[Ranges, Builder, Op], Value | None]
RULES: dict[str, Rule] = {
    "max": _max, "min": _min, "rem": _rem, "abs": _abs, "and": _and,
    "lt": _compare, "le": _compare, "gt": _compare, "ge": _compare, "eq": _compare, "ne": _compare,
}  # fmt: skip
