"""Our environments by id from Gymnasium's own functions, single and in batches."""

import enum
import functools
import os
import subprocess
import sys
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import load_env_creator
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

from drivetrain import sim
from drivetrain.core.errors import InvalidInput
from drivetrain.sim.envs.cartpole import CartPole
from drivetrain.sim.gymnasium import single
from drivetrain.sim.gymnasium.single import SimEnv
from drivetrain.sim.gymnasium.vector import SimVectorEnv
from drivetrain.sim.registry import ENVIRONMENTS

NAMES = ["CartPole-v1", "Pendulum-v1"]
# What Gymnasium advises of a space that is meant as it is.
ADVICE = ("infinity", "symmetric and normalized", "This is probably")


class Choice(str, enum.Enum):  # noqa: UP042 - whose members format as their names
    """What a configuration of a user's may hold."""

    ENGINE = "native"
    RESTART = "same_step"


def test_every_environment_of_ours_is_registered_in_both_forms():
    for name in ENVIRONMENTS:
        spec = gymnasium.spec(f"drivetrain/{name}")
        assert load_env_creator(spec.entry_point) is SimEnv
        assert load_env_creator(spec.vector_entry_point) is sim.make_vec


def test_make_vec_makes_the_vector_environment_of_ours():
    venv = gymnasium.make_vec("drivetrain/CartPole-v1", num_envs=9, autoreset="same_step")
    assert isinstance(venv, SimVectorEnv)
    assert (venv.num_envs, venv.spec.id) == (9, "drivetrain/CartPole-v1")
    assert venv.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    again = gymnasium.make_vec(venv.spec)
    assert (again.num_envs, again.metadata["autoreset_mode"]) == (9, AutoresetMode.SAME_STEP)


def test_a_choice_may_be_a_member_of_an_enumeration_of_texts():
    venv = sim.make_vec("CartPole-v1", 2, Choice.ENGINE, autoreset=Choice.RESTART)
    assert venv.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert venv.reset(seed=0)[0].shape == (2, 4)


def test_an_option_that_there_is_not_is_a_type_error_that_names_it_for_torchrl_which_takes_it_away():
    for make in (functools.partial(gymnasium.make, "drivetrain/CartPole-v1"), functools.partial(SimEnv, CartPole())):
        with pytest.raises(TypeError, match=r"unexpected keyword argument 'frameskip': .*option"):
            make(frameskip=1)


def test_the_way_to_restart_is_an_attribute_as_of_gymnasium_s_own_vectors():
    for mode in AutoresetMode:
        assert sim.make_vec("CartPole-v1", 2, autoreset=mode).autoreset_mode is mode


def test_options_of_an_environment_go_through():
    venv = gymnasium.make_vec("drivetrain/Knob", num_envs=2, engine="numpy", live_nbytes=12)
    venv.reset(seed=0)
    assert venv.state.env.live.shape == (2, 3)


@pytest.mark.parametrize("name", NAMES)
def test_a_single_environment_passes_the_checks_of_gymnasium(name):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        check_env(gymnasium.make(f"drivetrain/{name}", engine="numpy", render_mode="rgb_array").unwrapped)
    surprising = [str(each.message) for each in said if not any(part in str(each.message) for part in ADVICE)]
    assert not surprising


def test_ways_to_render_are_those_that_an_environment_has():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, modes in (("Knob", []), ("CartPole-v1", ["rgb_array"])):
            one = gymnasium.make(f"drivetrain/{name}", engine="numpy").unwrapped
            check_env(one)  # makes it anew for each way to render
            batch = gymnasium.make_vec(f"drivetrain/{name}", num_envs=2)
            assert one.metadata["render_modes"] == batch.metadata["render_modes"] == modes


def test_gymnasium_steps_single_environments_of_ours_in_its_own_vectors():
    venv = gymnasium.make_vec("drivetrain/CartPole-v1", num_envs=3, vectorization_mode="sync", engine="numpy")
    obs, _ = venv.reset(seed=0)
    for _ in range(60):
        obs, *_ = venv.step(venv.action_space.sample())
    assert obs.shape == (3, 4)
    venv.close()


def test_a_single_environment_is_one_of_a_batch_and_says_when_it_has_to_be_restarted():
    env, batch = SimEnv("CartPole-v1", "numpy"), SimVectorEnv("CartPole-v1", 1, "numpy", autoreset="disabled")
    obs, _ = env.reset(seed=3)
    np.testing.assert_array_equal(obs, batch.reset(seed=3)[0][0])
    terminated = False
    while not terminated:
        obs, reward, terminated, truncated, info = env.step(0)
        expected = batch.step(np.array([0]))
        np.testing.assert_array_equal(obs, expected[0][0])
        assert (type(reward), type(terminated), type(truncated), info) == (float, bool, bool, {})
    with pytest.raises(InvalidInput, match="step: the episode has ended; call `reset`"):
        env.step(0)
    env.reset()
    for action in (2, -1, 0.5, True, np.array([1]), None):
        with pytest.raises(InvalidInput, match="action: expected an integer from 0 to 1, got "):
            env.step(action)
    env.close()


def test_the_info_of_a_single_environment_is_what_it_says_under_whatever_name():
    class Telling(CartPole):
        def step(self, key, state, action, params):
            *results, _ = super().step(key, state, action, params)
            info = {"time": results[1].time, "_time": 2, "final_obs": state.x, "more": {"_last": (action, 1.5)}}
            return *results, info

    env = SimEnv(Telling(), "numpy")
    obs, _ = env.reset(seed=0)
    x = obs[0]
    _, _, _, _, info = env.step(1)
    assert info == {"time": 1, "_time": 2, "final_obs": x, "more": {"_last": (1, 1.5)}}


def test_a_single_environment_has_no_options_of_a_reset():
    env = SimEnv("CartPole-v1", "numpy")
    env.reset(seed=0)
    before = env.batch.state
    for mask in ([False], np.array([False]), np.array([True])):
        with pytest.raises(InvalidInput, match=r"options: expected none, since .* got 'reset_mask'; leave"):
            env.reset(options={"reset_mask": mask})
    assert env.batch.state is before
    np.testing.assert_array_equal(*(env.reset(seed=1, options=none)[0] for none in (None, {})))


@pytest.mark.parametrize(("name", "value"), [("autoreset", "same_step"), ("num_envs", 3)])
def test_a_single_environment_refuses_what_only_batches_have(name, value):
    with pytest.raises(
        InvalidInput, match=rf"^{name}: expected none, .* got {value!r}; give it to gymnasium\.make_vec"
    ):
        gymnasium.make("drivetrain/CartPole-v1", **{name: value})


@pytest.mark.parametrize("name", [3, None, b"CartPole-v1"])
def test_what_is_no_name_of_an_environment_is_told(name):
    with pytest.raises(InvalidInput, match="name: expected that of an environment, as 'CartPole-v1', got "):
        sim.make(name)


def test_a_forked_process_is_told_what_to_do_in_place_of_waiting_for_ever_for_threads_that_are_not_there():
    env = SimEnv("CartPole-v1", "numpy")
    rollout = sim.compile(sim.make("CartPole-v1"), 1, 1, "xla")
    state = rollout.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX and, from 3.12, Python warn of forks
        child = os.fork()
    if child == 0:
        told = 0
        step = functools.partial(rollout, state, np.zeros((1, 1), np.int32))
        made = (lambda: sim.make_vec("Pendulum-v1", 2), lambda: SimEnv("Acrobot-v1"))
        single.first_maker.cache_clear()  # as if none had been made before the fork
        for wait in (env.reset, rollout.reset, step, lambda: sim.check_env(rollout.env), *made):
            try:
                wait()
            except InvalidInput as error:
                told += 'context="spawn"' in str(error)
        os._exit(told)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 6


def test_a_fork_of_a_process_that_used_jax_for_other_things_is_told_so_too():
    script = """
import os, signal, warnings
import jax.numpy as jnp
from drivetrain import sim
from drivetrain.core.errors import InvalidInput

jnp.ones(3).block_until_ready()
warnings.simplefilter("ignore")
child = os.fork()
if child == 0:
    signal.alarm(20)  # it would wait for ever
    try:
        sim.make_vec("CartPole-v1", 2).reset(seed=0)
    except InvalidInput as error:
        os._exit('context="spawn"' in str(error))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout == "1\n", done.stderr


@pytest.mark.filterwarnings("ignore")  # JAX warns of forks, and Gymnasium of the error that it raises
def test_a_worker_of_gymnasium_passes_on_what_a_forked_process_is_told():
    context = {"context": "fork"}  # the default up to Python 3.13
    venv = gymnasium.make_vec("drivetrain/CartPole-v1", 1, vectorization_mode="async", vector_kwargs=context)
    with pytest.raises(InvalidInput, match=r'context="spawn" .*, or step all environments in the process that was'):
        venv.reset(seed=0)
    venv.close(terminate=True)


@pytest.mark.release
def test_an_id_may_name_the_package_that_registers_it():
    code = "import gymnasium; print(gymnasium.make_vec('drivetrain.sim:drivetrain/CartPole-v1', 2).num_envs)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "2\n"


def test_the_top_of_the_package_stays_light():
    code = "import sys, drivetrain; print([m for m in ('gymnasium', 'jax', 'numpy') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_an_action_may_be_a_list_as_gymnasiums_spaces_take_them():
    expected = SimEnv("Quadrotor", "numpy")
    expected.reset(seed=0)
    obs = expected.step(np.array([0.5, -0.25]))[0]
    for action in ([0.5, -0.25], (0.5, -0.25)):
        env = SimEnv("Quadrotor", "numpy")
        env.reset(seed=0)
        np.testing.assert_array_equal(env.step(action)[0], obs)
