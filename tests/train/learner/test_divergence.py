"""Learning that has diverged ends the run, and does not blame the environment."""

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")

from drivetrain.core.errors import RunError
from drivetrain.train import train
from drivetrain.train.config import TrainConfig
from drivetrain.train.learner.learner import Learner
from drivetrain.train.runs.requirements import describe

SMALL = {"num_actors": 0, "hidden": (8,), "batch_size": 16, "learning_rate": 1e30, "time_report": False}


@pytest.mark.parametrize(
    ("algo", "env", "settings", "sentence"),
    [
        ("dqn", "CartPole-v1", {"warmup_steps": 64, "update_ratio": 1}, "TD errors"),
        (
            "dqn",
            "CartPole-v1",
            {"warmup_steps": 64, "update_ratio": 1, "prioritized": False},
            "(TD errors|the policy's weights)",
        ),
        ("ppo", "Pendulum-v1", {"num_envs": 2, "rollout_length": 32}, "the policy's weights"),
    ],
)
def test_a_policy_that_is_no_numbers_any_more_ends_the_run_before_it_acts(tmp_path, algo, env, settings, sentence):
    expected = rf"learning has diverged: after [1-9]\d* updates, {sentence} are no longer .*; lower learning_rate"
    with pytest.raises(RunError, match=expected):
        train(algo, env, run_dir=str(tmp_path / "run"), **settings, **SMALL)


def test_critics_that_are_no_numbers_any_more_end_the_run_also_while_the_policy_is_not_updated(tmp_path):
    settings = {"warmup_steps": 64, "policy_delay": 1_000, "updates_per_call": 1, "tolerance": 0, "total_steps": 400}
    with pytest.raises(RunError, match=r"learning has diverged: after .* updates, TD errors are no longer"):
        train("td3", "Pendulum-v1", run_dir=str(tmp_path / "run"), **settings, **SMALL)


def test_a_state_that_is_no_numbers_any_more_is_not_saved():
    config = TrainConfig.default("td3", "Pendulum-v1").override(num_actors=1, hidden=(8,))
    learned = Learner(config, describe(config)).learned
    assert learned.arrays()
    broken = {name: piece * np.nan for name, piece in learned.state.critics.items()}
    learned.state = learned.state._replace(critics=broken)
    with pytest.raises(RunError, match=r"state/critics/.* are no longer all finite numbers"):
        learned.arrays()
