"""Predicated put: `select(p, put(x, ...), x)` becomes a put that also asks p.

JAX has no conditional update, so authors write `select(hit, grid.at[y, x].set(v), grid)`, which copies the
whole grid twice. Afterwards the put changes one element in place. Puts upon puts are followed down to x.
"""

from drivetrain.sim.ir.build import Builder
from drivetrain.sim.ir.passes.renaming import renamed_block, renamed_op
from drivetrain.sim.ir.passes.sinking import users_of
from drivetrain.sim.ir.program import Block, Op, Value, map_regions, remade, repeated_scalar


def predicate_puts(block: Block) -> Block:
    """All such selects by a scalar condition, in every block."""
    users = users_of(block)
    makers = {value: op for op in block.ops for value in op.outputs}
    plans: dict[Op, tuple[Value, bool, list[Op]]] = {}
    replaced: set[Op] = set()
    for op in block.ops:
        condition = scalar_condition(makers, op) if op.name == "select" else None
        if condition is None:
            continue
        for kept, case in ((2, 1), (1, 2)):
            chain = puts_down_to(makers, users, op.inputs[case], op.inputs[kept])
            if chain and op not in plans and not replaced.intersection(chain):
                plans[op] = condition, case == 1, chain
                replaced.update(chain)
    renamed: dict[Value, Value] = {}
    builder = Builder()
    for op in block.ops:
        builder.where = op.where
        if op in plans:
            renamed[op.out] = write(builder, *plans[op], renamed)
        elif op not in replaced:
            builder.ops.append(renamed_op(map_regions(op, predicate_puts), renamed))
    return renamed_block(remade(block, builder.ops, {}), renamed)


def scalar_condition(makers: dict[Value, Op], select: Op) -> Value | None:
    """The scalar that decides a select of arrays."""
    return repeated_scalar(makers.get(select.inputs[0])) if select.out.shape else None


def puts_down_to(makers: dict[Value, Op], users: dict[Value, list[Op | None]], top: Value, bottom: Value) -> list[Op]:
    """The puts, first to last, that make `top` of `bottom`, each needed by nobody else; empty if it is not so."""
    chain = puts_below(makers, users, top)
    sources = [put.inputs[0] for put in chain]
    return chain[sources.index(bottom) :] if bottom in sources else []


def puts_below(makers: dict[Value, Op], users: dict[Value, list[Op | None]], top: Value) -> list[Op]:
    """All the puts, first to last, that make `top` of what is no such put; each is needed by nobody else.

    The next one needs it for nothing but its elements: not for what it puts, or where, too.
    """
    chain: list[Op] = []
    while (op := makers.get(top)) is not None and op.name == "put" and len(users[top]) == 1:
        if chain and top in chain[-1].inputs[1:]:
            break
        chain.append(op)
        top = op.inputs[0]
    return chain[::-1]


def write(
    builder: Builder, condition: Value, where_it_holds: bool, chain: list[Op], renamed: dict[Value, Value]
) -> Value:
    """The puts of a chain under a condition."""
    condition = renamed.get(condition, condition)
    wanted = condition if where_it_holds else builder.elementwise("not", condition)
    current = chain[0].inputs[0]
    current = renamed.get(current, current)
    for put in chain:
        _, index, updates, mask = (renamed.get(value, value) for value in put.inputs)
        current = builder.put(current, index, updates, builder.elementwise("and", mask, wanted), put.attrs["kind"])
    return current
