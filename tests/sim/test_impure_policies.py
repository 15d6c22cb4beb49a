"""A policy in a kernel is a function of its arguments, or is refused by its name."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from drivetrain import sim
from drivetrain.core.errors import CompileError


class Remembers:
    """A policy that keeps what it saw, as a recurrent one without a state would."""

    def __init__(self):
        self.seen = jnp.zeros(4)

    def act(self, params, obs, key):
        self.seen = obs + 0.5 * self.seen
        return (self.seen[2] > 0).astype(jnp.int32)

    __call__ = act


class Counts:
    calls = 0

    def __call__(self, params, obs, key):
        self.calls += 1
        return jnp.int32(self.calls % 2)


def appends(params, obs, key, seen=[]):  # noqa: B006
    seen.append(obs)
    return jnp.int32(len(seen) % 2)


def draws(params, obs, key):
    return (obs[0] > np.random.random()).astype(jnp.int32)


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (
            Remembers(),
            "policy Remembers is impure: it leaves a traced value in the attribute 'seen'; a policy keeps no",
        ),
        (Remembers().act, r"policy Remembers\.act is impure: it leaves a traced value in the attribute 'seen'"),
        (functools.partial(Remembers().act), "`policy` is impure: it uses a value that an earlier trace left behind"),
        (Counts(), "policy Counts is impure: traced a second time it is another program; take random numbers from"),
        (appends, "policy appends is impure: traced a second time it is another program"),
        (draws, "policy draws is impure: traced a second time it is another program"),
        (jax.jit(draws), "policy draws is impure: traced a second time it is another program"),
    ],
)
def test_a_policy_that_is_no_function_of_its_arguments_is_told_so_by_its_name(policy, words):
    with pytest.raises(CompileError, match=words):
        sim.compile(sim.make("CartPole-v1"), 1, 1, "numpy", policy=policy)


def test_an_environment_that_holds_itself_is_compiled():
    class Ring(type(sim.make("CartPole-v1"))):
        def __init__(self):
            self.inner = sim.make("CartPole-v1")
            self.inner.outer = self

    assert sim.compile(Ring(), 1, 1, "numpy").settings.num_envs == 1
