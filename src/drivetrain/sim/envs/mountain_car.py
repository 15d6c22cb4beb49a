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

from drivetrain.sim import random
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
        state = State(random.uniform(key, minval=-0.6, maxval=-0.4), jnp.float32(0), jnp.int32(0))
        return observe(state), state

    def step(self, key: jax.Array, state: State, action: jax.Array, params: Params) -> Any:
        """The new velocity moves the car; the wall on the left stops it."""
        slope = params.gravity * jnp.cos(3 * state.position)
        velocity = state.velocity + (action - 1) * params.force - slope
        velocity = jnp.clip(velocity, -params.max_speed, params.max_speed)
        position = jnp.clip(state.position + velocity, params.min_position, params.max_position)
        velocity = jnp.where((position <= params.min_position) & (velocity < 0), 0.0, velocity)
        after = State(position, velocity, state.time + 1)
        terminated = (position >= params.goal_position) & (velocity >= params.goal_velocity)
        return observe(after), after, jnp.float32(-1.0), terminated, after.time >= params.max_steps, {}

    def action_space(self, params: Params) -> Discrete:
        """0 pushes left, 1 not at all, 2 right."""
        return Discrete(3)

    def observation_space(self, params: Params) -> Box:
        """Both bounded."""
        low = jnp.array([params.min_position, -params.max_speed])
        return Box(low, jnp.array([params.max_position, params.max_speed]), (2,))


def observe(state: State) -> jax.Array:
    """Position and velocity."""
    return jnp.stack([state.position, state.velocity])
