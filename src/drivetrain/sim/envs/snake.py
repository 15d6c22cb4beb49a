"""Snake: eat, grow, and run neither into the wall nor into yourself.

Source: the game Blockade (Gremlin 1976), with rules as commonly played; the state is of our own. Every cell of the
snake knows in two bits where the next one towards the head is, so a step changes two cells whatever the length.
"""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drivetrain.core.errors import InvalidInput
from drivetrain.sim import random
from drivetrain.sim.envs.boards import boards, one, planes
from drivetrain.sim.envs.drawing import BLUE, GREEN, RED, Frame, board
from drivetrain.sim.spaces import Box, Discrete

LENGTH = 3
"""Of the snake at the start."""
RIGHT = 1


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class State:
    """Columns x and rows y from the upper left; directions 0 up, 1 right, 2 down, 3 left."""

    head_y: Any
    head_x: Any
    tail_y: Any
    tail_x: Any
    food_y: Any
    food_x: Any
    heading: Any
    length: Any
    body: Any
    """A board: where the snake is, head and tail included."""
    low: Any
    """Boards of the lower and the upper bit of each cell's direction towards the head."""
    high: Any
    time: Any


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Params:
    """When an episode is cut off."""

    max_steps: int = 1000


class Snake:
    """Reward 1 for food, -1 for a collision, which ends the episode, as filling the whole board does.

    Args:
        size: Cells along each side, 4 to 16.
        packed: Keep boards as bits of words, in about an eighth of the memory; else as a Boolean for each cell, which
            was faster where it was measured: 1.5 to 1.8 times the steps with 1,024 environments (docs/benchmarks).
    """

    name = "Snake"
    default_params = Params()

    def __init__(self, size: int = 10, packed: bool = True) -> None:
        """See the class."""
        if isinstance(size, bool) or not isinstance(size, Integral) or not 4 <= size <= 16:
            raise InvalidInput(f"size: expected an integer from 4 to 16, got {size!r}")
        self.size = int(size)
        self.board = boards(self.size, self.size, packed=packed)

    def reset(self, key: jax.Array, params: Params) -> tuple[jax.Array, State]:
        """Three cells in the middle, on the way to the right."""
        y = x = self.size // 2
        cells = np.zeros((self.size, self.size), bool)
        cells[y, x - LENGTH + 1 : x + 1] = True
        food_y, food_x = self.free_cell(key, jnp.asarray(cells), jnp.int32(LENGTH))
        middle, tail = jnp.int32(y), jnp.int32(x - LENGTH + 1)
        state = State(
            head_y=middle, head_x=jnp.int32(x), tail_y=middle, tail_x=tail, food_y=food_y, food_x=food_x,
            heading=jnp.int32(RIGHT), length=jnp.int32(LENGTH), body=self.board.of(cells), low=self.board.of(cells),
            high=self.board.of(np.zeros_like(cells)), time=jnp.int32(0),
        )  # fmt: skip
        return self.observe(state), state

    def step(self, key: jax.Array, state: State, action: jax.Array, params: Params) -> Any:
        """One cell ahead; turning back on the spot goes straight on. The tail leaves its cell unless there was food."""
        heading = jnp.where(action == (state.heading + 2) % 4, state.heading, action).astype(jnp.int32)
        low = self.board.put(state.low, state.head_y, state.head_x, heading % 2 == 1)
        high = self.board.put(state.high, state.head_y, state.head_x, heading >= 2)
        y, x = ahead(state.head_y, state.head_x, heading)
        outside = (y < 0) | (y >= self.size) | (x < 0) | (x >= self.size)
        y, x = jnp.clip(y, 0, self.size - 1), jnp.clip(x, 0, self.size - 1)
        ate = (y == state.food_y) & (x == state.food_x) & ~outside
        body = self.board.put(state.body, state.tail_y, state.tail_x, ate)
        tail = state.tail_y, state.tail_x
        towards = self.board.at(low, *tail).astype(jnp.int32) + 2 * self.board.at(high, *tail).astype(jnp.int32)
        next_y, next_x = ahead(state.tail_y, state.tail_x, towards)
        dead = outside | self.board.at(body, y, x)
        body = self.board.put(body, y, x, True)
        length = state.length + ate.astype(jnp.int32)
        full = length == self.size**2
        food_y, food_x = self.free_cell(key, self.board.cells(body), length)
        after = State(
            head_y=y, head_x=x, tail_y=jnp.where(ate, state.tail_y, next_y),
            tail_x=jnp.where(ate, state.tail_x, next_x), food_y=jnp.where(ate, food_y, state.food_y),
            food_x=jnp.where(ate, food_x, state.food_x), heading=heading, length=length, body=body, low=low, high=high,
            time=state.time + 1,
        )  # fmt: skip
        reward = ate.astype(jnp.float32) - dead.astype(jnp.float32)
        return self.observe(after), after, reward, dead | full, after.time >= params.max_steps, {}

    def free_cell(self, key: jax.Array, taken: jax.Array, num_taken: jax.Array) -> tuple[jax.Array, jax.Array]:
        """One of the cells that are not taken, each equally likely; the last cell if there is none."""
        free = ~taken.reshape(-1)
        chosen = random.randint(key, (), 0, jnp.maximum(self.size**2 - num_taken, 1))
        number = jnp.sum(jnp.cumsum(free.astype(jnp.int32)) <= chosen).astype(jnp.int32)
        number = jnp.minimum(number, self.size**2 - 1)
        return number // self.size, number % self.size

    def observe(self, state: State) -> jax.Array:
        """Body, head, tail, food."""
        cell = [(state.head_y, state.head_x), (state.tail_y, state.tail_x), (state.food_y, state.food_x)]
        return planes(self.board.cells(state.body), *(one(self.size, self.size, y, x) for y, x in cell))

    def action_space(self, params: Params) -> Discrete:
        """Up, right, down, left."""
        return Discrete(4)

    def observation_space(self, params: Params) -> Box:
        """Planes of 0 and 1."""
        return Box(0, 1, (self.size, self.size, 4), jnp.uint8)

    def render(self, state: State, params: Params) -> Frame:
        """Body, head and food."""
        body, head, _, food = np.moveaxis(np.asarray(self.observe(state)), -1, 0)
        return board(self.size, self.size, [(food, RED), (body, GREEN), (head, BLUE)])


def ahead(y: jax.Array, x: jax.Array, direction: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The next cell in a direction."""
    dy = jnp.where(direction == 0, -1, jnp.where(direction == 2, 1, 0))
    dx = jnp.where(direction == 1, 1, jnp.where(direction == 3, -1, 0))
    return y + dy, x + dx
