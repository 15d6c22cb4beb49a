"""FourRooms with keys: four rooms, a locked door between any two neighbours, and a key in each room.

Source: the rooms are those of Sutton, Precup, Singh 1999 (Between MDPs and semi-MDPs, Artificial Intelligence 112,
section 3); doors and keys are added, after the locked rooms of MiniGrid (Chevalier-Boisvert et al. 2023,
arXiv:2306.13831).
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
from drivetrain.sim.envs.boards import Bits, one, planes
from drivetrain.sim.envs.drawing import BLUE, GOLD, GREEN, INK, RED, Frame, board
from drivetrain.sim.spaces import Box, Discrete

# Walls x, doors D, floor.
PLAN = (
    "xxxxxxxxxxxxx",
    "x.....x.....x",
    "x.....x.....x",
    "x.....D.....x",
    "x.....x.....x",
    "x.....x.....x",
    "xxDxxxx.....x",
    "x.....xxxDxxx",
    "x.....x.....x",
    "x.....x.....x",
    "x.....D.....x",
    "x.....x.....x",
    "xxxxxxxxxxxxx",
)
SIZE = len(PLAN)
WALLS, DOORS = (np.array([[cell == sign for cell in row] for row in PLAN]) for sign in "xD")
ROOMS = np.array([(1, 5, 1, 5), (1, 6, 7, 5), (7, 5, 1, 5), (8, 4, 7, 5)], np.int32)
"""Of each room the first row, the number of rows, the first column, the number of columns."""
NUM_ROOMS = len(ROOMS)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class State:
    """Columns x and rows y from the upper left."""

    y: Any
    x: Any
    goal_y: Any
    goal_x: Any
    doors: Any
    """A board: doors that are locked."""
    keys: Any
    """A board: keys that lie on the floor."""
    num_keys: Any
    """That the agent carries."""
    time: Any


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Params:
    """When an episode is cut off."""

    max_steps: int = 250


class FourRooms:
    """Reward 1 at the goal, which lies in another room and ends the episode.

    Walking over a key takes it; walking into a locked door with a key uses the key up, and the door stays open. Each
    room has a key, so no order of doors leaves the agent stuck before it has seen three rooms.
    """

    name = "FourRooms"
    default_params = Params()
    board = Bits(SIZE, SIZE)

    def reset(self, key: jax.Array, params: Params) -> tuple[jax.Array, State]:
        """Agent and goal anywhere in two different rooms, a key anywhere in each room."""
        key_rooms, key_cells = random.split(key)
        number = random.randint(key_rooms, (), 0, NUM_ROOMS * (NUM_ROOMS - 1))
        room = number % NUM_ROOMS
        goal_room = (room + 1 + number // NUM_ROOMS) % NUM_ROOMS
        rooms = jnp.asarray(ROOMS)[jnp.concatenate([jnp.stack([room, goal_room]), jnp.arange(NUM_ROOMS)])]
        drawn = random.uniform(key_cells, (2 + NUM_ROOMS, 2))
        ys, xs = (
            rooms[:, 2 * k] + jnp.floor(drawn[:, k] * rooms[:, 2 * k + 1].astype(jnp.float32)).astype(jnp.int32)
            for k in range(2)
        )
        keys = self.board.of(np.zeros_like(WALLS))
        for index in range(2, 2 + NUM_ROOMS):
            keys = self.board.put(keys, ys[index], xs[index], True)
        state = State(ys[0], xs[0], ys[1], xs[1], self.board.of(DOORS), keys, jnp.int32(0), jnp.int32(0))
        return self.observe(state), state

    def step(self, key: jax.Array, state: State, action: jax.Array, params: Params) -> Any:
        """One cell on, unless a wall or a locked door without a key is there."""
        y = state.y + jnp.where(action == 0, -1, jnp.where(action == 2, 1, 0))
        x = state.x + jnp.where(action == 1, 1, jnp.where(action == 3, -1, 0))
        locked = self.board.at(state.doors, y, x)
        blocked = self.board.at(self.board.of(WALLS), y, x) | (locked & (state.num_keys == 0))
        doors = self.board.put(state.doors, y, x, locked & blocked)
        y, x = jnp.where(blocked, state.y, y), jnp.where(blocked, state.x, x)
        found = self.board.at(state.keys, y, x)
        after = State(
            y, x, state.goal_y, state.goal_x, doors, self.board.put(state.keys, y, x, False),
            state.num_keys - (locked & ~blocked).astype(jnp.int32) + found.astype(jnp.int32), state.time + 1,
        )  # fmt: skip
        there = (y == state.goal_y) & (x == state.goal_x)
        reward = there.astype(jnp.float32)
        return self.observe(after), after, reward, there, after.time >= params.max_steps, {}

    def observe(self, state: State) -> jax.Array:
        """Agent, goal, walls, locked doors, keys, and the number of keys carried in every cell."""
        cells = self.board.cells
        flags = (
            one(SIZE, SIZE, state.y, state.x),
            one(SIZE, SIZE, state.goal_y, state.goal_x),
            jnp.asarray(WALLS),
            cells(state.doors),
            cells(state.keys),
        )
        return planes(*(layer.astype(jnp.int32) for layer in flags), jnp.full((SIZE, SIZE), state.num_keys))

    def action_space(self, params: Params) -> Discrete:
        """Up, right, down, left."""
        return Discrete(4)

    def observation_space(self, params: Params) -> Box:
        """Planes of 0 and 1, and one of 0 to 4."""
        return Box(0, NUM_ROOMS, (SIZE, SIZE, 6), jnp.uint8)

    def render(self, state: State, params: Params) -> Frame:
        """Walls, locked doors in red, keys in gold, the goal in green, the agent in blue."""
        agent, goal, walls, doors, keys, _ = np.moveaxis(np.asarray(self.observe(state)), -1, 0)
        return board(SIZE, SIZE, [(walls, INK), (doors, RED), (keys, GOLD), (goal, GREEN), (agent, BLUE)])
