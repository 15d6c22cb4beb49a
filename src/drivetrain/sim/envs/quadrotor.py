"""Quadrotor: a rotorcraft in a vertical plane, with two rotors on a beam; hover at the origin.

Source: the planar quadrotor of Tedrake, Underactuated Robotics, chapter 3 (underactuated.csail.mit.edu/acrobot.html),
equations of section "The Planar Quadrotor"; task and bounds are our own.
"""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from dataclasses import dataclass
from math import cos, sin
from typing import Any

import jax
import jax.numpy as jnp

from drivetrain.sim import random
from drivetrain.sim.envs.drawing import BLUE, GOLD, GREY, INK, Canvas, Frame
from drivetrain.sim.spaces import Box

START = (1.0, 1.0, 0.3, 0.5, 0.5, 0.5)
"""Half-widths of where x, z, theta and their velocities start."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class State:
    """Metres to the right and up, radians anticlockwise, and their velocities per second."""

    x: Any
    z: Any
    theta: Any
    x_dot: Any
    z_dot: Any
    theta_dot: Any
    time: Any


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Params:
    """In SI units."""

    gravity: float = 9.81
    mass: float = 0.5
    inertia: float = 0.005
    arm: float = 0.2
    """From the centre to a rotor."""
    thrust: float = 2.0
    """Of both rotors at full power together, over the weight of a craft of 0.5 kg on Earth."""
    position_limit: float = 3.0
    angle_limit: float = 1.5
    dt: float = 0.02
    max_steps: int = 500


WEIGHT = 0.5 * 9.81
"""Newtons; what thrust is measured in, so that another mass or gravity changes what a throttle does."""


class Quadrotor:
    """Reward is near 1 where it hovers upright at the origin and less elsewhere; ends 3 m away, or overturned."""

    name = "Quadrotor"
    default_params = Params()

    def reset(self, key: jax.Array, params: Params) -> tuple[jax.Array, State]:
        """Somewhere near, slow, and a little tilted."""
        high = jnp.array(START)
        x, z, theta, x_dot, z_dot, theta_dot = random.uniform(key, (6,), minval=-high, maxval=high)
        state = State(x, z, theta, x_dot, z_dot, theta_dot, jnp.int32(0))
        return observe(state), state

    def step(self, key: jax.Array, state: State, action: jax.Array, params: Params) -> Any:
        """Semi-implicit Euler: places move by the new velocities."""
        throttle = (jnp.clip(action, -1.0, 1.0) + 1.0) / 2.0
        left, right = throttle[0] * params.thrust * WEIGHT / 2, throttle[1] * params.thrust * WEIGHT / 2
        total = (left + right) / params.mass
        x_dot = state.x_dot - params.dt * total * jnp.sin(state.theta)
        z_dot = state.z_dot + params.dt * (total * jnp.cos(state.theta) - params.gravity)
        theta_dot = state.theta_dot + params.dt * params.arm * (right - left) / params.inertia
        after = State(
            x=state.x + params.dt * x_dot,
            z=state.z + params.dt * z_dot,
            theta=state.theta + params.dt * theta_dot,
            x_dot=x_dot,
            z_dot=z_dot,
            theta_dot=theta_dot,
            time=state.time + 1,
        )
        effort = jnp.sum((throttle - 0.5) ** 2)
        error = after.x**2 + after.z**2 + 0.5 * after.theta**2 + 0.05 * (x_dot**2 + z_dot**2 + 0.1 * theta_dot**2)
        reward = 1.0 / (1.0 + error) - 0.05 * effort
        far = (jnp.abs(after.x) > params.position_limit) | (jnp.abs(after.z) > params.position_limit)
        terminated = far | (jnp.abs(after.theta) > params.angle_limit)
        return observe(after), after, reward, terminated, after.time >= params.max_steps, {}

    def action_space(self, params: Params) -> Box:
        """Throttle of the left and of the right rotor, -1 off, 1 full; what lies outside is clipped."""
        return Box(-1.0, 1.0, (2,))

    def observation_space(self, params: Params) -> Box:
        """Place, a point on the unit circle, velocities."""
        return Box(-jnp.inf, jnp.inf, (7,))

    def render(self, state: State, params: Params) -> Frame:
        """The craft, three times as large as it is, and the place where it should hover."""
        x, z, theta, limit = float(state.x), float(state.z), float(state.theta), float(params.position_limit)
        along, up = (cos(theta), sin(theta)), (-sin(theta), cos(theta))
        canvas, arm = Canvas((0.0, 0.0), 2.1 * limit), 3 * float(params.arm)
        canvas.line((-limit, 0.0), (limit, 0.0), 0.02, GREY)
        canvas.line((0.0, -limit), (0.0, limit), 0.02, GREY)
        ends = [(x + side * arm * along[0], z + side * arm * along[1]) for side in (-1, 1)]
        canvas.line(ends[0], ends[1], 0.1, INK)
        for end in ends:
            hub = (end[0] + 0.15 * up[0], end[1] + 0.15 * up[1])
            blade = [(hub[0] + side * 0.3 * along[0], hub[1] + side * 0.3 * along[1]) for side in (-1, 1)]
            canvas.line(end, hub, 0.06, INK)
            canvas.line(blade[0], blade[1], 0.06, BLUE)
        canvas.disc((x, z), 0.14, GOLD)
        return canvas.frame()


def observe(state: State) -> jax.Array:
    """Place, sine and cosine of the angle, velocities."""
    sin, cos = jnp.sin(state.theta), jnp.cos(state.theta)
    return jnp.stack([state.x, state.z, sin, cos, state.x_dot, state.z_dot, state.theta_dot])
