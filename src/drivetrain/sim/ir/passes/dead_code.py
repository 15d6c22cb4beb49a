"""Dead code: what no output needs, down to results of regions and values carried through loops for nothing."""

from drivetrain.sim.ir.program import Block, Op, Value, outer_uses


def eliminate_dead(block: Block) -> Block:
    """Only the operations that the outputs need; unused results of regions go with what computes them."""
    needed = set(block.outputs)
    kept: list[Op] = []
    for op in reversed(block.ops):
        if not any(value in needed for value in op.outputs):
            continue
        new = trimmed(op, needed)
        needed.update(new.inputs)
        for region in new.regions:
            needed |= outer_uses(region)
        kept.append(new)
    return Block(block.inputs, tuple(reversed(kept)), block.outputs)


def trimmed(op: Op, needed: set[Value]) -> Op:
    """The operation without results that nobody needs."""
    if op.name == "if":
        keep = [k for k, value in enumerate(op.outputs) if value in needed]
        regions = tuple(eliminate_dead(Block((), r.ops, tuple(r.outputs[k] for k in keep))) for r in op.regions)
        return Op("if", op.inputs, tuple(op.outputs[k] for k in keep), op.attrs, regions, op.where)
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
        used = uses_of(eliminate_dead(Block(body.inputs, body.ops, tuple(body.outputs[k] for k in sorted(keep)))))
        more = keep | {k - skip for k, value in enumerate(body.inputs) if k >= skip and value in used}
        if more == keep:
            break
        keep = more
    order = sorted(keep)
    inputs = (*body.inputs[:skip], *(body.inputs[k + skip] for k in order))
    regions = [eliminate_dead(Block(inputs, body.ops, tuple(body.outputs[k] for k in order)))]
    if condition is not None:
        carried = tuple(condition.inputs[k] for k in order)
        regions.insert(0, eliminate_dead(Block(carried, condition.ops, condition.outputs)))
    outputs, starts = tuple(op.outputs[k] for k in order), tuple(op.inputs[k] for k in order)
    return Op(op.name, starts, outputs, op.attrs, tuple(regions), op.where)


def uses_of(block: Block) -> set[Value]:
    """Every value that a block or its regions mention."""
    used = set(block.outputs)
    for op in block.walk():
        used.update(op.inputs)
        for region in op.regions:
            used.update(region.outputs)
    return used
