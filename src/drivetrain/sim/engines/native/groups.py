"""A kernel that steps several tiles together, so that lanes of all of them share the branch that few take.

In each step some lane of a tile ends its episode, often enough that every third step of a tile computes a start, random
numbers and all, for one lane of eight. In a group of tiles those lanes are brought together first:

each step    every tile      what does not need the branch; lanes that take it are listed
             listed lanes    the branch, for LANES of them at a time
             every tile      what needs the branch; records; the state
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from drivetrain.sim.engines.native.emitter import Emitter
from drivetrain.sim.engines.native.expressions import vector
from drivetrain.sim.engines.native.kernel import TILES, Layout, load_pieces, name_shared, num_parts, store_pieces
from drivetrain.sim.engines.native.plan import Plan
from drivetrain.sim.engines.native.regions import REGIONS, inside
from drivetrain.sim.engines.native.statements import STATEMENTS
from drivetrain.sim.ir.passes.sinking import cost_of, inputs_of
from drivetrain.sim.ir.program import Block, Op, Value, outer_uses

LEAST_COST = 100
"""Vector operations of a branch from which on lanes are brought together for it."""
MOST_TILES = 16
"""Of a group; with 16 lanes are enough that a branch is nearly full, and always taken."""
GROUP_NBYTES = 16384
"""Of a group's arrays, which stay in the nearest cache."""
LANE = {"vf": "float", "vi": "int32_t", "vu": "uint32_t"}
"""What one lane of a vector is."""


@dataclass(frozen=True, kw_only=True)
class Split:
    """A step cut at its costliest branch."""

    branch: Op
    before: Sequence[Op]
    after: Sequence[Op]


def split_of(block: Block) -> Split | None:
    """Where a step is cut; None for one without such a branch, or with arrays in memory."""
    values = [*block.inputs, *(value for op in block.walk() if op.name != "const" for value in op.outputs)]
    branches = [op for op in block.ops if op.name == "if" and not op.regions[1].ops]
    if any(value.shape for value in values) or not branches:
        return None
    branch = max(branches, key=lambda op: cost_of(set(op.regions[0].ops)))
    if cost_of(set(branch.regions[0].ops)) < LEAST_COST:
        return None
    late: set[Value] = set(branch.outputs)
    after: list[Op] = []
    for op in block.ops:
        if not late.isdisjoint(inputs_of(op)):
            after.append(op)
            late.update(op.outputs)
    waiting = {branch, *after}
    before = [op for op in block.ops if op not in waiting]
    return Split(branch=branch, before=before, after=after)


def write_groups(block: Block, layout: Layout, split: Split) -> tuple[str, int]:
    """The source of a kernel without its prelude, and the bytes of memory per environment; see `write_kernel`."""
    writer = Groups(block, layout, split)
    at = writer.at
    with at.braces(TILES[0]):
        name_shared(at, writer.shared, 2 + len(layout.state) + len(layout.actions))
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
    return "\n".join([*at.table_lines, *at.lines]) + "\n", at.scratch_nbytes


class Groups:
    """Writes the parts of such a kernel; knows which values lie in an array of the group, one vector for each tile."""

    def __init__(self, block: Block, layout: Layout, split: Split) -> None:
        """Nothing is written yet."""
        self.at, self.block, self.layout, self.split = Emitter({**STATEMENTS, **REGIONS}), block, layout, split
        num_state = sum(map(num_parts, layout.state))
        last = len(block.inputs) - len(layout.shared)
        self.keys, self.number = block.inputs[:2], block.inputs[2]
        self.state, self.done = block.inputs[3 : 3 + num_state], block.inputs[3 + num_state]
        self.actions, self.shared = block.inputs[4 + num_state : last], block.inputs[last:]
        self.kept = (*self.state, self.done)
        self.first_out = 2 + len(layout.state) + len(layout.actions) + len(layout.shared)
        self.at.plans.append(Plan(block))
        made = {value for op in split.before if op.name != "const" for value in op.outputs}
        uses = outer_uses(split.branch.regions[0]) | set(block.outputs)
        uses |= {value for op in split.after for value in inputs_of(op)}
        crossing = [value for value in (*self.actions, *made) if value in uses]
        self.carried = sorted(crossing, key=lambda value: value.number)
        every = dict.fromkeys((*self.keys, *self.kept, *self.carried, *split.branch.outputs))
        self.arrays = {value: self.at.new("g") for value in every}
        self.in_place(uses)

    def in_place(self, uses: Collection[Value]) -> None:
        """Values that become the next state lie where the state is, if nobody reads that after the branch has begun."""
        taken: set[Value] = set()
        for state, after in zip(self.kept, self.block.outputs, strict=False):
            if (
                after in self.arrays
                and after not in taken
                and state not in uses
                and after not in (*self.keys, *self.kept)
            ):
                self.arrays[after] = self.arrays[state]
                taken.add(after)

    def each_tile(self, row: bool = False) -> list[str]:
        """What opens a loop over the tiles."""
        lines = [
            "const int64_t base = (first + g) * LANES;",
            "const int n = num_envs - base < LANES ? (int)(num_envs - base) : LANES;",
        ]
        return [*lines, "const int64_t row = t * num_envs + base;"] if row else lines

    def open_lines(self, lines: Sequence[str]) -> None:
        """Some lines."""
        for line in lines:
            self.at.line(line)

    def read(self, values: Collection[Value]) -> None:
        """Declare values of this tile that lie in the group's arrays."""
        for value, name in self.arrays.items():
            if value in values:
                self.at.names[value] = self.at.let(value.dtype, f"{name}[g]")

    def write(self, targets: Sequence[Value], values: Sequence[Value]) -> None:
        """Set the group's arrays for this tile, but for what lies there."""
        for target, value in zip(targets, values, strict=True):
            if target is not value and self.arrays.get(value) == self.arrays[target]:
                continue
            self.at.line(f"{self.arrays[target]}[g] = {self.at.scalar(value)};")

    def load(self) -> None:
        """Keys, state and done of every tile."""
        at = self.at
        with at.braces("for (int g = 0; g < num_tiles; ++g)"):
            self.open_lines(self.each_tile())
            for k, value in enumerate(self.keys):
                at.line(f"{self.arrays[value]}[g] = load<vu>((const uint32_t*)p[0] + base * 2 + {k}, 2, n);")
            load_pieces(at, self.layout.state, self.state, 2, "base", "s")
            load_pieces(at, [self.done], [self.done], 1, "base", "d")
            self.write(self.kept, self.kept)

    def step(self) -> None:
        """One step of every tile."""
        at = self.at
        at.names[self.number] = at.let("uint32", "u_(first_step + (uint32_t)t)")
        at.line("int32_t listed[GROUP * LANES + 1];")
        at.line("int num_listed = 0;")
        with at.braces("for (int g = 0; g < num_tiles; ++g)"):
            self.before()
        with at.braces("for (int c = 0; c < num_listed; c += LANES)"):
            self.branch()
        with at.braces("for (int g = 0; g < num_tiles; ++g)"):
            self.after()

    def before(self) -> None:
        """Of one tile: what does not need the branch, and what holds where it is not taken."""
        at, branch = self.at, self.split.branch
        self.open_lines(self.each_tile(row=True))
        self.read((*self.keys, *self.kept))
        load_pieces(at, self.layout.actions, self.actions, 2 + len(self.layout.state), "row", "x")
        for op in self.split.before:
            at.op(op, "")
        self.write(self.carried, self.carried)
        self.write(branch.outputs, branch.regions[1].outputs)
        at.line(f"num_listed = list_lanes(listed, num_listed, g * LANES, {at.scalar(branch.inputs[0])});")

    def branch(self) -> None:
        """Of LANES lanes, wherever they are: what holds where the branch is taken."""
        at, branch = self.at, self.split.branch
        at.line("const int m = num_listed - c < LANES ? num_listed - c : LANES;")
        at.line("const vi places = load<vi>(listed + c, 1, m);")
        outer, uses = dict(at.names), outer_uses(branch.regions[0])
        for value, name in self.arrays.items():
            if value in uses:
                kind = vector(value.dtype)
                at.names[value] = at.let(value.dtype, f"lookup<{kind}>((const {LANE[kind]}*){name}, places)")
        with inside(at, branch.regions[0], ""):
            for target, value in zip(branch.outputs, branch.regions[0].outputs, strict=True):
                at.line(f"spread({self.arrays[target]}, listed + c, m, {at.scalar(value)});")
        at.names = outer

    def after(self) -> None:
        """Of one tile: what needs the branch, records, and the state."""
        at, outputs = self.at, self.block.outputs
        self.open_lines(self.each_tile(row=True))
        self.read({*outputs, *(value for op in self.split.after for value in inputs_of(op))})
        for op in self.split.after:
            at.op(op, "")
        first_record = self.first_out + len(self.layout.state) + 1
        store_pieces(at, self.layout.record, outputs[len(self.kept) :], first_record, "row")
        self.write(self.kept, outputs[: len(self.kept)])

    def store(self) -> None:
        """State and done of every tile."""
        at = self.at
        with at.braces("for (int g = 0; g < num_tiles; ++g)"):
            self.open_lines(self.each_tile())
            self.read(self.kept)
            store_pieces(at, self.layout.state, self.state, self.first_out, "base")
            store_pieces(at, [self.done], [self.done], self.first_out + len(self.layout.state), "base")
