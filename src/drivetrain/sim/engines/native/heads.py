"""Small products of a layer's units, as C++: the heads of a policy, summed while the layer is written.

Two actions and a value are three sums of a tile, which wait for each other where they are summed by themselves. A unit
that is added to them as soon as it is there needs no memory, and the next columns' product runs meanwhile. A sum stays
in the order of its rows, since a layer's blocks are.
"""

from collections.abc import Callable, Sequence

from drivetrain.sim.engines.native.compilation import num_registers
from drivetrain.sim.engines.native.emitter import Emitter
from drivetrain.sim.engines.native.plan import Plan
from drivetrain.sim.engines.native.position import Index
from drivetrain.sim.engines.native.tile import Tile
from drivetrain.sim.ir.program import Op

MOST_SUMS = {16: 6, 32: 8}
"""By the processor's registers: sums of heads, of all tiles, that stand beside those of a layer."""


class Heads:
    """The products that alone read the units of a layer, and their sums in each tile."""

    def __init__(self, at: Emitter, tiles: Sequence[Tile], products: Sequence[Op]) -> None:
        """Declares the sums."""
        self.at, self.tiles, self.products = at, tiles, products
        self.columns = [(dot, Index(start=k)) for dot in products for k in range(dot.out.size)]
        self.sums = [[at.new("r") for _ in self.columns] for _ in tiles]
        at.line(f"vf {', '.join(f'{total}{{}}' for totals in self.sums for total in totals)};")

    def add(self, place: Index, units: Sequence[tuple[int, str]]) -> None:
        """One unit, of some tiles: (number of the tile, C++ name)."""
        at = self.at
        for k, (dot, column) in enumerate(self.columns):
            with self.tiles[0].chosen(at):
                weight = at.let("float32", at.element(dot.inputs[1], [place, column]))
            for q, unit in units:
                at.line(f"{self.sums[q][k]} = fma_({unit}, {weight}, {self.sums[q][k]});")

    def store(self) -> None:
        """Give each product memory with its sums."""
        for tile, totals in zip(self.tiles, self.sums, strict=True):
            with tile.chosen(self.at):
                for dot in self.products:
                    self.at.names[dot.out] = self.at.buffer(dot.out)
                for total, (dot, column) in zip(totals, self.columns, strict=True):
                    self.at.line(f"{self.at.names[dot.out]}[{column}] = {total};")


def heads_of(plan: Plan, layer: Op, num_tiles: int, is_head: Callable[[Op], bool]) -> list[Op]:
    """The products that alone read what a layer gives, if their sums fit beside its own; else none."""
    users = list(dict.fromkeys(plan.users[layer.out]))
    few = num_tiles * sum(op.out.size for op in users) <= MOST_SUMS[num_registers()]
    is_alone = layer.out not in plan.given and len(layer.out.shape) == 1
    return users if few and is_alone and all(is_head(op) and op.inputs[0] is layer.out for op in users) else []
