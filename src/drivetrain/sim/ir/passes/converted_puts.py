"""Converted puts: `convert(put(x, index, updates))` of a constant x becomes `put(convert(x), index, convert(updates))`.

An observation is often built by puts into an array of zeros, and converted when it is whole. Afterwards it is built in
the wanted type, and no element is read and written again. Puts upon puts are followed down to x.
"""

from drivetrain.sim.ir.build import Builder
from drivetrain.sim.ir.passes.predicated_put import puts_below
from drivetrain.sim.ir.passes.renaming import renamed_block, renamed_op
from drivetrain.sim.ir.passes.sinking import users_of
from drivetrain.sim.ir.program import Block, Op, Value, map_regions, remade


def convert_below_puts(block: Block) -> Block:
    """All such conversions, in every block."""
    users = users_of(block)
    makers = {value: op for op in block.ops for value in op.outputs}
    chains: dict[Op, list[Op]] = {}
    for op in block.ops:
        if op.name == "convert" and is_built(makers, chain := puts_below(makers, users, op.inputs[0])):
            chains[op] = chain
    moved = {put for chain in chains.values() for put in chain}
    renamed: dict[Value, Value] = {}
    builder = Builder()
    for op in block.ops:
        builder.where = op.where
        if op in chains:
            renamed[op.out] = write(builder, op.out.dtype, chains[op], renamed)
        elif op not in moved:
            builder.ops.append(renamed_op(map_regions(op, convert_below_puts), renamed))
    return renamed_block(remade(block, builder.ops, {}), renamed)


def is_built(makers: dict[Value, Op], chain: list[Op]) -> bool:
    """Whether there are such puts, which set elements of a constant."""
    if not chain or any(put.attrs["kind"] != "set" for put in chain):
        return False
    base = makers.get(chain[0].inputs[0])
    return base is not None and base.name == "const"


def write(builder: Builder, dtype: str, chain: list[Op], renamed: dict[Value, Value]) -> Value:
    """The puts of a chain into an array of another type."""
    base = chain[0].inputs[0]
    current = builder.convert(renamed.get(base, base), dtype)
    for put in chain:
        _, index, updates, mask = (renamed.get(value, value) for value in put.inputs)
        current = builder.put(current, index, builder.convert(updates, dtype), mask, put.attrs["kind"])
    return current
