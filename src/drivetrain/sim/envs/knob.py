"""Knob: an environment that is as large, as laborious and as short-lived as it is told to be.

It stands for no problem. It is what a measurement turns to see where a simulator's time goes: how a fused
kernel gains over an unfused one as a step moves more bytes or computes more per byte, after the complexity
axis of Gleeson et al., Optimizing Data Collection in Deep RL, arXiv:2207.07736.
"""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from collections.abc import Callable
from dataclasses import dataclass
from math import log1p
from numbers import Integral, Real
from typing import Any

import jax
import jax.numpy as jnp

from drivetrain.core.errors import InvalidInput
from drivetrain.sim import random
from drivetrain.sim.spaces import Box, Discrete

DECAY = 1 - 2**-10
PUSH = 2**-10
MOST_FLOPS_PER_BYTE = 16


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class State:
    """Leaves of no bytes are None."""

    live: Any
    """float32[live_nbytes / 4] in ±1."""
    dead: Any
    """float32[dead_nbytes / 4], zeros."""
    left: Any
    """int32: steps until the episode ends."""


class Knob:
    """Each step moves every live number towards 1 or -1, as the action says; the reward is the first of them.

    Args:
        live_nbytes: Of state that each step reads and writes, a positive multiple of 4.
        flops_per_byte: Floating-point operations per step for each of these bytes, half of them products, half
            sums: a positive multiple of 0.5, at most 16.
        dead_nbytes: Of state that no step reads or writes, a multiple of 4. Only a reset sets it.
        reset_rate: Chance that a step ends the episode, from 0 (never, and nothing is spent on it) to 1. The
            length of an episode is drawn, from the geometric distribution, at its start.

    Raises:
        InvalidInput: A number is out of its range.
    """

    name = "Knob"
    default_params = None

    def __init__(
        self, live_nbytes: int = 64, flops_per_byte: float = 1.0, dead_nbytes: int = 0, reset_rate: float = 0.01
    ) -> None:
        """See the class."""
        require("live_nbytes", "a positive multiple of 4", live_nbytes, Integral, lambda x: x > 0 and x % 4 == 0)
        require("dead_nbytes", "a multiple of 4", dead_nbytes, Integral, lambda x: x >= 0 and x % 4 == 0)
        most = MOST_FLOPS_PER_BYTE
        wanted = f"a multiple of 0.5, above 0 and at most {most}"
        require("flops_per_byte", wanted, flops_per_byte, Real, lambda x: 0 < x <= most and x % 0.5 == 0)
        require("reset_rate", "a number from 0 to 1", reset_rate, Real, lambda x: 0 <= x <= 1)
        self.num_live, self.num_dead = live_nbytes // 4, dead_nbytes // 4
        self.num_rounds = int(2 * flops_per_byte)
        self.reset_rate = reset_rate

    def reset(self, key: jax.Array, params: None) -> tuple[jax.Array, State]:
        """Zeros everywhere, so that a start costs one random number whatever the size."""
        dead = jnp.zeros(self.num_dead) if self.num_dead else None
        state = State(jnp.zeros(self.num_live), dead, self.lifetime(key))
        return state.live[:1], state

    def lifetime(self, key: jax.Array) -> Any:
        """Steps of an episode."""
        if self.reset_rate == 0:
            return None
        if self.reset_rate == 1:
            return jnp.int32(1)
        u = random.uniform(key, minval=1e-7, maxval=1.0)
        return jnp.clip(jnp.ceil(jnp.log(u) / log1p(-self.reset_rate)), 1.0, 1e9).astype(jnp.int32)

    def step(self, key: jax.Array, state: State, action: jax.Array, params: None) -> Any:
        """A product and a sum for each live number, as often as asked."""
        live, push = state.live, jnp.where(action == 1, PUSH, -PUSH)
        for _ in range(self.num_rounds):
            live = live * DECAY + push
        left = None if state.left is None else state.left - 1
        terminated = False if left is None else left <= 0
        return live[:1], State(live, state.dead, left), live[0], terminated, False, {}

    def action_space(self, params: None) -> Discrete:
        """0 towards -1, 1 towards 1."""
        return Discrete(2)

    def observation_space(self, params: None) -> Box:
        """The first of the live numbers."""
        return Box(-1.0, 1.0, (1,))


def require(name: str, expected: str, got: Any, kind: type[Any], fits: Callable[[Any], bool]) -> None:
    """Refuse a setting that does not fit."""
    if isinstance(got, bool) or not isinstance(got, kind) or not fits(got):
        raise InvalidInput(f"{name}: expected {expected}, got {got!r}")
