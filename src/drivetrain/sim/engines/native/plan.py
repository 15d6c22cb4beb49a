"""Which arrays of a block get memory, and which are computed where they are read (elementwise fusion).

An array that one consumer reads, each element once, needs no memory: its elements are computed inside the
consumer's loop. Where a put is the last to read its array, it writes in place. Both ask when an array is
really read, which for one without memory is when its consumer runs.

A large table that is cheap to compute from small arrays, such as whether each of 100 things is where each of 100 others
is, is computed anew by each of its readers (rematerialisation): the operations cost less than its memory.
"""

from collections import defaultdict
from collections.abc import Iterable

from drivetrain.sim.engines.native.memory import Memory
from drivetrain.sim.ir.build import row_major
from drivetrain.sim.ir.ops import COMPARE, ELEMENTWISE
from drivetrain.sim.ir.passes.sinking import inputs_of
from drivetrain.sim.ir.program import Block, Op, Value

READS_EACH_ONCE = (ELEMENTWISE | {"concat", "reduce", "cumulate"}) - {"threefry"}
LEAST_TABLE = 1024
"""Elements of an array that may be computed anew by each reader."""
MOST_AGAIN = 12
"""Operations per element that this may take."""
MOST_BEHIND = 100
"""Operations one behind the other that an element is computed by where it is read: what writes them calls itself."""
CHEAP = {"add", "sub", "mul", "and", "or", "xor", "not", "max", "min", "select", "convert", *COMPARE}


class Plan:
    """Decisions for one block."""

    def __init__(self, block: Block) -> None:
        """Decide for every operation of a block, not for those of its regions."""
        self.memory = Memory()
        self.position = {op: k for k, op in enumerate(block.ops)}
        self.makers = {value: op for op in block.ops for value in op.outputs}
        self.users: dict[Value, list[Op]] = defaultdict(list)
        for op in block.ops:
            for value in inputs_of(op):
                self.users[value].append(op)
        self.end = len(block.ops)
        self.given = set(block.outputs)
        self.virtual: set[Value] = set()
        behind: dict[Value, int] = {}
        for op in block.ops:
            num_behind = 1 + max((behind.get(value, 0) for value in op.inputs), default=0)
            if num_behind <= MOST_BEHIND and self.can_be_virtual(op):
                self.virtual.add(op.out)
                behind[op.out] = num_behind
        self.read_at: dict[Value, int] = {}
        self.find_last_reads()

    def compute_where_read(self, values: Iterable[Value]) -> None:
        """Take these, too, for arrays without memory; whoever writes their only readers computes their elements."""
        self.virtual.update(values)
        self.find_last_reads()

    def find_last_reads(self) -> None:
        """When each value is read for the last time."""
        self.read_at.clear()
        for op in reversed(list(self.position)):
            for value in op.outputs:
                self.read_at[value] = self.last_read(value)

    def can_be_virtual(self, op: Op) -> bool:
        """Whether the elements of an operation's output can be computed where they are read."""
        if len(op.outputs) != 1 or not op.out.shape or op.out in self.given:
            return False
        if any(user.regions for user in self.users[op.out]):
            return False
        if op.name == "view":
            return op.inputs[0] not in self.virtual or dimension_map(op) is not None or self.is_read_flat(op)
        if op.name == "const":
            return True
        if (op.name not in ELEMENTWISE and op.name != "take") or op.name == "threefry":
            return False
        users = self.users[op.out]
        if len(users) != 1 and not (users and self.is_cheap_table(op)):
            return False
        return all(self.reads_in_place(op, user) for user in users)

    def reads_in_place(self, op: Op, user: Op) -> bool:
        """Whether a reader of an operation's output can compute the elements, each once."""
        if user.name == "put":
            return user.inputs[0] is not op.out and list(user.inputs).count(op.out) == 1
        if user.name == "take":
            return user.inputs[0] is not op.out
        if user.name == "view":
            if len(self.users[user.out]) > 1:
                return False  # each reader of the view would compute the elements again
            if is_reshape(user) and op.name != "take" and all(self.is_flat(part, ()) for part in op.inputs):
                return True
            return dimension_map(user) is not None and 0 not in user.attrs["strides"]
        return user.name in READS_EACH_ONCE

    def is_cheap_table(self, op: Op) -> bool:
        """Whether an array is large, made of much smaller ones, and cheap to make again."""
        return op.out.size >= LEAST_TABLE and self.cost_again(op, op.out.size // 8) <= MOST_AGAIN

    def cost_again(self, op: Op, most: int) -> int:
        """Operations behind one element down to what lies in memory; too many if one of that is larger than `most`."""
        if op.name == "const":
            return 0
        total = 0 if op.name == "view" else 1 if op.name in CHEAP else MOST_AGAIN + 1
        for value in op.inputs:
            if value in self.virtual:
                total += self.cost_again(self.makers[value], most)
            elif value.size > most:
                return MOST_AGAIN + 1
        return total

    def last_read(self, value: Value) -> int:
        """The position at which a value is read for the last time."""
        if value in self.given:
            return self.end
        return max((self.reading(user) for user in self.users[value]), default=-1)

    def reading(self, user: Op) -> int:
        """The position at which an operation reads its inputs."""
        is_later = len(user.outputs) == 1 and user.out in self.virtual
        return self.read_at.get(user.out, self.end) if is_later else self.position[user]

    def is_last_read(self, value: Value, op: Op) -> bool:
        """Whether every other reader of a value has read it before an operation runs."""
        if value in self.given:
            return False
        here = self.position[op]
        return all(user is op or self.reading(user) < here for user in self.users[value])

    def is_read_flat(self, view: Op) -> bool:
        """Whether a view is its source in another shape, and the source's elements come from a flat index."""
        return is_reshape(view) and self.is_flat(view.inputs[0], ())

    def is_flat(self, value: Value, has_memory: Iterable[Value]) -> bool:
        """Whether the elements of a value can be computed from a flat index alone (loop collapse)."""
        op = self.makers.get(value)
        if not value.shape or op is None or value not in self.virtual or value in has_memory or op.name == "const":
            return True
        if op.name == "view":
            return not op.inputs[0].shape or set(op.attrs["strides"]) == {0} or self.is_read_flat(op)
        inputs = op.inputs[1:] if op.name == "take" else op.inputs
        return all(self.is_flat(part, has_memory) for part in inputs)


def is_reshape(view: Op) -> bool:
    """Whether a view has the elements of its source in the same order."""
    is_dense = view.attrs["offset"] == 0 and view.attrs["strides"] == row_major(view.out.shape)
    return is_dense and view.out.size == view.inputs[0].size


def dimension_map(view: Op) -> list[tuple[int, int, list[tuple[int, int]]]] | None:
    """A view in terms of dimensions of what it views.

    Returns:
        For each dimension of the source: its size, where the view starts, and (dimension of the view,
        step) for those that run along it. None where a dimension of the view runs along several.
    """
    source, offset, strides = view.inputs[0], view.attrs["offset"], view.attrs["strides"]
    if not source.shape:
        return []
    starts = [(offset // dense) % size for dense, size in zip(row_major(source.shape), source.shape, strict=True)]
    runs: list[list[tuple[int, int]]] = [[] for _ in source.shape]
    for dim, (stride, size) in enumerate(zip(strides, view.out.shape, strict=True)):
        if stride == 0 or size == 1:
            continue
        fitting = [k for k, dense in enumerate(row_major(source.shape)) if stride % dense == 0]
        if not fitting:
            return None
        axis = fitting[0]
        runs[axis].append((dim, stride // row_major(source.shape)[axis]))
    for size, start, run in zip(source.shape, starts, runs, strict=True):
        low = start + sum(min(0, step * (view.out.shape[dim] - 1)) for dim, step in run)
        high = start + sum(max(0, step * (view.out.shape[dim] - 1)) for dim, step in run)
        if low < 0 or high >= size:
            return None
    return list(zip(source.shape, starts, runs, strict=True))
