"""An environment that observes nothing but random words: what a generator's every way of use gives, to the bit."""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from typing import Any

import jax
import jax.numpy as jnp

from drivetrain.sim import random
from drivetrain.sim.random import Counter
from drivetrain.sim.spaces import Box, Discrete


class KeyWords:
    """40 words a step under JAX's keys, 36 under a counter; an episode is 16 steps."""

    name = "random words"
    default_params = None

    def reset(self, key: Any, params: Any) -> tuple[jax.Array, jax.Array]:
        """The words of a start."""
        return words(key), jnp.int32(0)

    def step(self, key: Any, state: jax.Array, action: jax.Array, params: Any) -> Any:
        """The words of a step."""
        return words(key), state + 1, jnp.float32(0), state >= 15, False, {}

    def action_space(self, params: Any) -> Discrete:
        """Nothing to choose."""
        return Discrete(1)

    def observation_space(self, params: Any) -> Box:
        """Any words."""
        return Box(0, 2**32 - 1, (40,), jnp.uint32)


def words(key: Any) -> jax.Array:
    """Words by draws of several shapes, splits, folds, floats, integers and, where there are any, permutations."""
    parts = random.split(key, 5)
    found = [
        random.bits(parts[0], (12,)),
        random.bits(random.fold_in(parts[1], 7), (3,)),
        random.bits(random.fold_in(random.split(parts[1], 3)[2], 2**31), (5,)),
        jax.lax.bitcast_convert_type(random.uniform(parts[2], (9,), -1.0, 3.0), jnp.uint32),
        random.randint(parts[3], (7,), -5, 1000).astype(jnp.uint32),
    ]
    if not isinstance(key, Counter):
        found.append(jax.random.permutation(parts[4], 4).astype(jnp.uint32))
    return jnp.concatenate(found)
