"""What a setting takes: values of Python's and NumPy's that mean the same, kept as Python's own."""

import enum
import pickle
from fractions import Fraction

import numpy as np
import pytest

from drivetrain.train.config import TrainConfig
from drivetrain.train.ledger.rules import Rules
from drivetrain.train.runs.run import resolve

PLAIN = TrainConfig.default("dqn", "CartPole-v1")


@pytest.mark.parametrize("value", ["1/4", 0.25, Fraction(1, 4)])
def test_the_update_ratio_is_an_exact_fraction_however_it_is_written(value):
    assert PLAIN.override(update_ratio=value).updates.update_ratio == Fraction(1, 4)


@pytest.mark.parametrize(
    ("value", "meant"),
    [(0.1, "1/10"), (0.1234567891, "0.1234567891"), (np.float32(0.12345), "0.12345"), (1e-9, "1e-9"), (2.5, "5/2")],
)
def test_a_decimal_ratio_means_the_decimal_and_not_its_binary_neighbour(value, meant):
    assert PLAIN.override(update_ratio=value).updates.update_ratio == Fraction(meant)


@pytest.mark.parametrize(
    ("value", "meant"), [(1 / 3, "1/3"), (128 / 384, "1/3"), (7 / 6, "7/6"), (np.float32(1 / 3), "1/3")]
)
def test_a_ratio_that_python_has_divided_means_the_quotient_so_that_no_update_is_missing_at_the_end(value, meant):
    config = PLAIN.override(update_ratio=value, warmup_steps=1_000)
    assert config.updates.update_ratio == Fraction(meant)
    assert Rules.of(config).due(1_300) == Fraction(meant) * 300


class Names(enum.StrEnum):
    """Names as typed configurations have them; processes of a run do not know this class."""

    DQN, ENV, CPU, OUT = "dqn", "CartPole-v1", "cpu", "mission"
    PRECISION, DIR, OPTIMIZER = "bfloat16", "runs/x", "optax:sgd"


def test_texts_that_are_members_of_an_enumeration_are_plain_ones_so_that_processes_can_have_them():
    given = {"device": Names.CPU, "precision": Names.PRECISION, "leave_out": [Names.OUT], "run_dir": Names.DIR}
    config = resolve(Names.DQN, Names.ENV, None, given | {"optimizer": Names.OPTIMIZER})
    texts = [config.algo, config.env, config.agent.optimizer, *config.environment.leave_out]
    texts += [config.run.device, config.run.precision, config.run.run_dir]
    assert texts == ["dqn", "CartPole-v1", "optax:sgd", "mission", "cpu", "bfloat16", "runs/x"]
    assert {type(text) for text in texts} == {str}
    assert b"Names" not in pickle.dumps(config)


def test_numbers_of_other_types_and_paths_are_those_of_pythons_own_so_that_config_json_has_them(tmp_path):
    given = {"total_steps": np.int64(7_000), "seed": 3.0, "learning_rate": np.float32(0.5), "gamma": 1, "csv": np.True_}
    plain = {"total_steps": 7_000, "seed": 3, "learning_rate": 0.5, "gamma": 1.0, "csv": True}
    config = PLAIN.override(**given, hidden=np.array([8, 4]), run_dir=tmp_path)
    expected = PLAIN.override(**plain, hidden=(8, 4), run_dir=str(tmp_path))
    assert config == expected
    assert config.to_json() == expected.to_json()
