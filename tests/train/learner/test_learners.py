"""Several learners: the algorithm of one learner, the same bits twice, and what is refused."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("jax", reason="needs the train extra")

import jax
import numpy as np

from drivetrain.core.errors import InvalidInput
from drivetrain.core.threads import one_thread_environment
from drivetrain.train import resume, train
from drivetrain.train.config import TrainConfig
from drivetrain.train.interface import DiscreteActions, Interface, Vector
from drivetrain.train.learner.devices import prepare_devices, require_devices, require_platforms, reserve_devices
from drivetrain.train.learner.learner import make_learner
from drivetrain.train.native_calls import JOINED, call
from drivetrain.train.runs import requirements

pytestmark = pytest.mark.timeout(900)  # the process that compares compiles for two cores, and others may use them

CASES = {
    "dqn": ("dqn", {"dueling": True, "max_gradient_norm": 0.05}),
    "rainbow": ("dqn", {"dueling": True, "noisy": True, "num_atoms": 11}),
    "ddpg": ("ddpg", {}),
    "td3": ("td3", {}),
    "sac": ("sac", {}),
    "ppo": ("ppo", {"value_clip_range": 0.2, "learning_rate": 0.02, "target_kl": 0.01}),
}
DEFAULT = ("dqn", "rainbow", "sac", "ppo")  # every kind of loss, of actions and of loop; DDPG and TD3 are SAC with less


@functools.cache
def compared(is_default):
    """What one process finds for these cases, or for the others."""
    cases = {name: case for name, case in CASES.items() if (name in DEFAULT) == is_default}
    script = Path(__file__).with_name("learning_process.py")
    environment = {**os.environ, **one_thread_environment(os.environ, num_devices=2)}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, str(script), json.dumps(cases)], env=environment, capture_output=True, text=True, timeout=800
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(params=[pytest.param(name, marks=() if name in DEFAULT else pytest.mark.slow) for name in CASES])
def found(request):
    """One learner beside two, by one algorithm."""
    return compared(request.param in DEFAULT)[request.param]


@pytest.mark.release
def test_two_learners_compute_what_one_computes_up_to_rounding(found):
    assert found["num_updates"] >= 20
    assert found["moved"] > 0.01, "nothing was learned, so nothing was compared"
    assert max(found["state"], found["td_errors"], found["metrics"]) < 1e-9, found


@pytest.mark.release
def test_in_float32_gradients_travel_through_a_call_of_ours_and_are_still_those_of_the_right_weights(found):
    assert found["in_float32"] < 1e-3, found


def test_arrays_of_any_shape_are_joined_in_order():
    arrays = [
        np.float32(7),
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.zeros((0, 4), np.float32),
        -np.ones(1, "f"),
    ]
    joined = jax.jit(lambda *arrays: call(JOINED, (8,), lambda *_: np.zeros(8, "f"), *arrays))
    assert joined(*arrays).tolist() == [7, 0, 1, 2, 3, 4, 5, -1]
    with pytest.raises(jax.errors.JaxRuntimeError, match="joined: expected float32 arrays, and a float32 vector"):
        joined(*arrays[1:])
    with pytest.raises(jax.errors.JaxRuntimeError, match="joined: expected float32 arrays"):
        joined(np.int32(7), *arrays[1:])


@pytest.mark.release
def test_both_counts_of_learners_stop_where_target_kl_says():
    assert 0 < compared("ppo" in DEFAULT)["ppo"]["num_epochs"] < 2


@pytest.mark.release
def test_two_learners_give_the_same_bits_twice(found):
    assert found["same_bits"]


@pytest.mark.release
def test_later_calls_of_two_learners_compile_nothing(found):
    assert found["late_compilations"] == 0


def sac(**settings):
    return TrainConfig.default("sac", "E").override(batch_size=256, warmup_steps=5_000, num_actors=1, **settings)


def test_learners_without_enough_work_are_refused():
    with pytest.raises(InvalidInput, match=r"num_learners: expected 1, got 2; batches of 256 rows .* 1,000 parameters"):
        require_devices(sac(num_learners=2), 1_000, cores=8)
    require_devices(sac(num_learners=2), 70_000, cores=8)


def test_more_learners_and_actors_than_cores_are_refused_unless_asked_for():
    with pytest.raises(InvalidInput, match=r"2 learners and 1 actors are more than the 2 cores .* oversubscribe"):
        require_devices(sac(num_learners=2), 70_000, cores=2)
    require_devices(sac(num_learners=2, oversubscribe=True), 70_000, cores=2)
    require_devices(sac(num_learners=1).override(num_actors=5), 70_000, cores=2)


def ppo(**settings):
    sizes = {"batch_size": 512, "rollout_length": 128, "num_envs": 8, "num_actors": 2}
    return TrainConfig.default("ppo", "E").override(**sizes | settings)


def test_on_policy_learners_may_have_the_cores_of_the_actors_which_wait_meanwhile():
    require_devices(ppo(num_learners=2), 5_000, cores=2)
    with pytest.raises(InvalidInput, match=r"4 learners are more than the 2 cores here"):
        require_devices(ppo(num_learners=4), 5_000, cores=2)
    with pytest.raises(InvalidInput, match=r"expected 1, got 2; batches of 64 rows for a network of 5,000 parameters"):
        require_devices(ppo(num_learners=2, batch_size=64), 5_000, cores=2)


@pytest.mark.parametrize("config", [sac, ppo])
def test_a_batch_that_learners_cannot_share_equally_is_refused(config):
    with pytest.raises(InvalidInput, match=r"num_learners: expected a divisor of batch_size \(\d+\), got 3"):
        config(num_learners=3)


@pytest.mark.release
def test_a_gpu_that_is_not_there_is_refused_before_anything_starts(tmp_path):
    if jax.default_backend() == "gpu":
        pytest.skip("there is a GPU here")
    with pytest.raises(InvalidInput, match=r"device: expected a GPU, and JAX sees none here; install JAX for it"):
        train("dqn", "CartPole-v1", device="gpu", run_dir=str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@pytest.mark.release
def test_what_others_print_where_jax_is_asked_for_gpus_is_no_answer(tmp_path, monkeypatch):
    if jax.default_backend() == "gpu":
        pytest.skip("there is a GPU here")
    (tmp_path / "sitecustomize.py").write_text("print('a plugin is here')")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InvalidInput, match="device: expected a GPU, and JAX sees none here"):
        require_devices(TrainConfig.default("dqn", "CartPole-v1").override(device="gpu"), 100, 2)


@pytest.mark.parametrize(
    ("env", "num_actors", "asked", "expected"),
    [
        ("drivetrain/CartPole-v1", 2, None, "cpu"),
        ("drivetrain/CartPole-v1", 2, "cuda", None),  # for all processes
        ("drivetrain/CartPole-v1", 0, None, None),  # it learns itself
        ("CartPole-v1", 2, None, None),  # has no use for JAX
    ],
)
def test_simulators_are_looked_at_on_the_cpu_where_another_process_learns(
    env, num_actors, asked, expected, monkeypatch
):
    def look_at(_):
        raise InvalidInput(f"on {settings.jax_default_device}")

    settings = jax.config
    monkeypatch.setattr(jax, "config", SimpleNamespace(values={"jax_platforms": asked}))
    monkeypatch.setattr(requirements, "look_at", look_at)
    with pytest.raises(InvalidInput, match=f"on {expected}"):
        requirements.describe(TrainConfig.default("dqn", env).override(num_actors=num_actors))
    assert settings.jax_default_device is None


@pytest.mark.release
@pytest.mark.parametrize("env", ["CartPole-v1", "drivetrain/CartPole-v1"])
def test_platforms_that_jax_does_not_find_are_refused_before_anything_starts(tmp_path, monkeypatch, env):
    monkeypatch.setenv("JAX_PLATFORMS", "abacus")
    with pytest.raises(InvalidInput, match=r"JAX_PLATFORMS: expected devices that JAX finds here, got 'abacus'; unset"):
        train("dqn", env, run_dir=str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()
    require_platforms(sac(device="cpu"))  # which does without
    for found in ("cpu", ""):
        monkeypatch.setenv("JAX_PLATFORMS", found)
        require_platforms(sac())


@pytest.mark.parametrize("algo", ["dqn", "ppo"])
@pytest.mark.parametrize(
    ("backend", "settings", "expected"),
    [
        ("gpu", {"num_actors": 0}, True),
        ("gpu", {"num_actors": 2, "deterministic": True, "num_learners": 1}, True),
        ("gpu", {"num_actors": 2}, False),
        ("cpu", {"num_actors": 0}, False),
    ],
)
def test_a_gpu_is_told_where_a_run_is_to_end_with_the_same_bits(algo, backend, settings, expected, monkeypatch):
    told = []
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    monkeypatch.setattr(jax, "jit", lambda function, **how: told.append(how) or function)
    interface = Interface(observations=Vector(shape=(3,)), actions=DiscreteActions(count=2, start=0))
    make_learner(TrainConfig.default(algo, "made up").override(**settings), interface)
    (options,) = [how["compiler_options"] for how in told if "compiler_options" in how]
    assert ("xla_gpu_deterministic_ops" in options) == expected


def test_a_sequential_run_on_the_cpu_says_so_to_jax_before_its_environment_may_use_it(monkeypatch):
    before, config = jax.config.jax_platforms, sac(device="cpu").override(num_actors=0)
    jax.config.update("jax_platforms", "cuda,cpu")
    try:
        reserve_devices(config)
        assert jax.config.jax_platforms == "cpu"
    finally:
        jax.config.update("jax_platforms", before)
    monkeypatch.setattr(jax, "devices", lambda: [SimpleNamespace(platform="gpu")])
    with pytest.raises(InvalidInput, match=r"device: expected to learn on the CPU, and JAX was first used .* for gpu;"):
        reserve_devices(config)


def test_learners_cannot_be_added_to_a_process_that_has_used_jax():
    jax.numpy.zeros(1).block_until_ready()
    with pytest.raises(InvalidInput, match="have to be set up before JAX is first used"):
        prepare_devices(sac(num_learners=2))


def test_a_sequential_run_whose_learners_cannot_be_added_is_refused_before_anything_starts(tmp_path):
    jax.numpy.zeros(1).block_until_ready()
    made = []
    with pytest.raises(InvalidInput, match="have to be set up before JAX is first used"):
        train("sac", lambda: made.append(1), num_actors=0, num_learners=2, run_dir=str(tmp_path / "run"))
    assert not made
    assert not (tmp_path / "run").exists()


SEQUENTIAL = """
import jax
from drivetrain.train.config import TrainConfig
from drivetrain.train.learner.devices import prepare_devices, reserve_devices
from drivetrain.train.runs.requirements import describe, require_learner

torso = (lambda key, obs: jax.random.normal(key, (obs.shape[1], 300)), lambda weight, obs: obs @ weight)
config = TrainConfig.default("sac", "Pendulum-v1").override(
    num_actors=0, num_learners=2, oversubscribe=True, batch_size=256, warmup_steps=5_000, torso=torso
)
reserve_devices(config)
require_learner(config, describe(config))
prepare_devices(config)
print(jax.device_count())
"""


@pytest.mark.release
def test_a_torso_of_ones_own_leaves_a_sequential_run_its_learners():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", SEQUENTIAL], env=environment, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr


@pytest.mark.whole
def test_a_run_with_two_learners_keeps_the_ratio_and_publishes_what_they_learned(tmp_path):
    result = train(
        "dqn",
        "CartPole-v1",
        num_learners=2,
        num_actors=1,
        oversubscribe=True,
        hidden=(256, 256),
        total_steps=400,
        warmup_steps=200,
        updates_per_call=8,
        eval_episodes=1,
        final_eval_episodes=1,
        normalize_observations=True,
        run_dir=str(tmp_path / "run"),
    )
    assert (result.num_steps, result.num_updates) == (400, 100)
    assert (result.run_dir / "best").exists()


@pytest.mark.release
def test_a_run_of_ppo_with_two_learners_does_all_its_updates(tmp_path):
    result = train(
        "ppo",
        "CartPole-v1",
        num_learners=2,
        num_actors=1,
        num_envs=8,
        rollout_length=128,
        batch_size=512,
        num_epochs=2,
        oversubscribe=True,
        total_steps=2_048,
        eval_episodes=1,
        final_eval_episodes=1,
        run_dir=str(tmp_path / "run"),
    )
    assert (result.num_steps, result.num_updates) == (2_048, 8)
    again = resume(result.run_dir, total_steps=3_072)
    assert (again.num_steps, again.num_updates) == (3_072, 12)
