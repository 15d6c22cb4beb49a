"""Acrobot: two links, a motor at the joint between them; swing the tip above the bar.

Source: Sutton, Generalization in Reinforcement Learning, 1996; constants and equations (those of the book,
Sutton and Barto, section 11.3 of the first edition) of Gymnasium's Acrobot-v1.
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
from drivetrain.sim.envs.drawing import BLUE, GOLD, GREY, INK, Canvas, Frame
from drivetrain.sim.spaces import Box, Discrete


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class State:
    """Angles in radians, the first from straight down, the second from the first link; velocities per second."""

    theta_1: Any
    theta_2: Any
    theta_dot_1: Any
    theta_dot_2: Any
    time: Any


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Params:
    """In SI units; the links are alike but for their masses."""

    gravity: float = 9.8
    mass_1: float = 1.0
    mass_2: float = 1.0
    length_1: float = 1.0
    centre_1: float = 0.5
    centre_2: float = 0.5
    inertia: float = 1.0
    torque: float = 1.0
    max_speed_1: float = 4 * pi
    max_speed_2: float = 9 * pi
    dt: float = 0.2
    max_steps: int = 500


class Acrobot:
    """Reward -1 per step, 0 for the one that brings the tip a link's length above the pivot."""

    name = "Acrobot-v1"
    default_params = Params()

    def reset(self, key: jax.Array, params: Params) -> tuple[jax.Array, State]:
        """Everything uniform in ±0.1."""
        theta_1, theta_2, theta_dot_1, theta_dot_2 = random.uniform(key, (4,), minval=-0.1, maxval=0.1)
        state = State(theta_1, theta_2, theta_dot_1, theta_dot_2, jnp.int32(0))
        return observe(state), state

    def step(self, key: jax.Array, state: State, action: jax.Array, params: Params) -> Any:
        """One step of the classical Runge-Kutta method."""
        torque = (action - 1).astype(jnp.float32) * params.torque
        start = jnp.stack([state.theta_1, state.theta_2, state.theta_dot_1, state.theta_dot_2])
        k1 = derivative(start, torque, params)
        k2 = derivative(start + params.dt / 2 * k1, torque, params)
        k3 = derivative(start + params.dt / 2 * k2, torque, params)
        k4 = derivative(start + params.dt * k3, torque, params)
        theta_1, theta_2, theta_dot_1, theta_dot_2 = start + params.dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        after = State(
            wrapped(theta_1),
            wrapped(theta_2),
            jnp.clip(theta_dot_1, -params.max_speed_1, params.max_speed_1),
            jnp.clip(theta_dot_2, -params.max_speed_2, params.max_speed_2),
            state.time + 1,
        )
        terminated = -jnp.cos(after.theta_1) - jnp.cos(after.theta_2 + after.theta_1) > 1.0
        reward = jnp.where(terminated, 0.0, -1.0)
        return observe(after), after, reward, terminated, after.time >= params.max_steps, {}

    def action_space(self, params: Params) -> Discrete:
        """Torque at the joint: negative, none, positive."""
        return Discrete(3)

    def observation_space(self, params: Params) -> Box:
        """Points on two unit circles, and bounded speeds."""
        high = jnp.array([1.0, 1.0, 1.0, 1.0, params.max_speed_1, params.max_speed_2])
        return Box(-high, high, (6,))

    def render(self, state: State, params: Params) -> Frame:
        """Both links, and the height that the tip has to reach."""
        one, two, length = float(state.theta_1), float(state.theta_1 + state.theta_2), float(params.length_1)
        joint = (length * sin(one), -length * cos(one))
        tip = (joint[0] + length * sin(two), joint[1] - length * cos(two))
        canvas = Canvas((0.0, 0.0), 4.8 * length)
        canvas.line((-4 * length, length), (4 * length, length), 0.03 * length, GREY)
        canvas.line((0.0, 0.0), joint, 0.2 * length, BLUE)
        canvas.line(joint, tip, 0.2 * length, GOLD)
        for place in ((0.0, 0.0), joint):
            canvas.disc(place, 0.07 * length, INK)
        return canvas.frame()


def derivative(s: jax.Array, torque: jax.Array, params: Params) -> jax.Array:
    """Of both angles and both velocities, by time; d and phi as in the book."""
    theta_1, theta_2, theta_dot_1, theta_dot_2 = s
    m1, m2, l1, c1, c2 = params.mass_1, params.mass_2, params.length_1, params.centre_1, params.centre_2
    inertia, arm = params.inertia, m2 * l1 * c2
    cosine, sine = jnp.cos(theta_2), jnp.sin(theta_2)
    d1 = m1 * c1**2 + m2 * (l1**2 + c2**2) + 2 * arm * cosine + 2 * inertia
    d2 = m2 * c2**2 + arm * cosine + inertia
    phi2 = m2 * c2 * params.gravity * jnp.sin(theta_1 + theta_2)
    phi1 = (
        -arm * theta_dot_2**2 * sine
        - 2 * arm * theta_dot_2 * theta_dot_1 * sine
        + (m1 * c1 + m2 * l1) * params.gravity * jnp.sin(theta_1)
        + phi2
    )
    acc_2 = (torque + d2 / d1 * phi1 - arm * theta_dot_1**2 * sine - phi2) / (m2 * c2**2 + inertia - d2**2 / d1)
    acc_1 = -(d2 * acc_2 + phi1) / d1
    return jnp.stack([theta_dot_1, theta_dot_2, acc_1, acc_2])


def wrapped(angle: jax.Array) -> jax.Array:
    """The same angle in ±pi."""
    return angle - 2 * pi * jnp.floor((angle + pi) / (2 * pi))


def observe(state: State) -> jax.Array:
    """Cosine and sine of each angle, both velocities."""
    one, two = state.theta_1, state.theta_2
    return jnp.stack([jnp.cos(one), jnp.sin(one), jnp.cos(two), jnp.sin(two), state.theta_dot_1, state.theta_dot_2])
