"""MountainCar: rock a car between two hills, because its engine is too weak for the one with the goal.

Source: Moore, Efficient Memory-based Learning for Robot Control, 1990; constants and equations of Gymnasium's
MountainCar-v0.
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
from drivetrain.sim.envs.drawing import GREEN, GREY, INK, RED, Canvas, Frame
from drivetrain.sim.spaces import Box, Discrete


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class State:
    """Position, and what it changes by in a step."""

    position: Any
    velocity: Any
    time: Any


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Params:
    """In units of the valley and of steps."""

    min_position: float = -1.2
    max_position: float = 0.6
    max_speed: float = 0.07
    goal_position: float = 0.5
    goal_velocity: float = 0.0
    force: float = 0.001
    gravity: float = 0.0025
    max_steps: int = 200


class MountainCar:
    """Reward -1 per step until the car is at the goal."""

    name = "MountainCar-v0"
    default_params = Params()

    def reset(self, key: jax.Array, params: Params) -> tuple[jax.Array, State]:
        """At rest, somewhere from -0.6 to -0.4."""
        state = at_rest(key)
        return observe(state), state

    def step(self, key: jax.Array, state: State, action: jax.Array, params: Params) -> Any:
        """Pushed left, not at all, or right."""
        after, terminated, truncated = pushed(state, (action - 1).astype(jnp.float32) * params.force, params)
        return observe(after), after, jnp.float32(-1.0), terminated, truncated, {}

    def action_space(self, params: Params) -> Discrete:
        """0 pushes left, 1 not at all, 2 right."""
        return Discrete(3)

    def observation_space(self, params: Params) -> Box:
        """Both bounded."""
        return bounds(params)

    def render(self, state: State, params: Params) -> Frame:
        """See `picture`."""
        return picture(state, params)


def at_rest(key: jax.Array) -> State:
    """Somewhere from -0.6 to -0.4."""
    return State(random.uniform(key, minval=-0.6, maxval=-0.4), jnp.float32(0), jnp.int32(0))


def pushed(state: State, push: Any, valley: Any) -> tuple[State, jax.Array, jax.Array]:
    """The state after a push, and whether the episode is terminated, or truncated.

    The new velocity moves the car; the wall on the left stops it. `valley` is the parameters of either car.
    """
    velocity = state.velocity + push - valley.gravity * jnp.cos(3 * state.position)
    velocity = jnp.clip(velocity, -valley.max_speed, valley.max_speed)
    position = jnp.clip(state.position + velocity, valley.min_position, valley.max_position)
    velocity = jnp.where((position <= valley.min_position) & (velocity < 0), 0.0, velocity)
    after = State(position, velocity, state.time + 1)
    terminated = (position >= valley.goal_position) & (velocity >= valley.goal_velocity)
    return after, terminated, after.time >= valley.max_steps


def bounds(valley: Any) -> Box:
    """Of position and velocity."""
    low = jnp.array([valley.min_position, -valley.max_speed])
    return Box(low, jnp.array([valley.max_position, valley.max_speed]), (2,))


def picture(state: State, valley: Any) -> Frame:
    """The valley of either car, the car and the flag at the goal."""
    canvas = Canvas((-0.3, 0.65), 1.3)
    canvas.below(height(canvas.x[0]), GREY)
    goal, x = float(valley.goal_position), float(state.position)
    canvas.line((goal, float(height(goal))), (goal, float(height(goal)) + 0.2), 0.012, INK)
    canvas.box((goal + 0.05, float(height(goal)) + 0.17), (0.1, 0.06), GREEN)
    slope = float(np.arctan(3 * 0.45 * np.cos(3 * x)))
    canvas.box((x - 0.05 * np.sin(slope), float(height(x)) + 0.05 * np.cos(slope)), (0.16, 0.06), RED, slope)
    for aside in (-0.05, 0.05):
        canvas.disc((x + aside * np.cos(slope), float(height(x)) + aside * np.sin(slope) + 0.02), 0.025, INK)
    return canvas.frame()


def height(position: Any) -> Any:
    """Of the ground, as Gymnasium draws it."""
    return 0.45 * np.sin(3 * position) + 0.55


def observe(state: State) -> jax.Array:
    """Position and velocity."""
    return jnp.stack([state.position, state.velocity])
