"""What is foretold for a number of actors and learners, beside what was measured."""

import pytest

pytest.importorskip("jax", reason="needs the train extra")

from drivetrain.train.config import TrainConfig
from drivetrain.train.sizing.choose import choose
from drivetrain.train.sizing.model import Measurements, Updating, estimate

# Of bench sizing, seed 0: steps that sleep 0.17 ms, 2 x 256 units, batches of 256, two cores.
MEASURED = Measurements(
    step_s=246e-6, step_cpu_s=25e-6, act_s={8: 16.3e-6}, updates={1: Updating(wall_s=493e-6, cpu_s=493e-6)}, cores=2
)


def setting(num_actors):
    pace = {"update_ratio": "1/4", "updates_per_call": 32, "tolerance": 64}
    form = {"num_actors": num_actors, "envs_per_actor": 8, "num_learners": 1, "oversubscribe": True}
    return TrainConfig.default("dqn", "E").override(**pace, **form)


def test_actors_that_are_just_as_fast_as_the_learner_are_not_enough_for_it():
    two, four = (estimate(setting(num_actors), MEASURED).steps_per_s for num_actors in (2, 4))
    assert two == pytest.approx(7_584, rel=0.05), "found; 8,077 by the slower of both"
    assert four == pytest.approx(8_525, rel=0.06)
    assert choose(map(setting, (1, 2, 4)), MEASURED).config.num_actors == 4
