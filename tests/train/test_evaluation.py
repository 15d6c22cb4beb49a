"""Evaluations, and what watches over the environments that they and actors play on."""

import contextlib
import itertools
import os
import re
import sys
import tracemalloc
from collections import Counter

import gymnasium
import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")

import strange_envs
from whole_run import ONE_ACTOR

from drivetrain.core.seeding import stream
from drivetrain.train import evaluate as evaluation
from drivetrain.train import load_policy, train
from drivetrain.train.actor.actor import Actor
from drivetrain.train.actor.fused.actor import FusedActor
from drivetrain.train.actor.fused.evaluation import FusedEvaluator
from drivetrain.train.config import TrainConfig
from drivetrain.train.environments.faults import EnvironmentFault
from drivetrain.train.evaluate import Evaluator, Selection, interval, make_evaluator
from drivetrain.train.experience.experience import make_experience, writers
from drivetrain.train.policies.policy import first_published, make_policy
from drivetrain.train.runs.requirements import describe

SMALL = {
    "hidden": (4,), "num_actors": 0, "warmup_steps": 20, "batch_size": 8, "envs_per_actor": 3, "total_steps": 30,
    "eval_episodes": 1, "final_eval_episodes": 1, "capacity": 100, "time_report": False,
}  # fmt: skip


@pytest.fixture
def noted(monkeypatch):
    """Configuration, interface and policy of environments that note what is done with them, and their notes."""
    config = TrainConfig.default("dqn", "strange_envs:Noted-v0").override(**SMALL).resolved()
    interface = describe(config)
    policy = make_policy(config, interface, first_published(config, interface, stream(0, "network")))
    events = []
    monkeypatch.setattr(strange_envs.Noted, "events", events)
    return config, interface, policy, events


def assert_beaten_for(events, **counts):
    """A beat stands before each event, of which there are so many."""
    assert Counter(event for event in events if event != "beat") == counts
    assert all(before == "beat" for before, event in zip(["", *events], events, strict=False) if event != "beat")


def test_a_policy_is_read_and_saved_at_rest_as_a_disk_may_take_longer_than_any_environment(
    noted, tmp_path, monkeypatch
):
    config, interface, _, events = noted
    for name in ("has_best_policy", "save_policy"):
        call = getattr(evaluation, name)
        monkeypatch.setattr(evaluation, name, lambda *given, call=call: (events.append("disk"), call(*given))[1])
    told = {"beat": lambda: events.append("beat"), "rest": lambda: events.append("rest")}
    with contextlib.closing(Selection(config, interface, tmp_path, complain=events.append, **told)) as selection:
        selection.consider(first_published(config, interface, stream(0, "network")), 10, 5)
    before = [before for before, event in itertools.pairwise(events) if event == "disk"]
    assert before == ["rest", "rest"]
    assert "beat" in events


def test_an_interval_needs_no_memory_for_all_of_its_draws_at_once():
    returns = np.random.default_rng(1).normal(size=37).tolist()
    picks = np.random.default_rng(0).integers(0, 37, (2_000, 37))
    assert interval(returns) == tuple(np.percentile(np.asarray(returns)[picks].mean(1), [2.5, 97.5]))
    tracemalloc.start()
    assert interval([1.0] * 20_000) == (1.0, 1.0)
    assert tracemalloc.get_traced_memory()[1] < 50 * 8 * 20_000
    tracemalloc.stop()


def test_a_beat_comes_before_each_environment_of_an_evaluation_is_made_reset_or_stepped(noted):
    config, interface, policy, events = noted
    with contextlib.closing(Evaluator(config, interface, 3, lambda: events.append("beat"))) as evaluator:
        assert len(evaluator.play(policy, range(5))) == 5
    assert_beaten_for(events, make=3, reset=5, step=100)


def test_a_beat_comes_before_each_environment_of_an_actor_is_made_reset_or_stepped(noted):
    config, interface, policy, events = noted
    with make_experience(config, interface, shared=False) as replay:
        actor = Actor(config, interface, policy, writers(replay, 0), beat=lambda: events.append("beat"))
        with contextlib.closing(actor):
            for step in range(25):
                actor.step(3, 3 * step)
    assert_beaten_for(events, make=3, reset=6, step=75)


@pytest.mark.slow  # two dozen waits of half a second
def test_a_run_whose_environments_take_their_time_for_each_reset_is_not_given_up(start, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    settings = {"envs-per-actor": 8, "total-steps": 300, "eval-episodes": 8, "final-eval-episodes": 8}
    few = {"warmup-steps": 200, "hidden": 8, "batch-size": 16, "step-timeout-s": 3}
    flags = [word for name, value in (settings | few).items() for word in (f"--{name}", str(value))]
    code, _, err = start(*flags, *ONE_ACTOR, what=("dqn", "strange_envs:Patient-v0")).end()
    assert code == 0, err
    assert "was ended" not in err


def test_evaluations_make_no_more_environments_than_episodes_and_than_they_may(noted):
    config, interface, policy, events = noted
    returns = []
    for eval_envs, num_episodes, num_made in [(20, 7, 7), (2, 7, 2), (20, 1, 1)]:
        config = config.override(eval_envs=eval_envs, final_eval_episodes=num_episodes)
        events.clear()
        with contextlib.closing(make_evaluator(config, interface)) as evaluator:
            returns.append(evaluator.play(policy, range(num_episodes)))
        assert events.count("make") == num_made
    assert returns[0] == returns[1], "the same episodes"
    assert returns[0][:1] == returns[2]


def test_a_policy_is_evaluated_on_as_many_environments_as_episodes(noted, tmp_path):
    _, _, _, events = noted
    train("dqn", "strange_envs:Noted-v0", run_dir=str(tmp_path / "run"), **SMALL)
    events.clear()
    assert len(load_policy(tmp_path / "run").evaluate(2)) == 2
    assert events.count("make") == 1 + 2, "one to see what it looks like"


class Forever(gymnasium.Env):
    """A reward of 1 for each step, and of 100 for each reset before; it ends nothing."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    num_resets = 0
    _max_episode_steps = 5  # of its own, and whatever that means

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.num_resets += 1
        return np.zeros(1, np.float32), {}

    def step(self, action):
        assert type(action) is np.int64  # as of the space's own sample()
        return np.zeros(1, np.float32), 1.0 if self.num_resets == 1 else 100.0, False, False, {}


@pytest.mark.parametrize(
    ("limit", "eval_max_steps", "length"), [(None, None, 30), (50, None, 50), (50, 20, 20), (None, 40, 40)]
)
def test_an_evaluation_is_cut_off_where_gymnasium_knows_no_limit_or_it_is_asked_for(
    monkeypatch, limit, eval_max_steps, length
):
    monkeypatch.setattr("drivetrain.train.config.parts._MOST_EVAL_STEPS", 30)

    def make():
        return Forever() if limit is None else gymnasium.wrappers.TimeLimit(Forever(), limit)

    config = TrainConfig.default("dqn", make).override(**SMALL, eval_max_steps=eval_max_steps).resolved()
    interface = describe(config)
    policy = make_policy(config, interface, first_published(config, interface, stream(0, "network")))
    with contextlib.closing(Evaluator(config, interface, 1)) as evaluator:
        assert [episode.total_reward for episode in evaluator.play(policy, [3])] == [length]


class EndingInNaN(strange_envs.Ending):
    """The last observation of an episode is no number."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def step(self, action):
        observation, reward, ended, *others = super().step(action)
        return observation * np.nan if ended else observation, reward, ended, *others


@pytest.mark.parametrize("num_envs", [1, 2])
def test_a_last_observation_is_looked_at_whatever_follows_it(num_envs):
    config = TrainConfig.default("dqn", EndingInNaN).override(**SMALL, eval_envs=num_envs).resolved()
    interface = describe(config)
    policy = make_policy(config, interface, first_published(config, interface, stream(0, "network")))
    with (
        contextlib.closing(Evaluator(config, interface, num_envs)) as evaluator,
        pytest.raises(EnvironmentFault, match=r"step 20 of an episode: expected finite numbers"),
    ):
        evaluator.play(policy, [3, 4])


@pytest.mark.whole
@pytest.mark.parametrize("what", ["observation", "reward"])
@pytest.mark.parametrize("sim_engine", ["xla", "native"])
def test_compiled_evaluations_refuse_what_others_do_in_the_same_words(sim_engine, what):
    settings = {**SMALL, "num_actors": 1, "sim_engine": sim_engine, "env_kwargs": {"what": what}}
    config = TrainConfig.default("dqn", "drivetrain/own_simulators:EndingIn").override(**settings).resolved()
    interface = describe(config)
    policy = make_policy(config, interface, first_published(config, interface, stream(0, "network")))
    told = []
    for evaluator in (FusedEvaluator(config, interface, 3), Evaluator(config, interface, 3)):
        with contextlib.closing(evaluator), pytest.raises(EnvironmentFault) as refused:
            evaluator.play(policy, [3])
        told.append(str(refused.value))
    assert told[0] == told[1]
    assert re.search(r"step [1-9]\d* of an episode: expected (a )?finite number", told[0])


@pytest.mark.whole
def test_a_run_on_what_xla_alone_compiles_is_evaluated_by_xla(tmp_path):
    settings = {"num_actors": 0, "hidden": (8,), "total_steps": 64, "warmup_steps": 32, "batch_size": 8, "num_step": 1}
    settings |= {"eval_episodes": 1, "final_eval_episodes": 1, "sim_engine": "xla", "run_dir": str(tmp_path)}
    train("dqn", "drivetrain/own_simulators:Halved", **settings)
    policy = load_policy(tmp_path)
    assert len(policy.evaluate(2)) == 2
    env = policy.make_env()
    observation, _ = env.reset(seed=0)
    assert env.step(policy(observation))[0].dtype == np.float16


@pytest.mark.whole
def test_a_compiled_actor_refuses_a_last_observation_that_is_no_number():
    settings = {**SMALL, "num_actors": 1, "sim_engine": "xla", "grant_length": 40}
    config = TrainConfig.default("dqn", "drivetrain/own_simulators:EndingIn").override(**settings).resolved()
    interface = describe(config)
    vector = first_published(config, interface, stream(0, "network"))
    with make_experience(config, interface, shared=False) as replay:
        actor = FusedActor(config, interface, vector, writers(replay, 0), (0, 0))
        with pytest.raises(EnvironmentFault, match=r"step [1-9]\d* of an episode: expected finite numbers in an obs"):
            actor.step(actor.steps_per_call, 0)


@pytest.mark.release
@pytest.mark.parametrize("num_actors", [0, 1])
def test_the_last_evaluation_plays_on_environments_that_were_not_played_on(tmp_path, num_actors):
    settings = SMALL | {"num_actors": num_actors, "eval_max_steps": 7, "eval_interval_steps": 10}
    result = train("dqn", Forever, run_dir=str(tmp_path), **settings | {"final_eval_episodes": 3})
    assert list(result.returns) == [7.0] * 3
    assert [episode.total_reward for episode in load_policy(tmp_path, env=Forever).evaluate(3)] == [7.0] * 3


class Licensed(Forever):
    """One at a time."""

    num_open = 0

    def __init__(self):
        if Licensed.num_open:
            raise RuntimeError("all licences are taken")
        Licensed.num_open += 1

    def close(self):
        Licensed.num_open -= 1


def test_environments_that_are_few_are_closed_before_new_ones_are_made():
    config = TrainConfig.default("dqn", Licensed).override(**SMALL, eval_max_steps=5, eval_envs=1).resolved()
    interface = describe(config)
    policy = make_policy(config, interface, first_published(config, interface, stream(0, "network")))
    with contextlib.closing(Evaluator(config, interface, 1)) as evaluator:
        for _ in range(2):
            evaluator.begin_anew()
            assert [episode.total_reward for episode in evaluator.play(policy, [3])] == [5.0]
    assert type(describe(config)) is type(interface)  # which needs a licence, too
