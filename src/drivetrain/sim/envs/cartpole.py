"""CartPole: a pole on a cart that is pushed left or right.

Source: Barto, Sutton, Anderson 1983; constants and equations of Gymnasium's CartPole-v1.
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
    """Positions in metres and radians, velocities per second."""

    x: Any
    x_dot: Any
    theta: Any
    theta_dot: Any
    time: Any


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Params:
    """In SI units."""

    gravity: float = 9.8
    mass_cart: float = 1.0
    mass_pole: float = 0.1
    half_length: float = 0.5
    force: float = 10.0
    dt: float = 0.02
    x_limit: float = 2.4
    theta_limit: float = 12 * 2 * pi / 360
    max_steps: int = 500


class CartPole:
    """Reward 1 per step until the pole falls, the cart leaves, or 500 steps are over."""

    name = "CartPole-v1"
    default_params = Params()

    def reset(self, key: jax.Array, params: Params) -> tuple[jax.Array, State]:
        """Everything uniform in ±0.05."""
        x, x_dot, theta, theta_dot = random.uniform(key, (4,), minval=-0.05, maxval=0.05)
        state = State(x, x_dot, theta, theta_dot, jnp.int32(0))
        return observe(state), state

    def step(self, key: jax.Array, state: State, action: jax.Array, params: Params) -> Any:
        """Euler's method, with the velocities of before."""
        force = jnp.where(action == 1, params.force, -params.force)
        cosine, sine = jnp.cos(state.theta), jnp.sin(state.theta)
        total_mass = params.mass_cart + params.mass_pole
        pole = params.mass_pole * params.half_length
        push = (force + pole * state.theta_dot**2 * sine) / total_mass
        theta_acc = (params.gravity * sine - cosine * push) / (
            params.half_length * (4.0 / 3.0 - params.mass_pole * cosine**2 / total_mass)
        )
        x_acc = push - pole * theta_acc * cosine / total_mass
        after = State(
            x=state.x + params.dt * state.x_dot,
            x_dot=state.x_dot + params.dt * x_acc,
            theta=state.theta + params.dt * state.theta_dot,
            theta_dot=state.theta_dot + params.dt * theta_acc,
            time=state.time + 1,
        )
        terminated = (jnp.abs(after.x) > params.x_limit) | (jnp.abs(after.theta) > params.theta_limit)
        return observe(after), after, jnp.float32(1.0), terminated, after.time >= params.max_steps, {}

    def action_space(self, params: Params) -> Discrete:
        """0 pushes left, 1 right."""
        return Discrete(2)

    def observation_space(self, params: Params) -> Box:
        """Twice the limits; velocities are unbounded."""
        high = jnp.array([2 * params.x_limit, jnp.inf, 2 * params.theta_limit, jnp.inf])
        return Box(-high, high, (4,))

    def render(self, state: State, params: Params) -> Frame:
        """Track, cart, and the pole on it."""
        x, theta, length = float(state.x), float(state.theta), 2 * float(params.half_length)
        canvas = Canvas((0.0, 0.6), 4.0)
        canvas.line((-float(params.x_limit), 0.0), (float(params.x_limit), 0.0), 0.03, GREY)
        canvas.box((x, 0.0), (0.6, 0.3), INK)
        canvas.line((x, 0.15), (x + length * sin(theta), 0.15 + length * cos(theta)), 0.1, GOLD)
        canvas.disc((x, 0.15), 0.06, BLUE)
        return canvas.frame()


def observe(state: State) -> jax.Array:
    """Position, velocity, angle, angular velocity."""
    return jnp.stack([state.x, state.x_dot, state.theta, state.theta_dot])
