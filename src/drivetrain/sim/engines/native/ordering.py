"""In which order the scalar operations of a step are written, so that a processor finds work while some wait.

A hash is ninety cycles of operations that wait for each other, a logarithm sixty, and a processor looks ahead by some
two hundred. Written one after the other they take nearly as long as if it did not look ahead at all. So what needs no
layer comes before the layers, and between two operations with arrays or branches scalars of all tiles are written by
turns, a hash in parts: always the one of those whose inputs are there that most of what is left waits for (list
scheduling).
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from drivetrain.sim.engines.native.emitter import Emitter
from drivetrain.sim.engines.native.paying import PER_CYCLE, latency
from drivetrain.sim.engines.native.tile import Tile
from drivetrain.sim.ir.ops import ELEMENTWISE
from drivetrain.sim.ir.passes.sinking import COSTS
from drivetrain.sim.ir.program import Block, Op, Value

PARTS = 5
"""Of a hash, four rounds each."""
MOST_ARRAYS = 1 / 25
"""Of a step's operations. Breakout, with one in twenty, lost 2 to 3%; Acrobot, with one in forty, gained 13%."""
CYCLES_OF_PART, OPS_OF_PART = 18, 15


@dataclass(frozen=True, kw_only=True)
class Piece:
    """What is written at once: an operation of a tile, or a part of one."""

    op: Op
    tile: int
    part: int = 0
    cycles: float
    """From its inputs to its results."""
    cost: float
    """Vector operations."""
    needs: list[int] = field(default_factory=list[int])
    """Pieces, by their numbers, that come before."""


def write_by_turns(at: Emitter, tiles: Sequence[Tile], ops: Sequence[Op]) -> None:
    """Scalar operations of all tiles."""
    begun: dict[tuple[Op, int], str] = {}
    for piece in by_turns(ops, len(tiles)):
        op, place = piece.op, (piece.op, piece.tile)
        with tiles[piece.tile].chosen(at):
            if op.name != "threefry":
                at.op(op, "")
                continue
            if piece.part == 0:
                begun[place] = at.new("h")
                at.line(f"Hashing {begun[place]} = hash_begun({', '.join(map(at.scalar, op.inputs))});")
            at.line(f"hash_on<{piece.part}>({begun[place]});")
            at.names.update(zip(op.outputs, (f"{begun[place]}.x", f"{begun[place]}.y"), strict=True))


def is_scalar(op: Op) -> bool:
    """Whether an operation may be moved: it has no memory, and reads none."""
    return not op.regions and op.name != "const" and not any(value.shape for value in (*op.inputs, *op.outputs))


def early(block: Block) -> Block:
    """A block with scalar operations before the first of the others that they need not wait for; a game's as it is."""
    if not is_mostly_scalar(block):
        return block
    level: dict[Value, int] = {}
    others = [op for op in block.ops if not may_move(op)]
    after: list[list[Op]] = [[] for _ in range(len(others) + 1)]
    number = {op: k for k, op in enumerate(others, 1)}
    for op in block.ops:
        here = number.get(op) or max((level.get(value, 0) for value in op.inputs), default=0)
        level.update(dict.fromkeys(op.outputs, here))
        after[here].append(op)
    for ops in after:  # the operation itself, reads of memory, scalars
        ops.sort(key=lambda op: 0 if op in number else 2 if is_scalar(op) else 1)
    return Block(block.inputs, tuple(op for ops in after for op in ops), block.outputs)


def is_mostly_scalar(block: Block) -> bool:
    """Whether a step hardly has arrays but those of layers: between others, what came early would have to be kept."""
    num_arrays = sum(not (may_move(op) or op.name == "dot" or op.name in ELEMENTWISE) for op in block.ops)
    return num_arrays <= MOST_ARRAYS * len(block.ops)


def may_move(op: Op) -> bool:
    """Whether an operation may come earlier: a scalar of scalars, an element of an array, or a constant."""
    is_read = op.name == "view" and not op.out.shape
    return is_scalar(op) or is_read or op.name == "const"


def by_turns(ops: Sequence[Op], num_tiles: int) -> list[Piece]:
    """Scalar operations of several tiles, in the order in which they are written."""
    pieces = pieces_of(ops, num_tiles)
    users: list[list[int]] = [[] for _ in pieces]
    for k, piece in enumerate(pieces):
        for need in piece.needs:
            users[need].append(k)
    waiting = [0.0] * len(pieces)  # cycles from its inputs until the last that waits for it is there
    for k in reversed(range(len(pieces))):
        waiting[k] = pieces[k].cycles + max((waiting[user] for user in users[k]), default=0.0)
    missing, ready_at = [len(piece.needs) for piece in pieces], [0.0] * len(pieces)
    soon = [(0.0, k) for k, count in enumerate(missing) if count == 0]
    now: list[tuple[float, int]] = []
    order, time = list[Piece](), 0.0
    while soon or now:
        if not now:
            time = max(time, soon[0][0])
        while soon and soon[0][0] <= time:
            _, k = heapq.heappop(soon)
            heapq.heappush(now, (-waiting[k], k))
        _, k = heapq.heappop(now)
        order.append(pieces[k])
        for user in users[k]:
            ready_at[user] = max(ready_at[user], time + pieces[k].cycles)
            missing[user] -= 1
            if missing[user] == 0:
                heapq.heappush(soon, (ready_at[user], user))
        time += pieces[k].cost / PER_CYCLE
    return order


def pieces_of(ops: Sequence[Op], num_tiles: int) -> list[Piece]:
    """All pieces, each after those that it needs."""
    pieces: list[Piece] = []
    made: dict[tuple[Value, int], int] = {}
    for op in ops:
        for tile in range(num_tiles):
            needs = sorted({made[value, tile] for value in op.inputs if (value, tile) in made})
            if op.name == "threefry":
                for part in range(PARTS):
                    cycles, cost = CYCLES_OF_PART, OPS_OF_PART
                    pieces.append(Piece(op=op, tile=tile, part=part, cycles=cycles, cost=cost, needs=needs))
                    needs = [len(pieces) - 1]
            else:
                cycles, cost = latency(op), COSTS.get(op.name, 1)
                pieces.append(Piece(op=op, tile=tile, cycles=cycles, cost=cost, needs=needs))
            made.update(dict.fromkeys(((value, tile) for value in op.outputs), len(pieces) - 1))
    return pieces
