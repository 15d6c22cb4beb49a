"""Atari's games: their preprocessing, whom it is for, and the settings that are its own."""

import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("optax", reason="needs the train extra")

from drivetrain.core.errors import InvalidInput
from drivetrain.train.config import TrainConfig
from drivetrain.train.config.atari import is_atari
from drivetrain.train.config.presets import preset
from drivetrain.train.environments.environment import Environment
from drivetrain.train.environments.making import make
from drivetrain.train.interface import Image
from drivetrain.train.runs.requirements import describe


def test_atari_is_preprocessed_and_lives_count_in_training_only():
    pytest.importorskip("ale_py", reason="needs the atari extra")
    pytest.importorskip("cv2", reason="needs the atari extra")
    config = TrainConfig.default("dqn", "ALE/Breakout-v5").override(
        atari=True, frame_stack=4, terminal_on_life_loss=True
    )
    interface = describe(config)
    assert interface.observations == Image(shape=(4, 84, 84), axes="KHW")
    lengths = [length_of_an_episode(Environment(config, interface, training=training)) for training in (True, False)]
    assert lengths[0] < lengths[1]


def length_of_an_episode(env):
    env.reset(1)
    rng = np.random.default_rng(0)
    for length in range(10_000):
        _, _, terminated, truncated = env.step(rng.integers(4))
        if terminated or truncated:
            return length
    raise AssertionError("the episode has no end")


def test_atari_preprocessing_of_something_else_is_refused_in_one_sentence():
    pytest.importorskip("cv2", reason="needs the atari extra")
    with pytest.raises(InvalidInput, match=r"'CartPole-v1' cannot be made: .*; atari is for games named ALE/NAME or "):
        describe(TrainConfig.default("dqn", "CartPole-v1").override(atari=True))


def test_atari_preprocesses_pictures_alone():
    pytest.importorskip("ale_py", reason="needs the atari extra")
    pytest.importorskip("cv2", reason="needs the atari extra")
    ram = preset("dqn", "ALE/Breakout-v5").override(env_kwargs={"obs_type": "ram"})
    with pytest.raises(InvalidInput, match=r"atari: expected pictures, which it preprocesses, got Box.*; leave one"):
        describe(ram)
    assert describe(ram.override(atari=False, frame_stack=1)).observations.shape == (128,)


@pytest.mark.parametrize("env", ["BreakoutNoFrameskip-v4", "Breakout-v4", "Breakout-v0"])
def test_games_of_their_old_names_are_those_of_the_new_ones_before_anybody_has_registered_them(env):
    pytest.importorskip("ale_py", reason="needs the atari extra")
    pytest.importorskip("cv2", reason="needs the atari extra")
    config = preset("dqn", env)
    assert config.environment == preset("dqn", "ALE/Breakout-v5").environment
    found = subprocess.run([sys.executable, "-c", _OLD_NAME, env], capture_output=True, text=True, check=False)
    assert found.stdout == "(4, 84, 84) 1\n", found.stderr


_OLD_NAME = """
import sys
from drivetrain.train.config.presets import preset
from drivetrain.train.environments.making import make
from drivetrain.train.runs.requirements import describe
config = preset("dqn", sys.argv[1])
env = make(config.env, config.environment)
print(describe(config).observations.shape, env.unwrapped._frameskip)
"""


def test_a_name_is_of_atari_where_there_is_such_a_game():
    pytest.importorskip("ale_py", reason="needs the atari extra")
    games = ("ALE/Pong-v5", "PongNoFrameskip-v4", "PongNoFrameskip-v0", "AirRaid-v4", "UpNDown-v0", "Nobody/Ours-v5")
    assert [is_atari(name) for name in games] == [True, True, True, True, True, False]
    for other in ("CartPole-v0", "Hopper-v4", "Pong-v5", "Pong", "my:Pong-v4", "drivetrain/Pong", "pong-v4", "../-v4"):
        assert not is_atari(other), other


def test_without_atari_an_old_name_of_its_own_kind_is_known_and_its_extra_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ale_py", None)
    config = preset("dqn", "PongNoFrameskip-v4")
    assert config.environment.atari
    with pytest.raises(InvalidInput, match=r"PongNoFrameskip-v4.*drivetrain\[atari\]"):
        make(config.env, config.environment)


def test_settings_of_atari_are_refused_without_it_and_leave_with_it():
    config = TrainConfig.default("dqn", "CartPole-v1")
    for name, value, usual in (("frame_skip", 9, 4), ("noop_max", 3, 30), ("terminal_on_life_loss", True, False)):
        with pytest.raises(InvalidInput, match=f"{name}: expected {usual} without atari, got {value}"):
            config.override(**{name: value})
        with pytest.raises(InvalidInput, match=f"{name}: expected {usual} without atari, got {value}"):
            config.override(atari=False, **{name: value})
    assert not preset("dqn", "ALE/Pong-v5").override(atari=False).environment.terminal_on_life_loss
