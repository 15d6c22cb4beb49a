"""gymnax's environments, unmodified: native kernels equal XLA, and both equal gymnax's own step."""

import jax
import numpy as np
import pytest
from comparing import assert_engine_equals_xla, random_actions

from drivetrain import sim
from drivetrain.core.errors import InvalidInput
from drivetrain.sim.fingerprint import followed

gymnax = pytest.importorskip("gymnax", reason='needs the extra: pip install "drivetrain[gymnax]"')
SOME = ("Breakout-MinAtar", "FourRooms-misc", "SimpleBandit-bsuite")
# MNIST needs a download.
EVERY = [name for name in gymnax.registered_envs if name != "MNISTBandit-bsuite"]


@pytest.mark.release
@pytest.mark.parametrize("name", SOME)
def test_native_equals_xla(name):
    assert_engine_equals_xla(sim.from_gymnax(name), "native", num_envs=13, num_steps=60)


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_native_equals_xla_on_every_environment_for_300_steps(name):
    assert_engine_equals_xla(sim.from_gymnax(name), "native", num_envs=37, num_steps=300)


@pytest.mark.release
def test_steps_are_those_of_gymnax_itself():
    env = sim.make("gymnax/Breakout-MinAtar")
    rollout = sim.compile(env, 4, 1, "native", record=("obs", "reward", "final_obs"))
    state, actions = rollout.reset(seed=1), random_actions(env, 40, 4)
    keys, own = jax.random.split(jax.random.key(1), 4), state.env
    step = jax.jit(jax.vmap(env.inner.step, in_axes=(0, 0, 0, None)))
    num_ended = 0
    for number in range(40):
        here = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, number)
        obs, own, reward, terminated, truncated, info = step(here, own, actions[number], env.default_params)
        state, row = rollout(state, actions[number : number + 1])
        for x, y in zip(jax.tree.leaves(own), jax.tree.leaves(state.env), strict=True):
            np.testing.assert_array_equal(x, y)
        np.testing.assert_array_equal(obs, row["obs"][0])
        np.testing.assert_array_equal(reward, row["reward"][0])
        np.testing.assert_array_equal(info["final_observation"], row["final_obs"][0])
        num_ended += int(np.sum(terminated | truncated))
    assert num_ended > 4


def test_kernels_of_all_of_them_are_found_without_a_trace():
    for name in EVERY:
        followed(sim.from_gymnax(name))  # says what cannot be


def test_an_object_of_gymnax_is_taken_as_it_is():
    env, _ = gymnax.make("FourRooms-misc")
    assert sim.compile(env, 2, 1, "xla").env.name == env.name


@pytest.mark.parametrize("take", [sim.from_gymnax, sim.check_env, sim.explain, lambda env: sim.compile(env, 2, 1)])
def test_what_gymnax_makes_together_with_parameters_is_to_be_taken_apart(take):
    with pytest.raises(InvalidInput, match=r"got a tuple .*: take it apart \(env, params = gymnax.make\(name\)\)"):
        take(gymnax.make("CartPole-v1"))


def derived(wrapper, **methods):
    """A wrapper of gymnax's own kind, or an environment derived from gymnax's, with other methods."""
    from gymnax.environments.classic_control.cartpole import CartPole
    from gymnax.wrappers.purerl import GymnaxWrapper

    cartpole = CartPole()
    return type("Wrapping", (GymnaxWrapper,), methods)(cartpole) if wrapper else type("Derived", (CartPole,), methods)()


@pytest.mark.parametrize("wrapper", [True, False])
@pytest.mark.parametrize("name", ["step", "reset"])
def test_a_step_or_reset_that_would_be_left_out_is_refused_by_the_name_of_who_has_it(wrapper, name):
    env = derived(wrapper, **{name: lambda self, *args: None})
    told = rf"`{name}` of {type(env).__name__}: wrappers .* step_env and reset_env, or into an environment of our form"
    for call in (sim.check_env, sim.from_gymnax, sim.explain, sim.make_vec, lambda env: sim.compile(env, 2, 1)):
        with pytest.raises(InvalidInput, match=told):
            call(env)


def test_the_wrappers_of_gymnax_are_refused_however_deep_they_are(monkeypatch):
    from gymnax.wrappers import FlattenObservationWrapper, LogWrapper
    from gymnax.wrappers.purerl import GymnaxWrapper

    env, _ = gymnax.make("Breakout-MinAtar")
    for wrapped in (LogWrapper(FlattenObservationWrapper(env)), GymnaxWrapper(LogWrapper(env))):
        with pytest.raises(InvalidInput, match="got one with a `reset` of LogWrapper"):
            sim.compile(wrapped, 2, 1)
    monkeypatch.setattr(gymnax, "logged", lambda: LogWrapper(env), raising=False)
    with pytest.raises(InvalidInput, match="`reset` of LogWrapper"):  # as the trainer makes it
        sim.make("drivetrain/gymnax:logged")


@pytest.mark.parametrize("wrapper", [True, False])
def test_a_step_env_of_ones_own_takes_part(wrapper):
    def step_env(self, *args):
        inner = self._env if wrapper else super(type(self), self)
        obs, state, reward, terminated, info = inner.step_env(*args)
        return obs, state, 100.0 * reward, terminated, info

    rollout = sim.compile(derived(wrapper, step_env=step_env), 3, 1, "xla", record=("reward",))
    _, row = rollout(rollout.reset(), np.zeros((1, 3), np.int32))
    np.testing.assert_array_equal(row["reward"], [[100.0] * 3])


def test_an_object_that_is_none_of_gymnax_is_told_by_from_gymnax():
    with pytest.raises(InvalidInput, match=r"or one of its environments, got a CartPole; sim.compile and"):
        sim.from_gymnax(sim.make("CartPole-v1"))


def test_options_beside_an_object_are_refused():
    with pytest.raises(InvalidInput, match="size: options are for environments by name, got a GymnaxEnvironment"):
        sim.from_gymnax(sim.make("gymnax/CartPole-v1"), size=20)


def test_an_unknown_name_is_told_with_those_that_exist():
    with pytest.raises(ValueError, match=r"no environment 'Brekout'.*Breakout-MinAtar"):
        sim.make("gymnax/Brekout")


@pytest.mark.whole
def test_they_are_vector_environments_of_gymnasium_too():
    venv = sim.make_vec("gymnax/SimpleBandit-bsuite", 6, "native", autoreset="same_step")
    obs, _ = venv.reset(seed=0)
    num_ended = 0
    for _ in range(5):
        assert obs in venv.observation_space
        obs, _, terminated, truncated, infos = venv.step(venv.action_space.sample())
        ended = terminated | truncated
        num_ended += int(ended.sum())
        np.testing.assert_array_equal(infos.get("_discount", ~ended), ~ended)
        np.testing.assert_array_equal(infos["_final_info"] if ended.any() else ended, ended)
    assert num_ended >= 6
