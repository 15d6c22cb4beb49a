"""Counters: a number that a loop of fixed length only adds a constant to is `start + index * step`.

JAX's `fori_loop` carries its index like any other value. Written with the loop's own index it has a range, is the same
in all lanes, and leaves the carried values.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from drivetrain.sim.ir.build import Builder
from drivetrain.sim.ir.passes.renaming import renamed_block
from drivetrain.sim.ir.program import Block, Op, Value, map_regions, remade

Constants = dict[Value, int]


def count_by_index(block: Block) -> Block:
    """All such numbers, in every loop; carried still, for nothing, until dead code takes them out."""
    return rewritten(block, {})


def rewritten(block: Block, constants: Constants) -> Block:
    """One block, knowing the whole numbers that are constants around it."""
    constants, renamed = constants | constants_of(block.ops), dict[Value, Value]()
    builder = Builder()
    for op in block.ops:
        builder.where = op.where
        op = map_regions(op, lambda region: rewritten(region, constants))
        steps = counters_of(op, constants) if op.name == "for" else {}
        if not steps:
            builder.ops.append(op)
            continue
        builder.ops.append(by_index(op, steps))
        length = op.attrs["length"]
        for k, (start, step) in steps.items():
            renamed[op.outputs[k]] = builder.const(as_type(start + length * step, op.outputs[k].dtype))
    return renamed_block(remade(block, builder.ops, {}), renamed)


def counters_of(op: Op, constants: Constants) -> dict[int, tuple[int, int]]:
    """Which carried values are counters: number of the value -> start, step."""
    (body,) = op.regions
    inner = constants | constants_of(body.ops)
    makers = {value: o for o in body.ops for value in o.outputs}
    found: dict[int, tuple[int, int]] = {}
    for k, (start, carried, after) in enumerate(zip(op.inputs, body.inputs[1:], body.outputs, strict=True)):
        maker = makers.get(after)
        if start not in constants or maker is None or maker.name != "add":
            continue
        others = [value for value in maker.inputs if value is not carried]
        if len(others) == 1 and others[0] in inner:
            found[k] = constants[start], inner[others[0]]
    return found


def constants_of(ops: Iterable[Op]) -> Constants:
    """Those that are one integer of 32 bits."""
    consts = (op for op in ops if op.name == "const" and not op.out.shape and op.out.dtype in ("int32", "uint32"))
    return {op.out: int(op.attrs["value"]) for op in consts}


def by_index(op: Op, steps: dict[int, tuple[int, int]]) -> Op:
    """The loop with its counters computed from its index at the start of each turn."""
    (body,) = op.regions
    builder, renamed, index = Builder(op.where), dict[Value, Value](), body.inputs[0]
    for k, (start, step) in steps.items():
        carried = body.inputs[k + 1]
        number = builder.convert(index, carried.dtype)
        scaled = builder.elementwise("mul", number, builder.const(as_type(step, carried.dtype)))
        renamed[carried] = builder.elementwise("add", scaled, builder.const(as_type(start, carried.dtype)))
    inside = renamed_block(Block(body.inputs, body.ops, body.outputs), renamed)
    whole = Block(body.inputs, (*builder.ops, *inside.ops), inside.outputs)
    return Op(op.name, op.inputs, op.outputs, op.attrs, (whole,), op.where)


def as_type(number: int, dtype: str) -> npt.NDArray[Any]:
    """A number modulo 2^32 as one that the type has."""
    return np.asarray(number % 2**32, np.uint32).view(dtype)
