"""What an environment is made with: from Python and the command line, in training, evaluation and a run's files."""

import contextlib
import json

import gymnasium
import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")

import own_simulators
import strange_envs

from drivetrain.cli.train import parse
from drivetrain.cli.train import run as run_command
from drivetrain.core.errors import InvalidInput
from drivetrain.train import load_policy, resume, train
from drivetrain.train.config import TrainConfig
from drivetrain.train.environments.environment import Environment
from drivetrain.train.run_dir.folder import label_of
from drivetrain.train.runs.requirements import describe

TINY = {
    "hidden": (8,), "warmup_steps": 40, "batch_size": 8, "num_step": 1, "num_actors": 0, "envs_per_actor": 2,
    "eval_episodes": 1, "final_eval_episodes": 1, "total_steps": 60,
}  # fmt: skip


class Levels(strange_envs.Shifted):
    """As many observations as it has levels, and what else it was made with."""

    def __init__(self, levels=3, **others):
        self.observation_space = gymnasium.spaces.Box(-1, 1, (levels,), np.float32)
        self.others = others


class Popping(strange_envs.Ending):
    """Takes its settings out of what it is given; twenty steps of such a reward."""

    def __init__(self, config):
        self.gain = config.pop("gain", 1.0)

    def step(self, action):
        observation, _, *others = super().step(action)
        return observation, self.gain, *others


def made_with(env_kwargs):
    config = TrainConfig.default("dqn", Levels).override(env_kwargs=env_kwargs)
    with contextlib.closing(Environment(config, describe(config), training=True)) as env:
        return env._env.others


def test_gymnasiums_ids_are_made_with_it():
    spaces = [
        describe(TrainConfig.default("dqn", "FrozenLake-v1").override(env_kwargs=kwargs)).observations
        for kwargs in ({}, {"map_name": "8x8"})
    ]
    assert [space.counts for space in spaces] == [(16,), (64,)]


def test_functions_are_called_with_it_and_lists_stand_for_tuples_at_once_as_after_a_resume():
    assert made_with({"size": (2, 3), "speed": np.float32(0.5), "map": {"deep": None}}) == {
        "size": [2, 3],
        "speed": 0.5,
        "map": {"deep": None},
    }


@pytest.mark.whole
@pytest.mark.parametrize("engine", ["native", "none"])
def test_simulators_are_made_with_it_in_kernels_and_out_of_them(tmp_path, engine):
    settings = {**TINY, "env_kwargs": {"size": 7}, "sim_engine": engine}
    assert train("dqn", "drivetrain/Snake", run_dir=str(tmp_path), **settings).num_steps == 60
    observations = describe(TrainConfig.load(tmp_path / "config.json")).observations
    assert observations.shape == (7 * 7 * 4,)


@pytest.mark.whole
@pytest.mark.parametrize("num_actors", [0, 1])
def test_each_environment_has_its_own_to_take_from(tmp_path, num_actors):
    config = {"gain": 7.0}
    settings = {**TINY, "env_kwargs": {"config": config}, "num_actors": num_actors, "run_dir": str(tmp_path)}
    assert list(train("dqn", Popping, **settings).returns) == [140.0]
    assert config == {"gain": 7.0}
    assert json.loads((tmp_path / "config.json").read_text())["environment"]["env_kwargs"] == {"config": config}
    assert [one.total_reward for one in load_policy(tmp_path, env=Popping).evaluate(2)] == [140.0] * 2


@pytest.mark.whole
@pytest.mark.parametrize("engine", ["native", "none"])
def test_each_simulator_has_its_own_to_take_from(tmp_path, monkeypatch, engine):
    monkeypatch.setattr(own_simulators, "popped", [])
    settings = {**TINY, "env_kwargs": {"config": {"gain": 7.0}}, "sim_engine": engine, "run_dir": str(tmp_path)}
    assert min(train("dqn", "drivetrain/own_simulators:Popping", **settings).returns) > 60
    assert set(own_simulators.popped) == {7.0}
    assert json.loads((tmp_path / "config.json").read_text())["environment"]["env_kwargs"] == {"config": {"gain": 7.0}}


@pytest.mark.whole
def test_it_is_kept_for_resumes_and_told_in_labels(tmp_path):
    train("dqn", "FrozenLake-v1", run_dir=str(tmp_path), env_kwargs={"map_name": "8x8"}, **TINY)
    assert json.loads((tmp_path / "config.json").read_text())["environment"]["env_kwargs"] == {"map_name": "8x8"}
    assert label_of(tmp_path) == 'dqn on FrozenLake-v1 (map_name "8x8")'
    assert resume(tmp_path, total_steps=80).num_steps == 80


def test_the_command_line_takes_it_as_json_and_its_preset_is_not_verified_with_it(capsys):
    words = ["dqn", "CartPole-v1", "--env-kwargs", '{"sutton_barto_reward": true}']
    assert parse(words).environment.env_kwargs == {"sutton_barto_reward": True}
    run_command([*words, "--show-config"])
    assert json.loads(capsys.readouterr().out)["preset"]["verified"] == "not verified with env_kwargs"


@pytest.mark.parametrize("text", ["continuous=true", "[1]", "{", "", '{"limit": Infinity}', '{"limit": [1e400]}'])
def test_what_is_no_json_by_name_is_refused_with_what_it_looks_like(text):
    with pytest.raises(InvalidInput, match=r"^--env-kwargs: expected values by name as JSON has them, .*got '"):
        parse(["dqn", "CartPole-v1", "--env-kwargs", text])


@pytest.mark.parametrize("value", [None, 3, "continuous", [("a", 1)], {1: 2}, {"a": object()}, {"a": 1j}])
def test_values_that_json_does_not_have_are_refused(value):
    with pytest.raises(InvalidInput, match=r"^env_kwargs: expected values by name that JSON has, as .* got "):
        TrainConfig.default("dqn", "CartPole-v1").override(env_kwargs=value)


@pytest.mark.parametrize("env_id", ["CartPole-v1", "drivetrain/Snake", "gymnax/CartPole-v1"])
def test_what_an_environment_does_not_take_is_one_sentence(env_id):
    with pytest.raises(InvalidInput, match=r"cannot be made: .*colour.*; env_kwargs: it is made with colour") as caught:
        describe(TrainConfig.default("dqn", env_id).override(env_kwargs={"colour": "red"}))
    assert "\n" not in str(caught.value)


def test_names_that_json_would_make_of_others_are_refused_however_deep():
    for value in ({"rewards": {0: 1.0}}, {"a": [{1: "a", "1": "b"}]}, {"a": {"b": {None: 1}}}, {"a": ({True: 1},)}):
        with pytest.raises(InvalidInput, match=r"^env_kwargs: expected values by name that JSON has, as .* got "):
            TrainConfig.default("dqn", "CartPole-v1").override(env_kwargs=value)
    for value in (float("inf"), [float("nan")], np.float32("inf")):
        with pytest.raises(InvalidInput, match=r"^env_kwargs: expected values by name that JSON has"):
            TrainConfig.default("dqn", "CartPole-v1").override(env_kwargs={"limit": value})
    deep = {"a": {"b": [{"c": np.float32(0.5)}, (1, None, True)]}}
    kept = TrainConfig.default("dqn", "CartPole-v1").override(env_kwargs=deep).environment.env_kwargs
    assert kept == {"a": {"b": [{"c": 0.5}, [1, None, True]]}}


@pytest.mark.parametrize("given", [{}, {"colour": "red"}])
def test_an_argument_that_what_makes_an_environment_lacks_is_told_to_be_given(given):
    def make(size, *, colour=None):
        return Levels()

    with pytest.raises(InvalidInput, match=r"'size'; give it by env_kwargs, as env_kwargs=\{'size': \.\.\.\}$"):
        describe(TrainConfig.default("dqn", make).override(env_kwargs=given))


def test_an_argument_that_something_within_it_lacks_is_a_mistake_of_its_own():
    def part(size):
        return size

    def make():
        part()

    with pytest.raises(InvalidInput, match=r"'size'.*; mend it$"):
        describe(TrainConfig.default("dqn", make))
