"""Learning that has diverged ends the run, and does not blame the environment."""

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")

import jax

from drivetrain.core.errors import RunError
from drivetrain.train import train
from drivetrain.train.config import TrainConfig
from drivetrain.train.experience.rollout import RolloutBuffer
from drivetrain.train.learner.learner import Learner, make_learner
from drivetrain.train.runs.requirements import describe

SMALL = {"num_actors": 0, "hidden": (8,), "batch_size": 16, "learning_rate": 1e30, "time_report": False}


@pytest.mark.whole
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


@pytest.mark.whole
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


@pytest.mark.whole
@pytest.mark.parametrize(("algo", "env"), [("dqn", "CartPole-v1"), ("td3", "Pendulum-v1"), ("ppo", "CartPole-v1")])
def test_a_run_computes_no_nan_of_its_own_that_jax_was_told_to_end_at(tmp_path, algo, env):
    few = {"total_steps": 96, "warmup_steps": 48} if algo != "ppo" else {"total_steps": 64, "rollout_length": 8}
    settings = {**SMALL, **few, "learning_rate": 1e-3, "eval_max_steps": 5}
    with jax.debug_nans(True):
        assert train(algo, env, run_dir=str(tmp_path / "run"), **settings).num_updates > 0


@pytest.mark.release
def test_how_much_values_foretell_is_no_number_where_returns_do_not_differ():
    config = TrainConfig.default("ppo", "CartPole-v1").override(num_actors=1, hidden=(8,))
    learner = make_learner(config, describe(config))
    rollouts = RolloutBuffer.create(config, describe(config), shared=False)  # all zeros
    learner.learn(rollouts, config.updates_per_rollout, 0.0)
    told = learner.metrics
    assert np.isnan(told["explained_variance"])
    assert np.isfinite(told["policy_loss"])
