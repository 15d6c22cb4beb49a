"""Compares engines with the oracle, one step at a time from the same state: open-loop runs are chaotic."""

import jax
import jax.numpy as jnp
import numpy as np

from drivetrain import sim

EVERYTHING = ("obs", "reward", "terminated", "truncated", "final_obs", "info")


def random_actions(env, num_steps, num_envs, seed=0):
    keys = jax.random.split(jax.random.key(seed), num_steps * num_envs)
    actions = jax.vmap(env.action_space(env.default_params).sample)(keys)
    return jax.tree.map(lambda x: np.asarray(x.reshape(num_steps, num_envs, *x.shape[1:])), actions)


def assert_same(expected, got, where="", atol=1e-6):
    """Integers, Booleans and keys exactly, floats within 1e-5, or within `atol` near zero."""
    assert jax.tree.structure(expected) == jax.tree.structure(got)
    for (path, x), y in zip(jax.tree_util.tree_leaves_with_path(expected), jax.tree.leaves(got), strict=True):
        x, y = np.asarray(x), np.asarray(y)
        name = f"{where}{jax.tree_util.keystr(path)}"
        assert (x.shape, x.dtype) == (y.shape, y.dtype), name
        if x.dtype.kind == "f":
            np.testing.assert_allclose(y, x, rtol=1e-5, atol=atol, err_msg=name)
        else:
            np.testing.assert_array_equal(y, x, err_msg=name)


def assert_engine_equals_xla(env, engine, num_envs, num_steps, **options):
    """Every step from the oracle's state; returns how many episodes ended."""
    options = {"record": EVERYTHING, **options}
    oracle = sim.compile(env, num_envs, 1, "xla", **options)
    tested = sim.compile(env, num_envs, 1, engine, **options)
    state, actions = oracle.reset(seed=3), random_actions(oracle.env, num_steps, num_envs)
    num_ended = 0
    for step in range(num_steps):
        action = jax.tree.map(lambda x, step=step: x[step : step + 1], actions)
        expected, got = oracle(state, action), tested(state, action)
        assert_same(expected, got, f"step {step}: ")
        state = expected[0]
        num_ended += int(np.sum(state.done))
    return num_ended


class Applied:
    """An environment whose observation is a function of its action: any function through any engine."""

    name = "Applied"
    default_params = None

    def __init__(self, function, *examples):
        self.function, self.examples = function, examples

    def reset(self, key, params):
        shapes = jax.eval_shape(self.function, *self.examples)
        return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes), jnp.int32(0)

    def step(self, key, state, action, params):
        return self.function(*action), state, jnp.float32(0), False, False, {}

    def action_space(self, params):
        return self

    observation_space = action_space

    def sample(self, key):
        return tuple(jnp.zeros(x.shape, x.dtype) for x in self.examples)


def applied(function, *batches, engine="native"):
    """function, for every environment of the batches (leading axis [num_envs]), by an engine."""
    batches = tuple(np.asarray(batch) for batch in batches)
    env = Applied(function, *(batch[0] for batch in batches))
    rollout = sim.compile(env, len(batches[0]), 1, engine, record=("obs",), autoreset="disabled")
    _, trajectory = rollout(rollout.reset(), tuple(batch[None] for batch in batches))
    return jax.tree.map(lambda x: np.asarray(x)[0], trajectory["obs"])
