"""Sinking: what is only needed where a scalar condition holds moves under it.

In a step with autoreset the next episode's start is chosen by `select(done, start, after)`. Everything
that only such selects need, most of all its random numbers, is computed under `if done`: a tile of
environments skips it while none of them is done. Any condition qualifies, and nothing has to be marked.
A large array of constants counts as work, too: choosing it or not reads and writes every element.

Inside a branch the choices by its condition are decided, for lanes that do not take it, too. Where such a choice kept
a position inside an array, as `select(x < 0, x + n, x)` does, those lanes would read and write beyond it.
"""

import heapq
from collections import defaultdict

from drivetrain.sim.ir.build import Builder
from drivetrain.sim.ir.passes.renaming import renamed_block, renamed_op
from drivetrain.sim.ir.program import Block, Op, Value, outer_uses, repeated_scalar

COSTS = {"threefry": 120, "view": 1, "const": 0, "pick": 10, "take": 20, "sort": 400, "for": 200, "while": 400,
         "sin": 30, "cos": 30, "exp": 20, "log": 20, "pow": 50, "tanh": 40, "erf_inv": 60, "dot": 64}  # fmt: skip
POSITIONS = {"take": 1, "put": 1, "pick": 0}
"""Operations at computed positions, and which input holds these."""
LEAST_COST = 40
"""Vector operations that must be saved before a branch is worth it."""
MOST_BRANCHES = 12


def sink(block: Block) -> Block:
    """Move what only selects by one condition need under that condition, most saved work first."""
    found = [(cost_of(chain), condition) for condition, chain, _ in candidates(block, None)]
    found.sort(key=lambda entry: (-entry[0], entry[1].number))
    for _, condition in found[:MOST_BRANCHES]:
        for _, chain, selects in candidates(block, condition):
            block = under(block, chain, selects, condition)
    return block


def candidates(block: Block, only: Value | None) -> list[tuple[Value, set[Op], list[Op]]]:
    """Conditions with the operations that could move under them and the selects by them; all, or of one."""
    by_condition: dict[Value, list[Op]] = defaultdict(list)
    scalar_of = {op.out: scalar for op in block.ops if (scalar := repeated_scalar(op))}
    for op in block.ops:
        if op.name == "select":
            condition = scalar_of.get(op.inputs[0], op.inputs[0])
            if not condition.shape and only in (None, condition):
                by_condition[condition].append(op)
    users = users_of(block)
    position = {value: k for k, op in enumerate(block.ops) for value in op.outputs}
    found: list[tuple[Value, set[Op], list[Op]]] = []
    for condition, selects in by_condition.items():
        chain = movable(block, users, position, condition, set(selects))
        while cost_of(chain) >= LEAST_COST:  # with fewer selects less can move
            late = needing_others(block, chain, selects)
            if not late:
                found.append((condition, chain, selects))
                break
            selects = [op for op in selects if op not in late]
            chain = movable(block, users, position, condition, set(selects))
    return found


def users_of(block: Block) -> dict[Value, list[Op | None]]:
    """Who uses each value; None stands for an output of the block."""
    users: dict[Value, list[Op | None]] = defaultdict(list)
    for op in block.ops:
        for value in inputs_of(op):
            users[value].append(op)
    for value in block.outputs:
        users[value].append(None)
    return users


def movable(block: Block, users: dict[Value, list[Op | None]], position: dict[Value, int], condition: Value,
            selects: set[Op]) -> set[Op]:  # fmt: skip
    """Operations all of whose users are among them, or are selects that take them where the condition holds."""
    chain: set[Op] = set()

    def is_only_taken(user: Op | None, value: Value) -> bool:
        if user in chain:
            return True
        return user is not None and user in selects and user.inputs[1] is value and user.inputs[2] is not value

    waiting = {-position[op.inputs[1]] for op in selects if op.inputs[1] in position}
    heap = sorted(waiting)
    while heap:  # from the last operation to the first, so that all users have been decided on
        op = block.ops[-heapq.heappop(heap)]
        is_number = op.name == "const" and not op.out.shape
        if is_number or op in selects or condition in op.outputs:
            continue
        if not all(is_only_taken(user, value) for value in op.outputs for user in users[value]):
            continue
        chain.add(op)
        for value in inputs_of(op):
            place = -position.get(value, 1)
            if value in position and place not in waiting:
                waiting.add(place)
                heapq.heappush(heap, place)
    return chain


def needing_others(block: Block, chain: set[Op], selects: list[Op]) -> set[Op]:
    """Selects that cannot be in one branch with the others: they need what stays outside and needs a result of it.

    a = select(p, work, x); b = a + 1, which others use, too; c = select(p, work on b, y)
    """
    made = {value for op in chain for value in op.outputs}
    if_true, if_false = decided(selects, 1), decided(selects, 2)
    after: set[Value] = set()  # what is only there when the branch has run
    needing: set[Value] = set()  # results of the chain that cannot be there before
    late: set[Op] = set()
    for op in block.ops:
        if op in chain:
            taken = [if_true.get(value, value) for value in inputs_of(op)]
            if not (after.isdisjoint(taken) and needing.isdisjoint(taken)):
                needing.update(op.outputs)
        elif op in selects and op.inputs[1] in made:
            after.add(op.out)
            if op.inputs[1] in needing or if_false.get(op.inputs[2], op.inputs[2]) in after:
                late.add(op)
        elif after and not after.isdisjoint(inputs_of(op)):
            after.update(op.outputs)
    return late


def inputs_of(op: Op) -> set[Value]:
    """Everything an operation and its regions use from outside."""
    return {*op.inputs, *(value for region in op.regions for value in outer_uses(region))}


def cost_of(chain: set[Op]) -> float:
    """Roughly how many vector operations a set of operations takes."""
    return sum(COSTS.get(op.name, 1) * max(value.size for value in op.outputs) for op in chain)


def under(block: Block, chain: set[Op], selects: list[Op], condition: Value) -> Block:
    """The block with the chain in an `if`; inside, every select by the condition is decided."""
    made = {value for op in chain for value in op.outputs}
    taking = [op for op in selects if op.inputs[1] in made]
    results = tuple(Value(op.out.shape, op.out.dtype) for op in taking)
    if_true, if_false = decided(selects, 1), decided(selects, 2)
    then = Block((), tuple(op for op in block.ops if op in chain), tuple(op.inputs[1] for op in taking))
    other = Block((), (), tuple(if_false.get(op.inputs[2], op.inputs[2]) for op in taking))
    inside = renamed_block(then, if_true)
    inside = inside if outer_uses(then).isdisjoint(if_true) else kept_inside(inside)
    branch = Op("if", (condition,), results, {}, (inside, other), then.ops[0].where)
    renamed = {op.out: new for op, new in zip(taking, results, strict=True)}
    gone = {*chain, *taking}
    return in_order(Block(block.inputs, (branch, *(op for op in block.ops if op not in gone)), block.outputs), renamed)


def kept_inside(block: Block) -> Block:
    """The block with every position clamped; range analysis takes out what is not needed in any lane."""
    builder = Builder()
    for op in block.ops:
        builder.where = op.where
        inputs = list(op.inputs)
        if op.name in POSITIONS:
            place, size = POSITIONS[op.name], len(inputs) - 1 if op.name == "pick" else inputs[0].size
            index = inputs[place]
            first, last = (builder.full(index.shape, number, index.dtype) for number in (0, size - 1))
            inputs[place] = builder.elementwise("min", builder.elementwise("max", index, first), last)
        regions = tuple(map(kept_inside, op.regions))
        builder.ops.append(Op(op.name, tuple(inputs), op.outputs, op.attrs, regions, op.where))
    return Block(block.inputs, tuple(builder.ops), block.outputs)


def decided(selects: list[Op], case: int) -> dict[Value, Value]:
    """What each select by one condition is where the condition holds (1) or does not (2)."""
    chosen = {op.out: op.inputs[case] for op in selects}
    for out in chosen:
        while chosen[out] in chosen:
            chosen[out] = chosen[chosen[out]]
    return chosen


def in_order(block: Block, renamed: dict[Value, Value]) -> Block:
    """All operations under their new names, each after what it needs and else as late as it was."""
    ops = [renamed_op(op, renamed) for op in block.ops]
    makers = {value: op for op in ops for value in op.outputs}
    order: list[Op] = []
    done: set[Op] = set()
    begun: set[Op] = set()
    for root in (*ops[1:], ops[0]):
        stack = [root]
        while stack:
            op = stack[-1]
            missing = [makers[v] for v in inputs_of(op) if v in makers and makers[v] not in done]
            if op not in done and missing:
                assert op not in begun, "operations that need each other cannot be put in order"
                begun.add(op)
                stack += sorted(missing, key=lambda maker: -maker.outputs[0].number)
                continue
            stack.pop()
            if op not in done:
                done.add(op)
                order.append(op)
    outputs = tuple(renamed.get(value, value) for value in block.outputs)
    return Block(block.inputs, tuple(order), outputs)
