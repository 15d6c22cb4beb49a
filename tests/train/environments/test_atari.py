"""Atari's games: their preprocessing, whom it is for, and the settings that are its own."""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest

pytest.importorskip("optax", reason="needs the train extra")

from gymnasium.wrappers import AtariPreprocessing, TimeLimit

from drivetrain.core.errors import InvalidInput
from drivetrain.train.config import TrainConfig
from drivetrain.train.config.ids import is_atari
from drivetrain.train.config.presets import preset, preset_for
from drivetrain.train.environments.environment import Environment
from drivetrain.train.environments.making import make
from drivetrain.train.interface import Image
from drivetrain.train.runs.requirements import describe


@pytest.mark.whole
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


@pytest.mark.parametrize("env_id", ["Pong-v5", "PongDeterministic-v4"])
def test_a_game_by_another_name_is_told_the_one_that_it_has(env_id):
    gymnasium.register_envs(pytest.importorskip("ale_py", reason="needs the atari extra"))
    if env_id in gymnasium.registry:
        pytest.skip("ale-py has a game of this name, as 0.11 does")
    with pytest.raises(InvalidInput, match=r"cannot be made: .*; take ALE/Pong-v5, or one that `drivetrain envs` li"):
        describe(TrainConfig.default("dqn", env_id))


@pytest.mark.parametrize(("frame_skip", "frames_per_s"), [(4, 15), (1, 60)])
def test_a_preprocessed_game_is_shown_at_the_pace_at_which_it_is_played(frame_skip, frames_per_s):
    pytest.importorskip("ale_py", reason="needs the atari extra")
    pytest.importorskip("cv2", reason="needs the atari extra")
    config = TrainConfig.default("dqn", "ALE/Pong-v5").override(atari=True, frame_skip=frame_skip)
    assert Environment(config, describe(config), training=False).frames_per_s == frames_per_s


def test_atari_preprocessing_of_something_else_is_refused_in_one_sentence():
    pytest.importorskip("cv2", reason="needs the atari extra")
    with pytest.raises(InvalidInput, match=r"'CartPole-v1' cannot be made: .*; atari is for games named ALE/NAME or "):
        describe(TrainConfig.default("dqn", "CartPole-v1").override(atari=True))


@pytest.mark.parametrize("settings", [{}, {"frame_skip": 1, "noop_max": 0}])
def test_pictures_of_something_else_are_not_taken_for_those_of_a_game(settings):
    pytest.importorskip("cv2", reason="needs the atari extra")
    config = TrainConfig.default("dqn", "strange_envs:Gray").override(atari=True, **settings)
    with pytest.raises(
        InvalidInput,
        match=r"^environment 'strange_envs:Gray': atari: expected a game of ale_py's, got Gray; leave it out$",
    ):
        describe(config)


@pytest.mark.whole
def test_a_game_whose_actions_are_real_numbers_idles_nowhere():
    pytest.importorskip("ale_py", reason="needs the atari extra")
    pytest.importorskip("cv2", reason="needs the atari extra")
    sac = TrainConfig.default("sac", "ALE/Breakout-v5").override(atari=True, env_kwargs={"continuous": True})
    with pytest.raises(InvalidInput, match=r"noop_max: expected discrete actions, .* got Box.*; set noop_max to 0, "):
        describe(sac)
    sac = sac.override(noop_max=0)
    with pytest.raises(InvalidInput, match=r"terminal_on_life_loss: expected discrete actions, "):
        describe(sac.override(terminal_on_life_loss=True))
    env = Environment(sac, describe(sac), training=True)
    assert env.reset(0).shape == env.step(np.zeros(3, np.float32))[0].shape == (84, 84)


def test_atari_preprocesses_pictures_alone():
    pytest.importorskip("ale_py", reason="needs the atari extra")
    pytest.importorskip("cv2", reason="needs the atari extra")
    ram = preset("dqn", "ALE/Breakout-v5").override(env_kwargs={"obs_type": "ram"})
    with pytest.raises(InvalidInput, match=r"atari: expected pictures, which it preprocesses, got Box.*; leave one"):
        describe(ram)
    assert describe(ram.override(atari=False, frame_stack=1)).observations.shape == (128,)


def test_atari_preprocesses_what_is_not_preprocessed_yet():
    ale_py = pytest.importorskip("ale_py", reason="needs the atari extra")
    pytest.importorskip("cv2", reason="needs the atari extra")

    def game():
        return ale_py.AtariEnv("breakout", frameskip=1)

    twice = TrainConfig.default("dqn", lambda: AtariPreprocessing(game())).override(atari=True)  # 16 frames a step
    with pytest.raises(InvalidInput, match=r"got Box\(0, 255, \(84, 84\), uint8\), which a wrapper has made of them: "):
        describe(twice)
    once = [twice.override(atari=False), TrainConfig.default("dqn", lambda: TimeLimit(game(), 9)).override(atari=True)]
    assert [describe(config).observations for config in once] == [Image(shape=(84, 84), axes="HW")] * 2


@pytest.mark.whole
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
    for home in ("ale_py", "gymnasium"):
        assert [is_atari(f"{home}:{name}") for name in games] == [True, True, True, True, True, False]
    for other in ("CartPole-v0", "Hopper-v4", "Pong-v5", "Pong", "my:Pong-v4", "drivetrain/Pong", "pong-v4", "../-v4"):
        assert not is_atari(other), other


@pytest.mark.parametrize(
    ("algo", "env", "home"),
    [("dqn", "ALE/Pong-v5", "ale_py"), ("ppo", "ALE/Breakout-v5", "ale_py"), ("dqn", "LunarLander", "gymnasium")],
)
def test_an_id_with_the_module_that_registers_it_has_the_settings_of_the_id(algo, env, home):
    assert preset_for(algo, f"{home}:{env}") == preset_for(algo, env)
    assert preset_for(algo, env).settings
    assert not preset_for(algo, f"mine:{env}").settings


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
    for value in (False, np.False_):
        assert not preset("dqn", "ALE/Pong-v5").override(atari=value).environment.terminal_on_life_loss


def lives_of_episodes(env, num_episodes, seed_of=lambda episode: None):
    """Lives of each episode at its start and at its end, of random actions."""
    ale, rng, seen = env._env.unwrapped.ale, np.random.default_rng(0), []
    env.reset(0)
    for episode in range(num_episodes):
        before = ale.lives()
        while not any(env.step(int(rng.integers(4)))[2:]):
            pass
        seen.append((before, ale.lives()))
        env.reset(seed_of(episode))
    return seen


@pytest.mark.whole
def test_after_a_lost_life_the_game_goes_on_and_after_the_last_one_another_begins():
    pytest.importorskip("ale_py", reason="needs the atari extra")
    pytest.importorskip("cv2", reason="needs the atari extra")
    config = preset("dqn", "ALE/Breakout-v5")
    interface = describe(config)
    lives = [(5, 4), (4, 3), (3, 2), (2, 1), (1, 0)]
    assert lives_of_episodes(Environment(config, interface, training=True), 7) == [*lives, *lives[:2]]
    assert lives_of_episodes(Environment(config, interface), 2) == [(5, 0)] * 2


@pytest.mark.whole
def test_a_reset_with_a_seed_begins_a_game_whatever_lives_are_left():
    pytest.importorskip("ale_py", reason="needs the atari extra")
    pytest.importorskip("cv2", reason="needs the atari extra")
    config = preset("dqn", "ALE/Breakout-v5")
    env = Environment(config, describe(config), training=True)
    assert lives_of_episodes(env, 3, seed_of=lambda episode: episode) == [(5, 4)] * 3
    firsts = [env.reset(7), env.reset(7)]
    np.testing.assert_array_equal(*firsts)


@pytest.mark.whole
def test_the_lives_of_a_game_are_those_of_stable_baselines3():
    pytest.importorskip("ale_py", reason="needs the atari extra")
    pytest.importorskip("cv2", reason="needs the atari extra")
    sb3 = pytest.importorskip("stable_baselines3.common.atari_wrappers", reason="needs the bench extra")
    config = preset("dqn", "ALE/Breakout-v5").override(frame_stack=1)
    raw = config.override(terminal_on_life_loss=False).environment
    theirs = sb3.EpisodicLifeEnv(make(config.env, raw))
    ours = make(config.env, config.environment, training=True)
    rng = np.random.default_rng(0)
    pair = [ours.reset(seed=3)[0], theirs.reset(seed=3)[0]]
    num_ends = 0
    while num_ends < 7:
        np.testing.assert_array_equal(*pair)
        action = int(rng.integers(4))
        mine, other = ours.step(action), theirs.step(action)
        assert mine[1:4] == other[1:4]
        pair = [mine[0], other[0]]
        if mine[2] or mine[3]:
            np.testing.assert_array_equal(*pair)
            num_ends += 1
            pair = [ours.reset()[0], theirs.reset()[0]]
