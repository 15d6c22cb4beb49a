"""Typed keys that environments keep and show: rollouts hold their words, and give the environment keys again."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import Applied, assert_engine_equals_xla

from drivetrain import sim
from drivetrain.core.errors import CompileError
from drivetrain.sim.spaces import Box, Discrete


class Drawing:
    """Draws from two keys of its own, which it keeps in its state, and shows one of them."""

    name = "Drawing"
    default_params = None

    def reset(self, key, params):
        start, keys = jax.random.split(key)
        return {"key": start, "drawn": jnp.zeros(())}, (jax.random.split(keys), 0)

    def step(self, key, state, action, params):
        keys, time = state
        pairs = jax.vmap(jax.random.split)(keys)
        drawn = jax.random.uniform(pairs[0, 1]) + action
        obs = {"key": pairs[1, 1], "drawn": drawn}
        return obs, (pairs[:, 0], time + 1), drawn, time > 3, False, {"key": key}

    def action_space(self, params):
        return Discrete(2)

    def observation_space(self, params):
        return {"key": Box(0, 2**32 - 1, (2,), np.uint32), "drawn": Box(0, 2, ())}

    def render(self, state, params):
        words = jax.random.key_data(state[0])  # refuses words
        return np.full((1, 1, 3), np.asarray(words)[0, 0] % 255, np.uint8)


class HeldByHand(Drawing):
    """The same environment with words in their place."""

    def reset(self, key, params):
        obs, (keys, time) = super().reset(key, params)
        return obs | {"key": jax.random.key_data(obs["key"])}, (jax.random.key_data(keys), time)

    def step(self, key, state, action, params):
        keys, time = state
        obs, (keys, time), *others, info = super().step(key, (jax.random.wrap_key_data(keys), time), action, params)
        words = {"key": jax.random.key_data(info["key"])}
        return obs | {"key": jax.random.key_data(obs["key"])}, (jax.random.key_data(keys), time), *others, words


@pytest.mark.whole
@pytest.mark.parametrize("engine", ["native", "numpy"])
@pytest.mark.parametrize("autoreset", ["same_step", "next_step"])
def test_an_environment_that_keeps_keys_is_compiled(engine, autoreset):
    assert assert_engine_equals_xla(Drawing(), engine, 5, 12, autoreset=autoreset) > 5


@pytest.mark.whole
@pytest.mark.parametrize("engine", ["xla", "native"])
def test_kept_keys_are_handed_out_as_what_their_words_would_be(engine):
    ends = []
    for env in (Drawing(), HeldByHand()):
        rollout = sim.compile(env, 3, 9, engine, record=("obs", "reward", "info", "final_obs"))
        start = rollout.reset(seed=1)
        ends.append((start, rollout(start, np.ones((9, 3), np.int32))))
    for kept, by_hand in zip(*map(jax.tree.leaves, ends), strict=True):
        np.testing.assert_array_equal(kept, by_hand)


@pytest.mark.whole
def test_a_policy_sees_words():
    def leaning(params, obs, key):
        return (obs["key"][1] & 1).astype(jnp.int32)

    rollout = sim.compile(Drawing(), 4, 6, policy=leaning, record=("action", "obs_before"))
    _, trajectory = rollout(rollout.reset(seed=0))
    np.testing.assert_array_equal(trajectory["action"], trajectory["obs_before"]["key"][..., 1] & 1)


@pytest.mark.whole
@pytest.mark.parametrize("engine", ["xla", "native"])
def test_gymnasium_gets_words_and_render_gets_keys(engine):
    venv = sim.make_vec(Drawing(), 2, engine, render_mode="rgb_array")
    obs, _ = venv.reset(seed=0)
    assert obs["key"].dtype == np.uint32
    infos = venv.step(np.zeros(2, np.int64))[4]
    assert infos["key"].shape == (2, 2)
    words = venv.state.env[0]
    assert [frame[0, 0, 0] for frame in venv.render()] == [each[0, 0] % 255 for each in np.asarray(words)]


def test_keys_that_are_shown_are_narrowed_as_their_words():
    wide, narrow = (sim.compile(Drawing(), 2, 3, "numpy", record=("obs",), narrow_obs=how) for how in (None, "uint8"))
    actions = np.zeros((3, 2), np.int32)
    rows = [rollout(rollout.reset(seed=1), actions)[1]["obs"]["key"] for rollout in (wide, narrow)]
    np.testing.assert_array_equal(rows[0].astype(np.uint8), rows[1])


def test_actions_that_are_keys_are_told_to_be_words():
    with pytest.raises(CompileError, match="Applied: expected actions of numbers, got typed random keys; act by"):
        sim.compile(Applied(jax.random.uniform, jax.random.key(0)), 1, 1, "numpy", autoreset="disabled")


class Showing:
    """Shows the keys that it is given."""

    name = "Showing"
    default_params = None

    def reset(self, key, params):
        return key, jnp.int32(0)

    def step(self, key, state, action, params):
        return key, state + 1, jnp.float32(0), False, state > 5, {}

    def action_space(self, params):
        return Discrete(2)

    def observation_space(self, params):
        return Box(0, 2**32 - 1, (2,), np.uint32)


def test_an_environment_that_shows_keys_is_checked():
    sim.check_env(Showing(), num_steps=3)


@pytest.mark.parametrize("engine", ["xla", "numpy"])
def test_keys_among_what_a_policy_tells_are_recorded_as_words(engine):
    def telling(params, obs, key):
        return jnp.int32(0), {"key": key}

    rollout = sim.compile(sim.make("CartPole-v1"), 2, 3, engine, policy=telling, record=("key",))
    _, trajectory = rollout(rollout.reset(seed=0))
    assert (trajectory["key"].shape, trajectory["key"].dtype) == ((3, 2, 2), np.uint32)
