"""Learning that has diverged ends the run, and does not blame the environment."""

import pytest

pytest.importorskip("jax", reason="needs the train extra")

from drivetrain.core.errors import RunError
from drivetrain.train import train

SMALL = {"num_actors": 0, "hidden": (8,), "batch_size": 16, "learning_rate": 1e30, "time_report": False}


@pytest.mark.parametrize(
    ("algo", "env", "settings", "sentence"),
    [
        ("dqn", "CartPole-v1", {"warmup_steps": 64, "update_ratio": 1}, "TD errors"),
        ("dqn", "CartPole-v1", {"warmup_steps": 64, "update_ratio": 1, "prioritized": False}, "the policy's weights"),
        ("ppo", "Pendulum-v1", {"num_envs": 2, "rollout_length": 32}, "the policy's weights"),
    ],
)
def test_a_policy_that_is_no_numbers_any_more_ends_the_run_before_it_acts(tmp_path, algo, env, settings, sentence):
    expected = rf"learning has diverged: after [1-9]\d* updates, {sentence} are no longer .*; lower learning_rate"
    with pytest.raises(RunError, match=expected):
        train(algo, env, run_dir=str(tmp_path / "run"), **settings, **SMALL)
