"""A vector of each environment times a matrix, as C++: the layers of a policy, whose weights all environments share.

A lane is an environment, so a weight is read once for a tile and goes to all lanes. Sums are in registers, as many as
hide the time that a multiply-add takes; more would not fit beside what they are made of.
"""

from collections.abc import Iterator, Sequence

from drivetrain.sim.engines.native.emitter import Emitter
from drivetrain.sim.engines.native.position import Index
from drivetrain.sim.engines.native.tile import Tile
from drivetrain.sim.ir.program import Op, Value

IN_REGISTERS = 8
"""Elements of one tile's product that are summed at once: two multiply-adds begin per cycle, and each takes four."""

Column = tuple[Value, Index]
"""A matrix, and which of its columns."""


def write_dot(at: Emitter, op: Op, _: str) -> None:
    """Blocks of columns whose sums stay in registers; each weight is read once for a tile of environments."""
    name, (x, y) = at.buffer(op.out), op.inputs
    tile = Tile(at, 0)
    for first, count in blocks(at, op.out.size, IN_REGISTERS):
        places = [first + Index(start=k) for k in range(count)]
        (sums,) = sums_of(at, [tile], x, [(y, place) for place in places])
        for total, place in zip(sums, places, strict=True):
            at.line(f"{name}[{place}] = {total};")
    at.names[op.out] = name


def blocks(at: Emitter, num_columns: int, most: int) -> Iterator[tuple[Index, int]]:
    """For each block of columns next to each other its first one and their number, as even as can be; in loops."""
    num_blocks = -(-num_columns // most)
    small, num_large = divmod(num_columns, max(num_blocks, 1))
    start = 0
    for count, times in ((small + 1, num_large), (small, num_blocks - num_large)):
        if times == 1:
            with at.braces():
                yield Index(start=start), count
        elif times:
            j = at.new("i")
            with at.braces(f"for (int {j} = {start}; {j} < {start + times * count}; {j} += {count})"):
                yield Index({j: 1}), count
        start += times * count


def sums_of(at: Emitter, tiles: Sequence[Tile], x: Value, columns: Sequence[Column]) -> list[list[str]]:
    """Variables with a vector's products with some columns, for each tile; a sum is in the order of the rows.

    Args:
        columns: With several tiles of matrices that all tiles share: what is read of them is read once.
    """
    sums = [[at.new("r") for _ in columns] for _ in tiles]
    at.line(f"vf {', '.join(f'{total}{{}}' for totals in sums for total in totals)};")
    k = at.new("i")
    with at.braces(f"for (int {k} = 0; {k} < {x.size}; ++{k})"):
        rows: list[str] = []
        for tile in tiles:
            with tile.chosen(at):
                rows.append(at.let("float32", at.element(x, [Index({k: 1})])))
        for place, (y, column) in enumerate(columns):
            with tiles[0].chosen(at):
                weight = at.let("float32", at.element(y, [Index({k: 1}), column]))
            for row, totals in zip(rows, sums, strict=True):
                at.line(f"{totals[place]} = fma_({row}, {weight}, {totals[place]});")
    return sums
