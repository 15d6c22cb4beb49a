"""Pong: return the ball past an opponent who sees where it is and does not see where it goes.

Source: the game of Atari (1972) on a board of 12 by 16 cells; as in Bellemare et al. 2013 (arXiv:1207.4708) the reward
is 1 and -1 for points, and the opponent is a simple rule.
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

HEIGHT, WIDTH = 12, 16
LENGTH = 4
"""Of a paddle; the ball leaves its cells at speeds -2, -1, 1, 2 along y, from the top."""
CENTRED = np.arange(HEIGHT) // LENGTH == 1


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class State:
    """Columns x and rows y from the upper left."""

    ball_x: Any
    ball_y: Any
    dx: Any
    """1 towards the agent, -1 towards the opponent."""
    dy: Any
    """Rows per step, -2 to 2."""
    trail_x: Any
    """Where the ball was a step ago, as the next."""
    trail_y: Any
    opponent: Any
    """A board of one row: the rows that the left paddle covers, 12 bits of one word."""
    agent: Any
    """The same of the right paddle."""
    num_lost: Any
    """Points of the opponent, and of the agent."""
    num_won: Any
    time: Any


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Params:
    """Of a match."""

    num_points: int = 5
    """Whoever has so many has won."""
    opponent_speed: float = 0.8
    """Chance per step that the opponent moves towards the ball."""
    max_steps: int = 1000


class Pong:
    """Reward 1 when the opponent misses, -1 when the agent does; ends when either has 5 points.

    Args:
        packed: Keep paddles as bits of a word; else as a Boolean for each row, which is slower.
    """

    name = "Pong"
    default_params = Params()

    def __init__(self, packed: bool = True) -> None:
        """See the class."""
        self.board = boards(1, HEIGHT, packed=packed)

    def reset(self, key: jax.Array, params: Params) -> tuple[jax.Array, State]:
        """Both paddles in the middle, the ball served towards either side."""
        x, y, dx, dy = served(key)
        paddle, zero = self.board.of(CENTRED), jnp.int32(0)
        state = State(x, y, dx, dy, x, y, paddle, paddle, zero, zero, zero)
        return self.observe(state), state

    def step(self, key: jax.Array, state: State, action: jax.Array, params: Params) -> Any:
        """Move the paddles by a row, then the ball; after a point it is served again."""
        key_opponent, key_serve = random.split(key)
        agent = self.moved(state.agent, jnp.where(action == 1, -1, jnp.where(action == 2, 1, 0)))
        wants = jnp.sign(state.ball_y - self.top(state.opponent) - 1)
        moves = random.bernoulli(key_opponent, params.opponent_speed)
        opponent = self.moved(state.opponent, jnp.where(moves, wants, 0))
        y, dy = bounced(state.ball_y + state.dy, state.dy)
        x = state.ball_x + state.dx
        at_agent, at_opponent = x == WIDTH - 1, x == 0
        paddle = jnp.where(at_agent, agent, opponent)
        hit = (at_agent | at_opponent) & self.board.at(paddle, 0, y)
        won, lost = at_opponent & ~hit, at_agent & ~hit
        offset = y - self.top(paddle)
        new = served(key_serve)
        ball = (jnp.where(hit, x - state.dx, x), y, jnp.where(hit, -state.dx, state.dx),
                jnp.where(hit, offset - 2 + (offset >= 2).astype(jnp.int32), dy))  # fmt: skip
        x, y, dx, dy = (jnp.where(won | lost, fresh, old) for fresh, old in zip(new, ball, strict=True))
        after = State(
            x, y, dx, dy, jnp.where(won | lost, x, state.ball_x), jnp.where(won | lost, y, state.ball_y), opponent,
            agent, state.num_lost + lost.astype(jnp.int32), state.num_won + won.astype(jnp.int32), state.time + 1,
        )  # fmt: skip
        over = (after.num_won >= params.num_points) | (after.num_lost >= params.num_points)
        reward = won.astype(jnp.float32) - lost.astype(jnp.float32)
        return self.observe(after), after, reward, over, after.time >= params.max_steps, {}

    def moved(self, paddle: jax.Array, by: Any) -> jax.Array:
        """A paddle after a step of -1, 0 or 1 rows; it stays on the board."""
        stuck = (by < 0) & self.board.at(paddle, 0, 0) | (by > 0) & self.board.at(paddle, 0, HEIGHT - 1)
        return self.board.moved(paddle, jnp.where(stuck, 0, by))

    def top(self, paddle: jax.Array) -> jax.Array:
        """The first row that a paddle covers."""
        return jnp.argmax(self.board.cells(paddle)[0]).astype(jnp.int32)

    def observe(self, state: State) -> jax.Array:
        """Paddles, ball, where it was."""
        rows = self.board.cells(state.opponent)[0], self.board.cells(state.agent)[0]
        between = jnp.zeros((HEIGHT, WIDTH - 2), bool)
        return planes(
            jnp.concatenate([rows[0][:, None], between, rows[1][:, None]], axis=1),
            one(HEIGHT, WIDTH, state.ball_y, state.ball_x),
            one(HEIGHT, WIDTH, state.trail_y, state.trail_x),
        )

    def action_space(self, params: Params) -> Discrete:
        """0 stays, 1 goes up, 2 goes down."""
        return Discrete(3)

    def observation_space(self, params: Params) -> Box:
        """Planes of 0 and 1."""
        return Box(0, 1, (HEIGHT, WIDTH, 3), jnp.uint8)

    def render(self, state: State, params: Params) -> Frame:
        """The opponent in red, the agent in blue, ball and trail."""
        paddles, ball, trail = np.moveaxis(np.asarray(self.observe(state)), -1, 0)
        left = np.arange(WIDTH) == 0
        sides = [(paddles & left, RED), (paddles & ~left, BLUE)]
        return board(HEIGHT, WIDTH, [*sides, (trail, GREY), (ball, GOLD)])


def served(key: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """A ball in the middle at any height, towards either side, a row up or down per step: x, y, dx, dy."""
    number = random.randint(key, (), 0, 4 * HEIGHT)
    dx, dy = 2 * (number % 2) - 1, 2 * (number // 2 % 2) - 1
    return jnp.where(dx > 0, WIDTH // 2, WIDTH // 2 - 1), number // 4, dx, dy


def bounced(y: jax.Array, dy: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A row beyond the upper or lower edge turned back on the board, and its speed."""
    beyond = (y < 0) | (y >= HEIGHT)
    inside = jnp.where(y < 0, -y, jnp.where(y >= HEIGHT, 2 * (HEIGHT - 1) - y, y))
    return inside, jnp.where(beyond, -dy, dy)
