"""A kernel that steps several tiles together, so that lanes of all of them share the branch that few take.

In each step some lane of a tile ends its episode, often enough that every third step of a tile computes a start, random
numbers and all, for one lane of eight. In a group of tiles those lanes are brought together first:

each step    every tile      what does not need the branch; lanes that take it are listed
             listed lanes    the branch, for LANES of them at a time
             every tile      what needs the branch; records; the state

Between these the values of all tiles lie in memory, where the compiler cannot see what only the last step of a call is
needed for; so each part says it (split.py).
"""

from collections.abc import Collection, Iterable, Sequence
from contextlib import contextmanager
from typing import Any

from drivetrain.sim.engines.native.emitter import Emitter
from drivetrain.sim.engines.native.expressions import vector
from drivetrain.sim.engines.native.kernel import DENORMALS, TILES, load_pieces, name_shared, store_pieces
from drivetrain.sim.engines.native.layout import Layout, step_inputs
from drivetrain.sim.engines.native.plan import Plan
from drivetrain.sim.engines.native.regions import REGIONS, inside
from drivetrain.sim.engines.native.split import Split, used_by
from drivetrain.sim.engines.native.statements import STATEMENTS
from drivetrain.sim.engines.native.written import Written
from drivetrain.sim.ir.program import Block, Op, Value

MOST_TILES = 16
"""Of a group; with 16 lanes are enough that a branch is nearly full, and always taken."""
GROUP_NBYTES = 65536
"""Of a group's arrays; beyond the nearest cache they cost less than a branch that is half empty."""
Pair = tuple[Value, Value]
"""Where a value goes, and the value."""
LANE = {"vf": "float", "vi": "int32_t", "vu": "uint32_t"}
"""What one lane of a vector is."""


def write_groups(block: Block, layout: Layout, split: Split) -> Written:
    """A kernel; see `write_kernel`."""
    writer = Groups(block, layout, split)
    at = writer.at
    with at.braces(TILES[0]):
        at.line(DENORMALS)
        name_shared(at, writer.given.shared, layout.shared_at)
        kinds = {name: vector(value.dtype) for value, name in writer.arrays.items()}
        arrays = [f"{kind} {name}[GROUP];" for name, kind in kinds.items()]
        each = f"{len(arrays)} * LANES * 4"
        most = f"{GROUP_NBYTES} / ({each})"
        at.line(f"enum {{ GROUP = {most} < 2 ? 2 : {most} < {MOST_TILES} ? {most} : {MOST_TILES} }};")
        with at.braces("for (int64_t first = begin; first < end; first += GROUP)"):
            at.line("const int num_tiles = end - first < GROUP ? (int)(end - first) : GROUP;")
            for line in arrays:
                at.line(line)
            writer.load()
            with at.braces("for (int64_t t = 0; t < num_steps; ++t)"):
                writer.step()
            writer.store()
    return Written(form="groups", scratch_nbytes=at.scratch_nbytes, source=at.text())


class Groups:
    """Writes the parts of such a kernel; knows which values lie in an array of the group, one vector for each tile."""

    def __init__(self, block: Block, layout: Layout, split: Split) -> None:
        """Nothing is written yet."""
        self.at, self.block, self.layout, self.split = Emitter({**STATEMENTS, **REGIONS}), block, layout, split
        self.given = step_inputs(block, layout)
        self.at.plans.append(Plan(block))
        made = {value for op in split.before.all if op.name != "const" for value in op.outputs}
        uses = used_by([*split.taken.all, *split.after]) | {*split.branch.regions[0].outputs, *block.outputs}
        crossing = [value for value in (*self.given.actions, *made) if value in uses]
        self.carried = sorted(crossing, key=lambda value: value.number)
        every = dict.fromkeys((*self.given.keys, *self.given.kept, *self.carried, *split.branch.outputs))
        self.arrays = {value: self.at.new("g") for value in every}
        self.in_place(uses)

    def in_place(self, uses: Collection[Value]) -> None:
        """Values that become the next state lie where the state is, if nobody reads that after the branch has begun."""
        taken: set[Value] = set()
        for state, after in zip(self.given.kept, self.block.outputs, strict=False):
            if (
                after in self.arrays
                and after not in taken
                and state not in uses
                and after not in (*self.given.keys, *self.given.kept)
            ):
                self.arrays[after] = self.arrays[state]
                taken.add(after)

    @contextmanager
    def each_tile(self, row: bool = False) -> Any:
        """A loop over the tiles, each with its first environment, how many it has, and its row in a record."""
        with self.at.braces("for (int g = 0; g < num_tiles; ++g)"):
            self.at.line("const int64_t base = (first + g) * LANES;")
            self.at.line("const int n = num_envs - base < LANES ? (int)(num_envs - base) : LANES;")
            if row:
                self.at.line("const int64_t row = t * num_envs + base;")
            yield

    def read(self, values: Collection[Value]) -> None:
        """Declare values of this tile that lie in the group's arrays."""
        for value, name in self.arrays.items():
            if value in values:
                self.at.names[value] = self.at.let(value.dtype, f"{name}[g]")

    def look_up(self, values: Collection[Value]) -> None:
        """Declare values of listed lanes that lie in the group's arrays."""
        for value, name in self.arrays.items():
            if value in values:
                kind = vector(value.dtype)
                text = f"lookup<{kind}>((const {LANE[kind]}*){name}, places)"
                self.at.names[value] = self.at.let(value.dtype, text)

    def write(self, pairs: Iterable[Pair]) -> None:
        """Set the group's arrays for this tile."""
        for target, value in pairs:
            self.at.line(f"{self.arrays[target]}[g] = {self.at.scalar(value)};")

    def moving(self, targets: Sequence[Value], values: Sequence[Value]) -> list[Pair]:
        """What is to be set, but for what lies there."""
        pairs = zip(targets, values, strict=True)
        return [(target, value) for target, value in pairs if self.arrays.get(value) != self.arrays[target]]

    def operations(self, ops: Sequence[Op]) -> None:
        """All of them."""
        for op in ops:
            self.at.op(op, "")

    @contextmanager
    def in_last_step(self) -> Any:
        """Lines that the last step of a call runs; nothing is left of the braces where there are none."""
        at = self.at
        names, start = dict(at.names), len(at.lines)
        with at.braces("if (is_last)"):
            yield
        if len(at.lines) == start + 2:
            del at.lines[start:]
        at.names = names

    def load(self) -> None:
        """Keys, state and done of every tile."""
        at = self.at
        with self.each_tile():
            for k, value in enumerate(self.given.keys):
                words = f"(const uint32_t*)p[{self.layout.keys_at}] + base * 2 + {k}"
                at.line(f"{self.arrays[value]}[g] = load<vu>({words}, 2, n);")
            load_pieces(at, self.layout.state, self.given.state, self.layout.state_at, "base", "s")
            load_pieces(at, [self.given.done], [self.given.done], self.layout.done_at, "base", "d")
            self.write((value, value) for value in self.given.kept)

    def step(self) -> None:
        """One step of every tile."""
        at = self.at
        at.names[self.given.number] = at.let("uint32", "u_(first_step + (uint32_t)t)")
        at.line("const bool is_last = t + 1 == num_steps;")
        at.line("int32_t listed[GROUP * LANES + 1];")
        at.line("int num_listed = 0;")
        with self.each_tile(row=True):
            self.before()
        with at.braces("for (int c = 0; c < num_listed; c += LANES)"):
            self.branch()
        with self.each_tile(row=True):
            self.after()

    def before(self) -> None:
        """Of one tile: what does not need the branch, and what holds where it is not taken."""
        at, branch, needed = self.at, self.split.branch, self.split.needed
        self.read((*self.given.keys, *self.given.kept))
        load_pieces(at, self.layout.actions, self.given.actions, self.layout.actions_at, "row", "x")
        pairs = [(value, value) for value in self.carried]
        pairs += self.moving(branch.outputs, branch.regions[1].outputs)
        self.operations(self.split.before.every)
        self.write(pair for pair in pairs if pair[0] in needed)
        with self.in_last_step():
            self.operations(self.split.before.last)
            self.write(pair for pair in pairs if pair[0] not in needed)
        at.line(f"num_listed = list_lanes(listed, num_listed, g * LANES, {at.scalar(branch.inputs[0])});")

    def branch(self) -> None:
        """Of LANES lanes, wherever they are: what holds where the branch is taken."""
        at, needed, taken = self.at, self.split.needed, self.split.taken
        at.line("const int m = num_listed - c < LANES ? num_listed - c : LANES;")
        at.line("const vi places = load<vi>(listed + c, 1, m);")
        pairs = list(zip(self.split.branch.outputs, self.split.branch.regions[0].outputs, strict=True))
        outer = dict(at.names)
        every, last = ([pair for pair in pairs if (pair[0] in needed) == here] for here in (True, False))
        with self.spreading(taken.every, every), self.in_last_step(), self.spreading(taken.last, last):
            pass
        at.names = outer

    @contextmanager
    def spreading(self, ops: Sequence[Op], pairs: Sequence[Pair]) -> Any:
        """Operations on listed lanes and their results, (where, what); then the body of this, which sees the values."""
        at = self.at
        values = tuple(value for _, value in pairs)
        self.look_up(used_by(ops) | set(values))
        with inside(at, Block((), tuple(ops), values), ""):
            for target, value in pairs:
                at.line(f"spread({self.arrays[target]}, listed + c, m, {at.scalar(value)});")
            yield

    def after(self) -> None:
        """Of one tile: what needs the branch, records, and the state."""
        at, outputs, split = self.at, self.block.outputs, self.split
        records, pairs = outputs[len(self.given.kept) :], self.moving(self.given.kept, outputs[: len(self.given.kept)])
        self.read({*used_by(split.after), *outputs})
        self.operations(split.after)
        store_pieces(at, self.layout.record, records, self.layout.records_at, "row")
        self.write(pair for pair in pairs if pair[1] in split.needed)
        with self.in_last_step():
            self.write(pair for pair in pairs if pair[1] not in split.needed)

    def store(self) -> None:
        """State and done of every tile."""
        at = self.at
        with self.each_tile():
            self.read(self.given.kept)
            store_pieces(at, self.layout.state, self.given.state, self.layout.state_out_at, "base")
            store_pieces(at, [self.given.done], [self.given.done], self.layout.done_out_at, "base")
