"""Breakout: keep the ball in play with the paddle, and break the wall brick by brick.

Source: MinAtar (Young and Tian 2019, arXiv:1903.03176), whose rules these are, without its sticky actions.
"""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drivetrain.sim import random
from drivetrain.sim.envs.boards import boards, one, planes
from drivetrain.sim.envs.drawing import BLUE, GOLD, GREY, RED, Frame, board
from drivetrain.sim.spaces import Box, Discrete

SIZE = 10
TOP, NUM_ROWS = 1, 3
"""The wall's first row, and how many it has."""
FULL = np.ones((NUM_ROWS, SIZE), bool)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class State:
    """Columns x and rows y from the upper left; the ball's velocity is 1 or -1 along each."""

    ball_x: Any
    ball_y: Any
    dx: Any
    dy: Any
    trail_x: Any
    """Where the ball was a step ago, as the next."""
    trail_y: Any
    paddle: Any
    wall: Any
    """A board of the wall's rows: 30 bits in one word."""
    in_wall: Any
    """bool: the ball has just met a brick, so that it passes one which it meets next, and leaves it."""
    time: Any


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Params:
    """When an episode is cut off."""

    max_steps: int = 1000


class Breakout:
    """Reward 1 per brick; ends when the ball is missed. A broken wall is built anew when the ball comes down.

    Args:
        packed: Keep the wall as bits of a word; else as a Boolean for each brick, which is slower.
    """

    name = "Breakout"
    default_params = Params()

    def __init__(self, packed: bool = True) -> None:
        """See the class."""
        self.board = boards(NUM_ROWS, SIZE, packed=packed)

    def reset(self, key: jax.Array, params: Params) -> tuple[jax.Array, State]:
        """The ball comes down from the left or from the right."""
        right = random.bernoulli(key)
        x, y = jnp.where(right, SIZE - 1, 0), jnp.int32(3)
        dx = jnp.where(right, -1, 1)
        state = State(x, y, dx, jnp.int32(1), x, y, jnp.int32(4), self.board.of(FULL), jnp.bool_(False), jnp.int32(0))
        return self.observe(state), state

    def step(self, key: jax.Array, state: State, action: jax.Array, params: Params) -> Any:
        """Move the paddle, then the ball, which turns at walls, bricks and the paddle."""
        paddle = jnp.clip(state.paddle + jnp.where(action == 1, -1, jnp.where(action == 2, 1, 0)), 0, SIZE - 1)
        x, y = state.ball_x + state.dx, state.ball_y + state.dy
        aside = (x < 0) | (x >= SIZE)
        x, dx = jnp.clip(x, 0, SIZE - 1), jnp.where(aside, -state.dx, state.dx)
        above = y < 0
        row = jnp.clip(y - TOP, 0, NUM_ROWS - 1)
        brick = self.board.at(state.wall, row, x)
        hit = brick & (y >= TOP) & (y < TOP + NUM_ROWS)
        struck = hit & ~state.in_wall  # within the wall it passes what it meets
        low = ~hit & (y == SIZE - 1)
        wall = self.board.put(state.wall, row, x, brick & ~struck)
        wall = jnp.where(low & ~self.board.any(wall), self.board.of(FULL), wall)
        met = low & (state.ball_x == paddle)
        caught = low & ~met & (x == paddle)
        after = State(
            ball_x=x,
            ball_y=jnp.where(above, 0, jnp.where(struck | met | caught, state.ball_y, y)),
            dx=jnp.where(caught, -dx, dx),
            dy=jnp.where(above | struck | met | caught, -state.dy, state.dy),
            trail_x=state.ball_x,
            trail_y=state.ball_y,
            paddle=paddle,
            wall=wall,
            in_wall=hit,
            time=state.time + 1,
        )
        reward = jnp.where(struck, 1.0, 0.0)
        return self.observe(after), after, reward, low & ~met & ~caught, after.time >= params.max_steps, {}

    def observe(self, state: State) -> jax.Array:
        """Paddle, ball, where it was, wall."""
        above, below = jnp.zeros((TOP, SIZE), bool), jnp.zeros((SIZE - TOP - NUM_ROWS, SIZE), bool)
        return planes(
            one(SIZE, SIZE, SIZE - 1, state.paddle),
            one(SIZE, SIZE, state.ball_y, state.ball_x),
            one(SIZE, SIZE, state.trail_y, state.trail_x),
            jnp.concatenate([above, self.board.cells(state.wall), below]),
        )

    def action_space(self, params: Params) -> Discrete:
        """0 stays, 1 goes left, 2 goes right."""
        return Discrete(3)

    def observation_space(self, params: Params) -> Box:
        """Planes of 0 and 1."""
        return Box(0, 1, (SIZE, SIZE, 4), jnp.uint8)

    def render(self, state: State, params: Params) -> Frame:
        """Wall, trail, ball and paddle."""
        paddle, ball, trail, wall = np.moveaxis(np.asarray(self.observe(state)), -1, 0)
        return board(SIZE, SIZE, [(wall, RED), (trail, GREY), (ball, GOLD), (paddle, BLUE)])
