"""The intermediate representation: one step of ONE environment as a flat list of typed operations.

    jaxpr ─importer─▶ Program ─passes─▶ Program ─▶ native | numpy | torch

Values are in static single assignment: each is the output of one operation, or an input of a block. A
block may use the values of the blocks around it. `ops.py` says what each operation means.
"""

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from operator import is_
from typing import Any

_numbers = itertools.count()


@dataclass(frozen=True, eq=False, slots=True)
class Value:
    """An array of one environment, known by identity; a scalar has the shape ()."""

    shape: tuple[int, ...]
    dtype: str
    number: int = field(default_factory=lambda: next(_numbers))

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(prod(self.shape))  # of NumPy's integers where JAX gives such

    def __repr__(self) -> str:
        return f"%{self.number}:{self.dtype}{list(self.shape) if self.shape else ''}"


@dataclass(frozen=True, eq=False, slots=True)
class Op:
    """One operation; `regions` are the blocks of `if`, `while` and `for`."""

    name: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    attrs: dict[str, Any] = field(default_factory=dict[str, Any])
    regions: tuple["Block", ...] = ()
    where: str = ""
    """The line of the environment that asked for it, as FILE:LINE."""

    @property
    def out(self) -> Value:
        """The only output."""
        (value,) = self.outputs
        return value


@dataclass(frozen=True, slots=True)
class Block:
    """Operations in an order in which they can run, the values they start from and those they give."""

    inputs: tuple[Value, ...]
    ops: tuple[Op, ...]
    outputs: tuple[Value, ...]

    def walk(self) -> Iterator[Op]:
        """Every operation, those of regions after the one that holds them."""
        for op in self.ops:
            yield op
            for region in op.regions:
                yield from region.walk()

    @property
    def num_ops(self) -> int:
        """Operations here and in all regions; constants are none."""
        return sum(op.name != "const" for op in self.walk())


def attrs_key(op: Op) -> Hashable:
    """What tells two operations of the same name and inputs apart."""
    return tuple((name, hashable(value)) for name, value in sorted(op.attrs.items()))


def hashable(value: Any) -> Hashable:
    """An attribute as something that can be a key; arrays by their bytes."""
    return (value.dtype.str, value.shape, value.tobytes()) if hasattr(value, "tobytes") else value


def repeated_scalar(op: Op | None) -> Value | None:
    """The scalar that an operation repeats in an array; None where it is another operation, or none."""
    return op.inputs[0] if op is not None and op.name == "view" and not op.inputs[0].shape else None


def outer_uses(block: Block) -> set[Value]:
    """Values of surrounding blocks that this one uses."""
    used: set[Value] = set(block.outputs)
    made: set[Value] = set(block.inputs)
    for op in block.ops:
        used.update(op.inputs)
        made.update(op.outputs)
        for region in op.regions:
            used |= outer_uses(region)
    return used - made


def rebuilt(op: Op, renamed: Mapping[Value, Value], regions: Sequence[Block] = ()) -> Op:
    """The operation with its inputs looked up in `renamed`, and other regions where given; itself where all stays.

    Passes ask this of every operation in every round, and most of a large program stays as it is.
    """
    same_inputs = renamed.keys().isdisjoint(op.inputs)
    if same_inputs and all(map(is_, regions, op.regions)):
        return op
    inputs = op.inputs if same_inputs else tuple(renamed.get(value, value) for value in op.inputs)
    return Op(op.name, inputs, op.outputs, op.attrs, tuple(regions) or op.regions, op.where)


def remade(block: Block, ops: Iterable[Op], renamed: Mapping[Value, Value]) -> Block:
    """The block with other operations, and its outputs looked up in `renamed`; itself where all is as it was."""
    ops, outputs = tuple(ops), block.outputs
    if not renamed.keys().isdisjoint(outputs):
        outputs = tuple(renamed.get(value, value) for value in outputs)
    is_same = outputs is block.outputs and len(ops) == len(block.ops) and all(map(is_, ops, block.ops))
    return block if is_same else Block(block.inputs, ops, outputs)


def map_regions(op: Op, change: Callable[[Block], Block]) -> Op:
    """The operation with `change` done to each of its regions."""
    return op if not op.regions else rebuilt(op, {}, [change(region) for region in op.regions])


def describe(block: Block, indent: str = "") -> str:
    """The block as text, one operation a line, for people and for tests."""
    lines: list[str] = []
    for op in block.ops:
        outputs = ", ".join(map(repr, op.outputs))
        lines.append(f"{indent}{outputs} = {op.name} {', '.join(f'%{v.number}' for v in op.inputs)} {op.attrs or ''}")
        for region in op.regions:
            lines.append(f"{indent}  region {', '.join(map(repr, region.inputs))}:")
            lines.append(describe(region, indent + "    "))
    lines.append(f"{indent}give {', '.join(map(repr, block.outputs))}")
    return "\n".join(line.rstrip() for line in lines)
