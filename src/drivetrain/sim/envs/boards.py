"""Boards of small games, as bits or as cells: which of height * width cells are set.

    cell (y, x)  ─▶  bit number y * width + x  ─▶  bit (number % 32) of uint32 word (number // 32)

Both kinds have the same methods and never change a board in place. `Bits` is what the games use. `Cells`, a Boolean for
each cell, is what it is held against: the same game of `packed=False` has to be the same game.
"""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from drivetrain.core.errors import InvalidInput

WORD = 32
Board = jax.Array


class Boards(Protocol):
    """Makes boards of one size, reads and changes them; y and x may be traced, and lie on the board."""

    def of(self, cells: Any) -> Board:
        """The board of constant Booleans [height, width]."""
        ...

    def at(self, board: Board, y: Any, x: Any) -> jax.Array:
        """bool[]: whether a cell is set."""
        ...

    def put(self, board: Board, y: Any, x: Any, value: Any) -> Board:
        """The board with one cell set, or cleared, as the Boolean `value` says."""
        ...

    def moved(self, board: Board, by: Any) -> Board:
        """Of a board of one row: all cells one to the right (1), to the left (-1) or none (0); none may fall off."""
        ...

    def any(self, board: Board) -> jax.Array:
        """bool[]: whether a cell is set."""
        ...

    def cells(self, board: Board) -> jax.Array:
        """bool[height, width]."""
        ...


@dataclass(frozen=True)
class Bits:
    """A bit for each cell: uint32[ceil(height * width / 32)]."""

    height: int
    width: int

    @property
    def num_words(self) -> int:
        """Of a board."""
        return -(-self.height * self.width // WORD)

    def of(self, cells: Any) -> Board:
        """See `Boards`."""
        flags = np.zeros(self.num_words * WORD, np.uint64)
        flags[: self.height * self.width] = np.asarray(cells, bool).reshape(-1)
        words = (flags.reshape(-1, WORD) << np.arange(WORD, dtype=np.uint64)).sum(axis=1)
        return jnp.asarray(words.astype(np.uint32))

    def place(self, y: Any, x: Any) -> tuple[jax.Array, jax.Array]:
        """bool[num_words], which word a cell is in, and its bit as a word."""
        number = jnp.asarray(y * self.width + x, jnp.int32)
        here = jnp.arange(self.num_words, dtype=jnp.int32) == number // WORD
        return here, jnp.uint32(1) << (number % WORD).astype(jnp.uint32)

    def at(self, board: Board, y: Any, x: Any) -> jax.Array:
        """See `Boards`."""
        here, bit = self.place(y, x)
        return jnp.any(here & ((board & bit) != 0))

    def put(self, board: Board, y: Any, x: Any, value: Any) -> Board:
        """See `Boards`."""
        here, bit = self.place(y, x)
        return jnp.where(here, jnp.where(value, board | bit, board & ~bit), board)

    def moved(self, board: Board, by: Any) -> Board:
        """See `Boards`."""
        assert self.height == 1, "a board of one row"
        assert self.width <= WORD, "which fits a word"
        return jnp.where(by > 0, board << 1, jnp.where(by < 0, board >> 1, board))

    def any(self, board: Board) -> jax.Array:
        """See `Boards`."""
        return jnp.any(board != 0)

    def cells(self, board: Board) -> jax.Array:
        """See `Boards`."""
        bits = (board[:, None] >> jnp.arange(WORD, dtype=jnp.uint32)[None, :]) & 1
        return (bits.reshape(-1)[: self.height * self.width] != 0).reshape(self.height, self.width)


@dataclass(frozen=True)
class Cells:
    """A Boolean for each cell: bool[height, width]."""

    height: int
    width: int

    def of(self, cells: Any) -> Board:
        """See `Boards`."""
        return jnp.asarray(np.asarray(cells, bool).reshape(self.height, self.width))

    def at(self, board: Board, y: Any, x: Any) -> jax.Array:
        """See `Boards`."""
        return board[y, x]

    def put(self, board: Board, y: Any, x: Any, value: Any) -> Board:
        """See `Boards`."""
        return board.at[y, x].set(value)

    def moved(self, board: Board, by: Any) -> Board:
        """See `Boards`."""
        right, left = jnp.roll(board, 1, axis=1), jnp.roll(board, -1, axis=1)
        return jnp.where(by > 0, right, jnp.where(by < 0, left, board))

    def any(self, board: Board) -> jax.Array:
        """See `Boards`."""
        return jnp.any(board)

    def cells(self, board: Board) -> jax.Array:
        """See `Boards`."""
        return board


def boards(height: int, width: int, *, packed: object) -> Boards:
    """Bits, or Cells to compare with.

    Raises:
        InvalidInput: `packed`, which games hand on from their callers, is neither True nor False.
    """
    if not isinstance(packed, bool | np.bool_):
        raise InvalidInput(f"packed: expected True or False, got {packed!r}")
    return Bits(height, width) if packed else Cells(height, width)


def one(height: int, width: int, y: Any, x: Any) -> jax.Array:
    """bool[height, width]: one cell."""
    return (jnp.arange(height)[:, None] == y) & (jnp.arange(width)[None, :] == x)


def planes(*layers: jax.Array) -> jax.Array:
    """Booleans [height, width], one after the other, as an observation uint8[height, width, num_layers]."""
    return jnp.stack(layers, axis=-1).astype(jnp.uint8)
