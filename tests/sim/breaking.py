"""A good environment, and the same broken in one place."""

import jax
import jax.numpy as jnp
import pytest

from drivetrain import sim
from drivetrain.core.errors import CompileError
from drivetrain.sim.spaces import Box, Discrete


class Good:
    """Walks to one of two ends; each test breaks it in one place."""

    name = "Good"
    default_params = None

    def reset(self, key, params):
        x = jax.random.uniform(key, minval=-1.0, maxval=1.0)
        return x[None], (x, jnp.int32(0))

    def step(self, key, state, action, params):
        x, time = state
        x = x + 0.5 * (2 * action - 1) + 0.1 * jax.random.normal(key)
        return x[None], (x, time + 1), -x, abs(x) > 3, time >= 20, {}

    def action_space(self, params):
        return Discrete(2)

    def observation_space(self, params):
        return Box(-9.0, 9.0, (1,))


def changed(**methods):
    return type("Broken", (Good,), methods)()


def with_result(index, change):
    """The good environment with one value of `step` changed."""

    def step(self, *arguments):
        results = list(Good.step(self, *arguments))
        results[index] = change(results[index])
        return tuple(results)

    return changed(step=step)


def refused(env, message, error=CompileError):
    with pytest.raises(error, match=message):
        sim.check_env(env)
