"""Steps of several tiles at once, as C++: each weight of a layer that is read serves all of them.

A product of one tile reads a weight for every multiply-add, and waits for that. In a block of tiles by columns

    for each row k     read the row's element of every tile, and the weight of every column
                       tiles x columns sums += element * weight

there are fewer reads than multiply-adds, and all sums are in registers. What follows element by element, a bias and an
activation, is computed there, too: a layer's sums never lie in memory. Small products of the same vector, as the heads
of a policy, share the reading of it.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence

from drivetrain.sim.engines.native.compilation import num_registers
from drivetrain.sim.engines.native.dot import IN_REGISTERS, blocks, sums_of
from drivetrain.sim.engines.native.emitter import Emitter
from drivetrain.sim.engines.native.heads import Heads, heads_of
from drivetrain.sim.engines.native.ordering import is_scalar, write_by_turns
from drivetrain.sim.engines.native.plan import Plan
from drivetrain.sim.engines.native.position import Index
from drivetrain.sim.engines.native.rectified import rectified, write_kept
from drivetrain.sim.engines.native.tile import Tile
from drivetrain.sim.ir.ops import ELEMENTWISE
from drivetrain.sim.ir.program import Block, Op, Value

OF_SEVERAL_TILES = {16: 12, 32: 16}
"""By the processor's registers: sums in them where tiles share weights; others hold what the sums are made of."""
Sums = Mapping[int, Sequence[Sequence[str]]]
"""Of a tile, by its number: for each product the names of its sums."""
IN_TURN = 4
"""Units whose activation is computed step by step in turn (layers.hpp)."""


def write_together(at: Emitter, block: Block, tiles: Sequence[Tile]) -> None:
    """All operations of a block for each tile, under the block's plan, which is the emitter's innermost."""
    writer, position = Together(at, block, tiles), 0
    for are_scalar, group in itertools.groupby(block.ops, key=lambda op: len(tiles) > 1 and is_scalar(op)):
        ops = list(group)
        if are_scalar:
            writer.now(position)
            write_by_turns(at, tiles, ops)
        else:
            for k, op in enumerate(ops, position):
                writer.now(k)
                writer.op(op)
        position += len(ops)
    writer.now(at.plan.end)
    for tile in tiles:
        with tile.chosen(at):
            for value in block.outputs:
                if not at.is_table(value):
                    at.give_memory(value)


class Together:
    """Writes operations for several tiles in turn, and layers for all of them at once."""

    def __init__(self, at: Emitter, block: Block, tiles: Sequence[Tile]) -> None:
        """Nothing is written yet."""
        self.at, self.block, self.tiles = at, block, tiles
        self.num_columns = IN_REGISTERS if len(tiles) == 1 else OF_SEVERAL_TILES[num_registers()] // len(tiles)
        self.products: dict[Op, list[Op]] = {}
        """By the operation whose result lies in memory: the products whose sums end there."""
        self.written: set[Op] = set()
        for op in block.ops:
            end = end_of(at.plan, op) if self.is_layer(op) else None
            if end is not None:
                self.products.setdefault(end, []).append(op)
        at.plan.compute_where_read(op.out for ops in self.products.values() for op in ops)

    def is_layer(self, op: Op) -> bool:
        """Whether an operation is a product whose matrix all tiles share."""
        return op.name == "dot" and is_shared(self.at, op.inputs[1])

    def is_head(self, op: Op) -> bool:
        """Whether an operation is such a product whose sums lie in memory as they are."""
        return self.is_layer(op) and op.out not in self.at.plan.virtual

    def now(self, position: int) -> None:
        """Which operation is being written."""
        for tile in self.tiles:
            tile.memory.now = position

    def op(self, op: Op) -> None:
        """One operation of every tile."""
        at = self.at
        if op in self.products:
            self.layer(op)
        elif self.is_head(op):
            if op not in self.written:
                self.each(at.memory_for_inputs, op)
                self.heads(op)
        else:
            self.each(lambda op: at.op(op, ""), op)

    def each(self, write: Callable[[Op], None], op: Op) -> None:
        """The same of every tile in turn."""
        for tile in self.tiles:
            with tile.chosen(self.at):
                write(op)

    def buffers(self, value: Value) -> list[str]:
        """Memory of every tile for an array."""
        names: list[str] = []
        for tile in self.tiles:
            with tile.chosen(self.at):
                names.append(self.at.buffer(value))
        return names

    def layer(self, op: Op) -> None:
        """Products, and what is made of their sums."""
        self.each(self.at.memory_for_inputs, op)
        products, read_by = self.products[op], heads_of(self.at.plan, op, len(self.tiles), self.is_head)
        names = Heads(self.at, self.tiles, read_by) if read_by else self.buffers(op.out)
        found = rectified(self.at, products[0]) if len(products) == 1 and self.at.start else None
        if found is None:
            self.whole(op, names)
        else:
            kept = write_kept(self.at, found, [tile.names[found.vector] for tile in self.tiles])
            with self.at.braces(f"if ({kept.are_few})"):
                for q in range(len(self.tiles)):
                    for places, sums in kept.sums(self.at, q):
                        self.end(op, names, places, {q: [sums]})
            self.at.line("else")
            self.at.line("#endif")
            with self.at.braces():
                self.whole(op, names)
        if isinstance(names, Heads):
            names.store()
            self.written.update(read_by)
        else:
            self.named(op.out, names)

    def whole(self, op: Op, names: Sequence[str] | Heads) -> None:
        """A layer by whole products, of all tiles at once."""
        at, products = self.at, self.products[op]
        for first, count in blocks(at, op.out.size, self.num_columns):
            places = [first + Index(start=k) for k in range(count)]
            operands = [(dot.inputs[0], [(dot.inputs[1], place) for place in places]) for dot in products]
            sums = [sums_of(at, self.tiles, x, columns) for x, columns in operands]
            self.end(op, names, places, {q: [each[q] for each in sums] for q in range(len(self.tiles))})

    def end(
        self, op: Op, to: Sequence[str] | Heads, places: Sequence[Index], sums: Mapping[int, Sequence[Sequence[str]]]
    ) -> None:
        """What is made of the sums at some places of some tiles, to memory or to heads."""
        at, units = self.at, list[tuple[int, Index, str]]()
        is_tanh = op.name == "tanh" and len(self.tiles) > 1
        for k, place in enumerate(places):
            for q, of_products in sums.items():
                with self.tiles[q].chosen(at):
                    at.in_registers = {
                        dot.out: each[k] for dot, each in zip(self.products[op], of_products, strict=True)
                    }
                    units.append((q, place, at.element(op.inputs[0], [place]) if is_tanh else at.computed(op, [place])))
            at.in_registers = {}
            if len(units) >= IN_TURN or not is_tanh or place is places[-1]:
                self.give(to, self.in_turn(units) if is_tanh else units)
                units.clear()

    def in_turn(self, units: Sequence[tuple[int, Index, str]]) -> list[tuple[int, Index, str]]:
        """The hyperbolic tangent of several units at once."""
        group = self.at.new("u")
        self.at.line(f"vf {group}[] = {{{', '.join(text for _, _, text in units)}}};")
        self.at.line(f"tanh_each<{len(units)}>({group});")
        return [(q, place, f"{group}[{k}]") for k, (q, place, _) in enumerate(units)]

    def give(self, to: Sequence[str] | Heads, units: Sequence[tuple[int, Index, str]]) -> None:
        """Units, (tile, place, text), to the memory of their tile or to heads; those of a place side by side."""
        if not isinstance(to, Heads):
            for q, place, text in units:
                self.at.line(f"{to[q]}[{place}] = {text};")
            return
        for place, of_place in itertools.groupby(units, key=lambda unit: unit[1]):
            to.add(place, [(q, self.at.let("float32", text)) for q, _, text in of_place])

    def heads(self, op: Op) -> None:
        """A product whose sums lie in memory, with those of the same vector if they fit beside it."""
        at, (x, _) = self.at, op.inputs
        together, left = [op], self.num_columns - op.out.size
        for other in self.block.ops:
            is_like = self.is_layer(other) and other.inputs[0] is x and other.out not in at.plan.virtual
            if is_like and other is not op and other not in self.written and other.out.size <= left:
                together.append(other)
                left -= other.out.size
        names = {dot: self.buffers(dot.out) for dot in together}
        if len(together) > 1:
            with at.braces():
                self.sums(x, [(dot, Index(start=k)) for dot in together for k in range(dot.out.size)], names)
        else:
            for first, count in blocks(at, op.out.size, self.num_columns):
                self.sums(x, [(op, first + Index(start=k)) for k in range(count)], names)
        for dot in together:
            self.written.add(dot)
            self.named(dot.out, names[dot])

    def sums(self, x: Value, columns: Sequence[tuple[Op, Index]], names: Mapping[Op, Sequence[str]]) -> None:
        """Some columns of products of the same vector, in memory."""
        sums = sums_of(self.at, self.tiles, x, [(dot.inputs[1], place) for dot, place in columns])
        for q, totals in enumerate(sums):
            for total, (dot, place) in zip(totals, columns, strict=True):
                self.at.line(f"{names[dot][q]}[{place}] = {total};")

    def named(self, value: Value, names: Sequence[str]) -> None:
        """Where an array lies in each tile."""
        for tile, name in zip(self.tiles, names, strict=True):
            tile.names[value] = name


def end_of(plan: Plan, product: Op) -> Op | None:
    """The elementwise operation with memory that a product's sums end in, if nothing else reads them."""
    value = product.out
    while value not in plan.given and len(plan.users[value]) == 1:
        (user,) = plan.users[value]
        if user.name not in ELEMENTWISE or user.name == "threefry":
            return None
        if user.out not in plan.virtual:
            return user
        value = user.out
    return None


def is_shared(at: Emitter, value: Value) -> bool:
    """Whether all tiles read an array from the same place."""
    op = at.maker(value)
    return at.is_table(value) or (op is not None and op.name == "view" and is_shared(at, op.inputs[0]))
