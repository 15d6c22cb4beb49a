"""MountainCarContinuous: the car between two hills, pushed as hard as one likes, at a price.

Source: Moore, Efficient Memory-based Learning for Robot Control, 1990; constants and equations of Gymnasium's
MountainCarContinuous-v0.
"""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from drivetrain.sim.envs.drawing import Frame
from drivetrain.sim.envs.mountain_car import State, at_rest, bounds, observe, picture, pushed
from drivetrain.sim.spaces import Box


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Params:
    """In units of the valley and of steps."""

    min_position: float = -1.2
    max_position: float = 0.6
    max_speed: float = 0.07
    goal_position: float = 0.45
    goal_velocity: float = 0.0
    power: float = 0.0015
    gravity: float = 0.0025
    max_steps: int = 999


class MountainCarContinuous:
    """Reward 100 at the goal, minus a tenth of the square of the action at each step, before it is clipped."""

    name = "MountainCarContinuous-v0"
    default_params = Params()

    def reset(self, key: jax.Array, params: Params) -> tuple[jax.Array, State]:
        """At rest, somewhere from -0.6 to -0.4."""
        state = at_rest(key)
        return observe(state), state

    def step(self, key: jax.Array, state: State, action: jax.Array, params: Params) -> Any:
        """Pushed as hard as the action says, within its bounds."""
        after, terminated, truncated = pushed(state, jnp.clip(action[0], -1.0, 1.0) * params.power, params)
        reward = jnp.where(terminated, 100.0, 0.0) - 0.1 * action[0] ** 2
        return observe(after), after, reward, terminated, truncated, {}

    def action_space(self, params: Params) -> Box:
        """How hard to push, to the right where positive; what lies outside is clipped."""
        return Box(-1.0, 1.0, (1,))

    def observation_space(self, params: Params) -> Box:
        """Both bounded."""
        return bounds(params)

    def render(self, state: State, params: Params) -> Frame:
        """The valley, the car and the flag at the goal."""
        return picture(state, params)
