"""Dead code: what no output needs, down to results of regions and values carried through loops for nothing."""

from collections.abc import Sequence
from operator import is_

from drivetrain.sim.ir.program import Block, Op, Value, outer_uses, remade


def eliminate_dead(block: Block) -> Block:
    """Only the operations that the outputs need; unused results of regions go with what computes them."""
    needed = set(block.outputs)
    kept: list[Op] = []
    for op in reversed(block.ops):
        if needed.isdisjoint(op.outputs):
            continue
        new = trimmed(op, needed) if op.regions else op
        needed.update(new.inputs)
        for region in new.regions:
            needed |= outer_uses(region)
        kept.append(new)
    return remade(block, reversed(kept), {})


def trimmed(op: Op, needed: set[Value]) -> Op:
    """The operation without results that nobody needs."""
    if op.name == "if":
        keep = [k for k, value in enumerate(op.outputs) if value in needed]
        regions = [eliminate_dead(with_ends(r, (), tuple(r.outputs[k] for k in keep))) for r in op.regions]
        return changed(op, op.inputs, tuple(op.outputs[k] for k in keep), regions)
    if op.name in ("while", "for"):
        return trimmed_loop(op, needed)
    return op


def trimmed_loop(op: Op, needed: set[Value]) -> Op:
    """A loop without carried values that neither an output nor another carried value needs."""
    skip = 1 if op.name == "for" else 0
    body = op.regions[-1]
    keep = {k for k, value in enumerate(op.outputs) if value in needed}
    condition = op.regions[0] if op.name == "while" else None
    if condition is not None:
        used = uses_of(condition)
        keep |= {k for k, value in enumerate(condition.inputs) if value in used}
    while True:
        live = eliminate_dead(with_ends(body, body.inputs, tuple(body.outputs[k] for k in sorted(keep))))
        used = uses_of(live)
        more = keep | {k - skip for k, value in enumerate(body.inputs) if k >= skip and value in used}
        if more == keep:
            break
        keep = more
    order = sorted(keep)
    inputs = (*body.inputs[:skip], *(body.inputs[k + skip] for k in order))
    regions = [with_ends(live, inputs, live.outputs)]
    if condition is not None:
        carried = tuple(condition.inputs[k] for k in order)
        regions.insert(0, eliminate_dead(with_ends(condition, carried, condition.outputs)))
    outputs, starts = tuple(op.outputs[k] for k in order), tuple(op.inputs[k] for k in order)
    return changed(op, starts, outputs, regions)


def with_ends(block: Block, inputs: tuple[Value, ...], outputs: tuple[Value, ...]) -> Block:
    """The block with some of its inputs and outputs; itself where these are all."""
    is_whole = inputs == block.inputs and outputs == block.outputs
    return block if is_whole else Block(inputs, block.ops, outputs)


def changed(op: Op, inputs: tuple[Value, ...], outputs: tuple[Value, ...], regions: Sequence[Block]) -> Op:
    """The operation with other ends and regions; itself where all is as it was."""
    is_same = len(outputs) == len(op.outputs) and all(map(is_, regions, op.regions))
    return op if is_same else Op(op.name, inputs, outputs, op.attrs, tuple(regions), op.where)


def uses_of(block: Block) -> set[Value]:
    """Every value that a block or its regions mention."""
    used = set(block.outputs)
    for op in block.walk():
        used.update(op.inputs)
        for region in op.regions:
            used.update(region.outputs)
    return used
