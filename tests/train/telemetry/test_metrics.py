"""Rows of metrics: when they are due, and what they span."""

import time

from drivetrain.train.config import TrainConfig
from drivetrain.train.ledger.ledger import Counts
from drivetrain.train.ledger.rules import START, Rules
from drivetrain.train.telemetry.metrics import Meter
from drivetrain.train.telemetry.unreported import Unreported


def meter_of(algo, interval_steps, **settings):
    config = TrainConfig.default(algo, "E").override(**settings)
    return Meter(Rules.of(config), interval_steps, START, Unreported())


def test_a_row_is_due_at_each_multiple_of_the_interval():
    meter = meter_of("dqn", 100, total_steps=1_000)
    assert not meter.row_is_due(Counts(99, 99, 0))
    assert meter.row_is_due(Counts(100, 100, 0))
    meter.row(Counts(130, 130, 0))
    assert not meter.row_is_due(Counts(199, 199, 0))
    assert meter.row_is_due(Counts(200, 200, 0))


def test_on_policy_a_row_spans_whole_rollouts_as_an_actors_part_of_one_says_nothing_of_the_speed():
    """Two actors commit their halves, of 8 x 64 steps each, one after the other, with no update between them."""
    meter = meter_of("ppo", 100, num_actors=2, num_envs=16, rollout_length=64, total_steps=10_240)
    due = []
    for committed in range(512, 5_120 + 1, 512):
        if meter.row_is_due(Counts(committed, committed, 0)):
            due.append(committed)
            meter.row(Counts(committed, committed, 0))
    assert due == [1_024, 2_048, 3_072, 4_096, 5_120]


def test_an_interval_that_no_float_holds_is_as_good_as_none():
    assert not meter_of("dqn", 10**400, total_steps=1_000).row_is_due(Counts(1_000, 1_000, 0))


def test_a_row_may_be_of_a_moment_before_it_is_written():
    config = TrainConfig.default("ppo", "CartPole-v1").override(
        total_steps=10_000, num_envs=4, rollout_length=8, batch_size=32
    )
    meter = Meter(Rules.of(config), 32, START, Unreported())
    meter.set_learning({"loss": 0.5})
    now_s = time.monotonic()
    first = meter.row(Counts(32, 32, 10), now_s + 1)
    second = meter.row(Counts(96, 96, 30), now_s + 3)
    assert first["loss"] == 0.5
    assert (second["steps_per_s"], second["updates_per_s"]) == (32, 10)
