"""Observations in fewer bytes: an environment whose observations are another's as Booleans, bytes or bits.

It is written in JAX and traced with the step, so XLA narrows as all engines do, and folding takes out the floats in
between: a Boolean plane that an environment gives as float32 is recorded as the bits that it was.
"""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from typing import Any, Literal, cast, get_args

import jax
import jax.numpy as jnp

from drivetrain.core.errors import InvalidInput
from drivetrain.sim.api import Environment, Tree, name_of
from drivetrain.sim.held_keys import as_words

Narrow = Literal["bool", "uint8", "bits"]
BITS = (128, 64, 32, 16, 8, 4, 2, 1)


def checked_narrow(narrow: str) -> Narrow:
    """A way to narrow that there is.

    Raises:
        InvalidInput: There is none of that name.
    """
    if narrow not in get_args(Narrow):
        raise InvalidInput(f"narrow_obs: expected None or one of {', '.join(get_args(Narrow))}, got {narrow!r}")
    return cast("Narrow", narrow)


class Narrowed:
    """An environment with the steps of another, and its observations as `narrowed` gives them."""

    def __init__(self, env: Environment, narrow: Narrow) -> None:
        """Nothing of `env` changes."""
        self.env = env
        self.narrow: Narrow = narrow
        self.name, self.default_params = name_of(env), env.default_params

    def reset(self, key: jax.Array, params: Tree) -> tuple[Tree, Tree]:
        """See `Environment`."""
        obs, state = self.env.reset(key, params)
        return narrowed(obs, self.narrow), state

    def step(
        self, key: jax.Array, state: Tree, action: jax.Array, params: Tree
    ) -> tuple[Tree, Tree, jax.Array, jax.Array, jax.Array, dict[str, Any]]:
        """See `Environment`."""
        obs, after, reward, terminated, truncated, info = self.env.step(key, state, action, params)
        return narrowed(obs, self.narrow), after, reward, terminated, truncated, info

    def action_space(self, params: Tree) -> Any:
        """See `Environment`."""
        return self.env.action_space(params)

    def observation_space(self, params: Tree) -> Any:
        """Of the wide observations."""
        return self.env.observation_space(params)


def narrowed(obs: Tree, narrow: Narrow) -> Tree:
    """Observations of one environment as a narrower type, leaf by leaf.

    Args:
        narrow: "bool": whether an element is not 0. "uint8": by value, fractions cut off. "bits": as
            `numpy.packbits` of the flattened leaf: uint8[ceil(size / 8)], 1 where an element is not 0.
    """
    obs = as_words(obs)
    if narrow == "uint8":
        return jax.tree.map(lambda x: jnp.asarray(x).astype(jnp.uint8), obs)
    flags = jax.tree.map(lambda x: jnp.asarray(x) != 0, obs)
    return flags if narrow == "bool" else jax.tree.map(packed, flags)


def packed(flags: jax.Array) -> jax.Array:
    """Eight Booleans a byte, the first in the highest bit; the last byte is filled up with zeros."""
    flat = flags.reshape(-1)
    rows = jnp.pad(flat, (0, -flat.size % 8)).reshape(-1, 8)
    return jnp.sum(jnp.where(rows, jnp.asarray(BITS, jnp.int32), 0), axis=1).astype(jnp.uint8)
