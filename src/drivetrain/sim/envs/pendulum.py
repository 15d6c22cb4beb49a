"""Pendulum: swing it up by a motor at the pivot, and hold it there.

Source: constants and equations of Gymnasium's Pendulum-v1.
"""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from dataclasses import dataclass
from math import cos, pi, sin
from typing import Any

import jax
import jax.numpy as jnp

from drivetrain.sim import random
from drivetrain.sim.envs.drawing import GREY, INK, RED, Canvas, Frame
from drivetrain.sim.spaces import Box


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class State:
    """Radians from upright, radians per second."""

    theta: Any
    theta_dot: Any
    time: Any


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Params:
    """In SI units."""

    gravity: float = 10.0
    mass: float = 1.0
    length: float = 1.0
    max_torque: float = 2.0
    max_speed: float = 8.0
    dt: float = 0.05
    max_steps: int = 200


class Pendulum:
    """Reward is minus the squares of angle, speed and torque, weighed; episodes only end by time.

    Gymnasium lets the angle grow; here it is kept near ±pi, where 32-bit floats are exact enough.
    """

    name = "Pendulum-v1"
    default_params = Params()

    def reset(self, key: jax.Array, params: Params) -> tuple[jax.Array, State]:
        """Any angle, and a speed uniform in ±1."""
        high = jnp.array([pi, 1.0])
        theta, theta_dot = random.uniform(key, (2,), minval=-high, maxval=high)
        state = State(theta, theta_dot, jnp.int32(0))
        return observe(state), state

    def step(self, key: jax.Array, state: State, action: jax.Array, params: Params) -> Any:
        """Semi-implicit Euler: the angle moves by the new speed."""
        torque = jnp.clip(action[0], -params.max_torque, params.max_torque)
        theta = state.theta - 2 * pi * jnp.floor((state.theta + pi) / (2 * pi))
        cost = theta**2 + 0.1 * state.theta_dot**2 + 0.001 * torque**2
        fall = 3 * params.gravity / (2 * params.length) * jnp.sin(theta)
        push = 3.0 / (params.mass * params.length**2) * torque
        theta_dot = jnp.clip(state.theta_dot + (fall + push) * params.dt, -params.max_speed, params.max_speed)
        after = State(theta + theta_dot * params.dt, theta_dot, state.time + 1)
        return observe(after), after, -cost, False, after.time >= params.max_steps, {}

    def action_space(self, params: Params) -> Box:
        """The torque in Nm; what lies outside is clipped."""
        return Box(-params.max_torque, params.max_torque, (1,))

    def observation_space(self, params: Params) -> Box:
        """A point on the unit circle, and a bounded speed."""
        high = jnp.array([1.0, 1.0, params.max_speed])
        return Box(-high, high, (3,))

    def render(self, state: State, params: Params) -> Frame:
        """The rod, upright at angle 0."""
        theta, length = float(state.theta), float(params.length)
        canvas = Canvas((0.0, 0.0), 2.6 * length)
        canvas.line((0.0, 0.0), (-length * sin(theta), length * cos(theta)), 0.16 * length, RED)
        canvas.disc((0.0, 0.0), 0.12 * length, GREY)
        canvas.disc((0.0, 0.0), 0.05 * length, INK)
        return canvas.frame()


def observe(state: State) -> jax.Array:
    """Cosine and sine of the angle, angular velocity."""
    return jnp.stack([jnp.cos(state.theta), jnp.sin(state.theta), state.theta_dot])
