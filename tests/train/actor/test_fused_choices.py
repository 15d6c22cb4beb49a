"""PPO in a kernel on simulators of several discrete choices at once."""

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")

from drivetrain.core.errors import InvalidInput
from drivetrain.train import load_policy, train
from drivetrain.train.actor.fused.actor import FusedActor
from drivetrain.train.actor.fused.evaluation import FusedEvaluator
from drivetrain.train.config import TrainConfig
from drivetrain.train.evaluate import Evaluator
from drivetrain.train.interface import Categories, MultiDiscreteActions
from drivetrain.train.policies.policy import first_published, make_policy
from drivetrain.train.runs.requirements import describe

DIALS = "drivetrain/own_simulators:Dials"
SETTINGS = {"num_envs": 4, "rollout_length": 32, "batch_size": 32, "num_actors": 0, "hidden": (16,)}


class Notes:
    """A writer that keeps what it is given."""

    def __init__(self, count):
        self.steps = []

    def add(self, **step):
        self.steps.append({name: np.array(array) for name, array in step.items()})

    def all(self, name):
        return np.stack([step[name] for step in self.steps])


def taken(config, interface, vector):
    """Actions, observations and rewards of one call of an actor."""
    notes = []
    actor = FusedActor(config, interface, vector, lambda count: notes.append(Notes(count)) or notes[-1], (0, 0))
    actor.step(actor.steps_per_call, 0)
    return [notes[0].all(name) for name in ("action", "obs", "reward")]


@pytest.mark.whole
def test_the_trainer_sees_choices_and_stores_those_that_the_simulator_was_given():
    config = TrainConfig.default("ppo", DIALS).override(**SETTINGS)
    interface = describe(config)
    assert interface.observations == Categories(counts=(2, 4), starts=(0, 0))
    assert isinstance(interface.actions, MultiDiscreteActions)
    vector = first_published(config, interface, np.random.default_rng(0))
    action, obs, reward = taken(config, interface, vector)
    assert action.shape == (32, 4, 2)
    assert [len(np.unique(action[..., index])) for index in range(2)] == [2, 4]
    np.testing.assert_array_equal(reward, (action == obs).sum(-1))
    of_xla = taken(config.override(sim_engine="xla"), interface, vector)
    np.testing.assert_array_equal(action, of_xla[0])
    np.testing.assert_array_equal(obs, of_xla[1])
    policy, seeds = make_policy(config, interface, vector), list(range(4))
    evaluators = FusedEvaluator(config, interface, 4), Evaluator(config, interface, 1)
    played = [evaluator.play(policy, seeds) for evaluator in evaluators]
    assert played[0] == played[1]


@pytest.mark.whole
def test_ppo_learns_every_choice_in_the_kernel(tmp_path):
    settings = {**SETTINGS, "learning_rate": 0.01, "total_steps": 16_384, "eval_episodes": 2, "final_eval_episodes": 8}
    result = train("ppo", DIALS, run_dir=str(tmp_path / "run"), **settings)
    assert result.mean_return > 15.0  # of 16; at random 6
    action = load_policy(tmp_path / "run")(np.array([1, 3]))
    np.testing.assert_array_equal(action, [1, 3])


def test_dqn_says_that_such_actions_are_none_of_its():
    with pytest.raises(InvalidInput, match=r"DQN needs discrete actions, and these are multi-discrete .*; use ppo"):
        train("dqn", DIALS)
