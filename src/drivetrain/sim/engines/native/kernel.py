"""A whole kernel as C++: tiles of environments, K steps each, the state in variables between steps.

Each turn of the loop over tiles steps one, or two that share what both of them read (layers.py). A tile that is left
without a partner is its own: both compute and store the same.

run(first turn, last turn, N, K, step, pointers): keys, done, state, actions, shared -> state, done, records
"""

from collections.abc import Sequence

from drivetrain.sim.engines.native.emitter import Emitter, shared_at
from drivetrain.sim.engines.native.expressions import ELEMENT, vector
from drivetrain.sim.engines.native.heap import Heap
from drivetrain.sim.engines.native.layers import write_together
from drivetrain.sim.engines.native.layout import Layout, parts_of, step_inputs
from drivetrain.sim.engines.native.ordering import early
from drivetrain.sim.engines.native.plan import Plan
from drivetrain.sim.engines.native.position import Index
from drivetrain.sim.engines.native.regions import REGIONS, assign
from drivetrain.sim.engines.native.statements import STATEMENTS
from drivetrain.sim.engines.native.tile import Tile
from drivetrain.sim.engines.native.written import Written
from drivetrain.sim.ir.program import Block, Value

RUN = (
    'extern "C" void drivetrain_run(int64_t begin, int64_t end, int64_t num_envs, int64_t num_steps, '
    "uint32_t first_step, void* const* p)"
)
DENORMALS = "const Denormals as_numbers;"
TILES = (RUN, "for (int64_t tile = begin; tile < end; ++tile)")
"""What opens a kernel over a range of turns, of one tile or several; inside, `p` are its arrays."""


def write_kernel(
    block: Block, layout: Layout, *, num_tiles: int = 1, opening: tuple[str, str] = TILES, tables: str = "static const",
    on_heap: bool = False,
) -> Written:  # fmt: skip
    """A kernel.

    Args:
        block: One step after scalar replacement: two key words, step, state, done, actions, shared -> state,
            done, records.
        layout: Its state, actions and records as whole leaves.
        num_tiles: That a turn steps together: one or two.
        opening: What opens the function, and in it what goes through the turns of this call or thread.
        tables: How a table of constants is declared.
        on_heap: Whether large arrays lie on the heap.
    """
    at = Emitter({**STATEMENTS, **REGIONS}, tables)
    block = early(block) if num_tiles > 1 else block
    at.heap = Heap() if on_heap else None
    with at.braces(opening[0]):
        if opening is TILES:
            at.line(DENORMALS)
        first = len(at.lines)
        with at.braces(opening[1]):
            write_tiles(at, block, layout, num_tiles)
        if at.heap is not None:
            at.lines.insert(first, f"  const Heap heap({at.heap.most});")
            at.scratch_nbytes -= 4 * (at.heap.total - at.heap.most)
    return Written(
        form="tiles" if num_tiles == 1 else "pairs",
        num_tiles=num_tiles,
        scratch_nbytes=at.scratch_nbytes,
        heap_nbytes=4 * at.heap.most if at.heap is not None else 0,
        source=at.text(),
    )


def write_tiles(at: Emitter, block: Block, layout: Layout, num_tiles: int) -> None:
    """K steps of the tiles of the turn `tile`."""
    given = step_inputs(block, layout)
    num_kept = len(given.kept)
    name_shared(at, given.shared, layout.shared_at)
    at.start = len(at.lines)
    at.plans.append(Plan(block))
    at.own_inputs = set(given.state)
    tiles = [Tile(at, q) for q in range(num_tiles)]
    variables: list[list[str]] = []
    for tile in tiles:
        at.line(f"const int64_t {tile.base} = {first_of(tile, num_tiles)};")
        at.line(f"const int {tile.num} = num_envs - {tile.base} < LANES ? (int)(num_envs - {tile.base}) : LANES;")
        with tile.chosen(at):
            for k, value in enumerate(given.keys):
                call = f"load<vu>((const uint32_t*)p[{layout.keys_at}] + {tile.base} * 2 + {k}, 2, {tile.num})"
                at.names[value] = at.let("uint32", call)
            load_pieces(at, layout.state, given.state, layout.state_at, tile.base, "s", tile.num)
            load_pieces(at, [given.done], [given.done], layout.done_at, tile.base, "d", tile.num)
            variables.append([at.names[value] for value in given.kept])
    with at.braces("for (int64_t t = 0; t < num_steps; ++t)"):
        count = at.let("uint32", "u_(first_step + (uint32_t)t)")
        for tile in tiles:
            at.line(f"const int64_t {tile.row} = t * num_envs + {tile.base};")
            with tile.chosen(at):
                at.names[given.number] = count
                load_pieces(at, layout.actions, given.actions, layout.actions_at, tile.row, "x", tile.num)
        write_together(at, block, tiles)
        for tile, names in zip(tiles, variables, strict=True):
            with tile.chosen(at):
                store_pieces(at, layout.record, block.outputs[num_kept:], layout.records_at, tile.row, tile.num)
                assign(at, names, block.outputs[:num_kept])
    for tile in tiles:
        with tile.chosen(at):
            store_pieces(at, layout.state, given.state, layout.state_out_at, tile.base, tile.num)
            store_pieces(at, [given.done], [given.done], layout.done_out_at, tile.base, tile.num)
    at.plans.pop()


def first_of(tile: Tile, num_tiles: int) -> str:
    """The first environment of one of a turn's tiles; of the first tile where there is none."""
    if tile.number == 0:
        return f"tile * {num_tiles} * LANES" if num_tiles > 1 else "tile * LANES"
    mine = f"(tile * {num_tiles} + {tile.number}) * LANES"
    return f"{mine} < num_envs ? {mine} : tile * {num_tiles} * LANES"


def name_shared(at: Emitter, values: Sequence[Value], first: int) -> None:
    """Declare what all environments share: pointers to arrays, and scalars in every lane."""
    for k, value in enumerate(values):
        pointer, of = at.new("w"), ELEMENT[value.dtype]
        at.line(f"const {of}* const __restrict__ {pointer} = (const {of}*)p[{first + k}];")
        if value.shape:
            at.shared[value] = pointer
        else:
            at.names[value] = at.let(value.dtype, shared_at(pointer, value.dtype, "0"))


def load_pieces(
    at: Emitter, leaves: Sequence[Value], values: Sequence[Value], first: int, row: str, prefix: str, num: str = "n"
) -> None:
    """Declare variables and memory for values, and load them from the leaves' memory."""
    for leaf, (whole, parts) in enumerate(parts_of(leaves, values)):
        kind, of = vector(whole.dtype), ELEMENT[whole.dtype]
        source = f"({'const ' + of}*)p[{first + leaf}] + {row} * {whole.size}"
        if len(parts) == 1 and not parts[0].shape:
            call = "load_mask" if whole.dtype == "bool" else f"load<{kind}>"
            at.names[parts[0]] = name = at.new(prefix)
            at.line(f"{kind} {name} = {call}({source}, 1, {num});")
            continue
        if not parts:
            continue
        memory = at.new(prefix)
        if parts[0].shape:
            at.array(kind, memory, whole.size)
        else:
            at.line(f"{kind} {memory}[{whole.size}];")
        call = f"load_masks<{whole.size}>" if whole.dtype == "bool" else f"load_rows<{whole.size}>"
        at.line(f"{call}({source}, {num}, {memory});")
        if parts[0].shape:
            at.scratch_nbytes += whole.size * 4
            at.names[parts[0]] = memory
            at.writable.add(memory)
            continue
        for element, part in enumerate(parts):
            at.names[part] = name = at.new(prefix)
            at.line(f"{kind} {name} = {memory}[{element}];")


def store_pieces(
    at: Emitter, leaves: Sequence[Value], values: Sequence[Value], first: int, row: str, num: str = "n"
) -> None:
    """Store values to the leaves' memory: whole rows at once, so that bytes become words before they are written."""
    for leaf, (whole, parts) in enumerate(parts_of(leaves, values)):
        of = ELEMENT[whole.dtype]
        target = f"({of}*)p[{first + leaf}] + {row} * {whole.size}"
        if len(parts) == 1 and not parts[0].shape:
            call = "store_mask" if whole.dtype == "bool" else f"store<{of}>"
            at.line(f"{call}({target}, 1, {num}, {at.scalar(parts[0])});")
            continue
        if not parts:
            continue
        if not parts[0].shape:
            memory = at.new("o")
            at.line(f"const {vector(whole.dtype)} {memory}[] = {{{', '.join(map(at.scalar, parts))}}};")
            element = f"{memory}[i]"
        else:
            element = at.element(parts[0], Index({"i": 1}))
        bit = " & 1" if whole.dtype == "bool" else ""
        at.line(f"store_rows<{of}, {whole.size}>({target}, {num}, [&](int i) ALWAYS {{ return {element}{bit}; }});")
