"""Several learners: the algorithm of one learner, the same bits twice, and what is refused."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax", reason="needs the train extra")

import jax

from drivetrain.core.errors import InvalidInput
from drivetrain.core.threads import one_thread_environment
from drivetrain.train import train
from drivetrain.train.config import TrainConfig
from drivetrain.train.devices import prepare_devices, require_devices

CASES = {
    "dqn": ("dqn", {"dueling": True, "max_gradient_norm": 0.05}),
    "rainbow": ("dqn", {"dueling": True, "noisy": True, "num_atoms": 11}),
    "ddpg": ("ddpg", {}),
    "td3": ("td3", {}),
    "sac": ("sac", {}),
}


@pytest.fixture(scope="module")
def compared():
    script = Path(__file__).with_name("learning_process.py")
    environment = {**os.environ, **one_thread_environment(os.environ, num_devices=2)}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, str(script), json.dumps(CASES)], env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", CASES)
def test_two_learners_compute_what_one_computes_up_to_rounding(compared, name):
    found = compared[name]
    assert found["num_updates"] >= 20
    assert found["moved"] > 0.01, "nothing was learned, so nothing was compared"
    assert max(found["state"], found["td_errors"], found["metrics"]) < 1e-9, found


@pytest.mark.parametrize("name", CASES)
def test_two_learners_give_the_same_bits_twice(compared, name):
    assert compared[name]["same_bits"]


@pytest.mark.parametrize("name", CASES)
def test_later_calls_of_two_learners_compile_nothing(compared, name):
    assert compared[name]["late_compilations"] == 0


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


def test_a_batch_that_learners_cannot_share_equally_is_refused():
    with pytest.raises(InvalidInput, match=r"num_learners: expected a divisor of batch_size \(256\), got 3"):
        sac(num_learners=3)


def test_a_gpu_that_is_not_there_is_refused_before_anything_starts(tmp_path):
    if jax.default_backend() == "gpu":
        pytest.skip("there is a GPU here")
    with pytest.raises(InvalidInput, match=r"device: expected a GPU, and JAX sees none here; install JAX for it"):
        train("dqn", "CartPole-v1", device="gpu", run_dir=str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_learners_cannot_be_added_to_a_process_that_has_used_jax():
    jax.numpy.zeros(1).block_until_ready()
    with pytest.raises(InvalidInput, match="have to be set up before JAX is first used"):
        prepare_devices(sac(num_learners=2))


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
