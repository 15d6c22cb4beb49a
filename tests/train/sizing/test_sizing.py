"""Automatic sizing: the choice from given measurements, against a simulation of every setting; and whole runs."""

import dataclasses
import itertools
import json
import os
import time

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")

from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_run import steps_per_s
from whole_run import SMALL

from drivetrain.cli.main import main
from drivetrain.core.errors import InvalidInput, RunError
from drivetrain.train import train, train_seeds
from drivetrain.train.config import TrainConfig
from drivetrain.train.run_dir.checkpoint import load_checkpoint
from drivetrain.train.runs.requirements import describe as interface_of
from drivetrain.train.sizing import choose as choosing
from drivetrain.train.sizing.choose import actor_counts, allowed, choose, size
from drivetrain.train.sizing.measure import Question, ask
from drivetrain.train.sizing.model import Measurements, Updating, estimate
from drivetrain.train.sizing.worker import measure

OPEN = {"num_actors": "auto", "num_learners": "auto"}
ROOMY = {"warmup_steps": 10_000, "capacity": 50_000, "batch_size": 256}  # for many actors' windows


def measured(step_s, updates_s, *, waits=False, cores=2):
    """What workers would find: environments that compute or wait, updates by 1, 2 ... learners."""
    updates = {count: Updating(update_s, count * update_s) for count, update_s in updates_s.items()}
    act_s = {envs: 2e-5 + 1e-6 * envs for envs in range(1, 33)}
    step_cpu_s = 0.0 if waits else step_s
    return Measurements(step_s=step_s, step_cpu_s=step_cpu_s, act_s=act_s, updates=updates, cores=cores)


def settings_of(config, times, *, waits):
    return list(allowed(config, actor_counts(config, times.cores, waits=waits), tuple(times.updates), times.cores))


def exponents(low, high):
    """Times drawn evenly over their orders of magnitude."""
    return st.floats(np.log10(low), np.log10(high)).map(lambda power: 10.0**power)


@pytest.mark.whole
@settings(max_examples=15, deadline=None)
@given(
    step_s=exponents(1e-5, 2e-2),
    update_s=exponents(1e-4, 2e-2),
    gain=st.floats(0.5, 1.2),
    waits=st.booleans(),
    ratio=st.sampled_from(["1/4", "1/2", 1, 2]),
    updates_per_call=st.sampled_from([8, 32]),
)
def test_the_chosen_setting_comes_close_to_the_best_of_all_simulated_ones(
    step_s, update_s, gain, waits, ratio, updates_per_call
):
    pace = {"update_ratio": ratio, "updates_per_call": updates_per_call, "tolerance": 2 * updates_per_call}
    config = TrainConfig.default("dqn", "E").override(**OPEN, **ROOMY, **pace)
    times = measured(step_s, {1: update_s, 2: gain * update_s}, waits=waits)
    candidates = settings_of(config, times, waits=waits)
    chosen = choose(candidates, times).config
    assert steps_per_s(chosen, times) >= 0.8 * max(steps_per_s(each, times) for each in candidates)


@settings(max_examples=15, deadline=None)
@given(
    step_s=exponents(1e-5, 2e-2),
    update_s=exponents(1e-4, 2e-2),
    waits=st.booleans(),
    cores=st.sampled_from([1, 2, 4]),
)
def test_the_actors_chosen_for_rollouts_come_close_to_the_best_of_all_simulated_ones(step_s, update_s, waits, cores):
    config = TrainConfig.default("ppo", "E").override(**OPEN)
    times = measured(step_s, {1: update_s}, waits=waits, cores=cores)
    candidates = settings_of(config, times, waits=waits)
    chosen = choose(candidates, times).config
    assert steps_per_s(chosen, times) >= 0.9 * max(steps_per_s(each, times) for each in candidates)
    assert chosen.rollout.num_envs % chosen.num_actors == 0


def test_where_the_learner_holds_the_run_up_the_idle_actor_shares_the_cores_of_two():
    config = TrainConfig.default("sac", "E").override(**OPEN, **ROOMY, update_ratio=1, updates_per_call=8, tolerance=16)
    times = measured(2e-5, {1: 8e-3, 2: 5e-3})
    best = choose(settings_of(config, times, waits=False), times)
    assert (best.config.num_actors, best.config.num_learners, best.bound) == (1, 2, "learner")
    assert best.config.run.oversubscribe
    assert best.steps_per_s == pytest.approx(1 / 5e-3, rel=0.01)
    assert choosing.describe(best, times).startswith("learner-bound: 1 actor, 2 learners, for about ")


def test_learners_on_gpus_leave_the_cores_to_the_actors():
    config = TrainConfig.default("sac", "E").override(**OPEN, **ROOMY, update_ratio=1, updates_per_call=8, tolerance=16)
    updates = {count: Updating(8e-3 / count, 8e-3 / count) for count in (1, 2, 4)}  # one core, however many there are
    times = dataclasses.replace(measured(1e-3, {1: 1.0}), updates=updates)
    best = choose(settings_of(config, times, waits=False), times)
    assert (best.config.num_actors, best.config.num_learners, best.bound) == (1, 4, "learner")
    assert best.steps_per_s == pytest.approx(1 / 2e-3, rel=0.01)


def test_for_rollouts_actors_and_learners_may_take_all_cores_in_turn():
    config = TrainConfig.default("ppo", "E").override(**OPEN, batch_size=256)
    best = choose(settings_of(config, times := measured(1e-3, {1: 5e-2, 2: 3e-2}), waits=False), times)
    assert (best.config.num_actors, best.config.num_learners) == (2, 2)
    assert not best.config.run.oversubscribe


def test_environments_that_wait_get_more_actors_than_cores_and_those_that_compute_do_not():
    config = TrainConfig.default("dqn", "E").override(**OPEN, **ROOMY, update_ratio="1/4")
    for waits, most in ((True, 16), (False, 2)):
        times = measured(5e-3, {1: 1e-4}, waits=waits)
        assert choose(settings_of(config, times, waits=waits), times).config.num_actors == most


def test_settings_level_with_the_best_go_to_fewer_processes():
    config = TrainConfig.default("dqn", "E").override(**OPEN, **ROOMY)
    times = measured(5e-6, {1: 1e-3, 2: 0.99e-3}, cores=8)
    best = choose(settings_of(config, times, waits=False), times)
    assert (best.config.num_actors, best.config.num_learners) == (1, 1)


def test_a_tolerance_that_lets_few_actors_act_is_no_reason_for_more():
    config = TrainConfig.default("sac", "E").override(**OPEN, **ROOMY, update_ratio=1, updates_per_call=8, tolerance=16)
    times = measured(5e-3, {1: 1e-5}, waits=True)
    best = choose(settings_of(config, times, waits=True), times)
    assert best.config.num_actors == 3  # 8 environments each: 8 updates per grant, no grant beyond 16


def test_in_lock_step_acting_and_learning_take_turns():
    config = TrainConfig.default("dqn", "E").override(num_actors=1, tolerance=0, **ROOMY, update_ratio=1).resolved()
    times = measured(1e-3, {1: 1e-3})
    assert estimate(config, times).steps_per_s == pytest.approx(steps_per_s(config, times), rel=0.02)
    assert estimate(config, times).steps_per_s == pytest.approx(1 / 2e-3, rel=0.02)


def test_a_call_is_timed_by_the_clock_and_by_what_it_computes():
    sleeping = measure(lambda: time.sleep(0.01), 0.1)
    assert min(sample.wall_s for sample in sleeping) >= 0.01
    assert min(sample.cpu_s / sample.wall_s for sample in sleeping) < 0.5


@pytest.mark.slow  # two processes that start, compile, and measure for seconds
def test_workers_find_times_for_what_was_asked_and_leave_the_compiled_update_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)  # there what compiles within a second is not kept
    changes = SMALL | {"num_actors": 1, "normalize_observations": True}
    interface = interface_of(config := TrainConfig.default("dqn", "CartPole-v1").override(**changes).resolved())
    acting = ask(Question(what="acting", config=config, interface=interface, sizes=(1, 4), asked_by=os.getpid()))
    assert acting["step_s"] > 0
    assert set(acting["act_s"]) == {"1", "4"}
    updating = ask(Question(what="updating", config=config, interface=interface, asked_by=os.getpid()))
    assert updating["wall_s"] > 0
    assert any(tmp_path.glob("drivetrain/jax-*/*-cache"))


def answers(question):
    """What workers would say, without asking any."""
    if question.what == "acting":
        return {"step_s": 1e-3, "step_cpu_s": 1e-3, "act_s": {str(envs): 1e-5 for envs in question.sizes}}
    return {"wall_s": 1e-6, "cpu_s": 1e-6, "num_gpus": 0}


def test_what_is_chosen_is_the_configuration_that_gives_its_numbers(monkeypatch):
    monkeypatch.setattr(choosing, "ask", answers)
    monkeypatch.setattr(choosing, "num_cores", lambda: 2)
    config = TrainConfig.default("ppo", "CartPole-v1").override(seed=3, num_envs=2)
    chosen = size(config.override(**OPEN), interface_of(config)).config
    assert chosen == config.override(num_actors=2, num_learners=1).resolved()
    assert not chosen.is_open


LONG = {"hidden": (256, 256), "batch_size": 256, "update_ratio": 1, "total_steps": 100_000, "num_actors": 1}
"""Minutes of updates; nothing is said of learners."""


def two_cores_that_say(monkeypatch, answers_of):
    """What is asked of workers, in order; they answer as told."""
    asked = []
    monkeypatch.setattr(choosing, "ask", lambda question: asked.append(question) or answers_of(question))
    monkeypatch.setattr(choosing, "num_cores", lambda: 2)
    return asked


def gaining(question):
    """Two learners take 0.6 of the time of one."""
    update_s = {1: 8e-3, 2: 5e-3}[question.config.num_learners]
    times = {"wall_s": update_s, "cpu_s": question.config.num_learners * update_s, "num_gpus": 0}
    return times if question.what == "updating" else {**answers(question), "step_s": 5e-5, "step_cpu_s": 5e-5}


def test_a_long_run_of_large_updates_takes_the_learners_that_gain_without_being_asked(monkeypatch):
    asked = two_cores_that_say(monkeypatch, gaining)
    config = TrainConfig.default("sac", "Pendulum-v1").override(**LONG)
    chosen, reason = choosing.settle(config, interface_of(config))
    assert (chosen.num_actors, chosen.num_learners, chosen.run.oversubscribe) == (1, 2, True)
    assert reason.startswith("learner-bound: 1 actor, 2 learners, for about ")
    assert [question.what for question in asked] == ["updating", "updating", "acting"]


@pytest.mark.whole
@pytest.mark.parametrize(
    ("algo", "env", "changes"),
    [
        ("sac", "Pendulum-v1", {"num_learners": 1}),
        ("sac", "Pendulum-v1", {"total_steps": 20_000}),
        ("sac", "Pendulum-v1", {"hidden": (64, 64)}),
        ("sac", "Pendulum-v1", {"update_ratio": "1/8"}),
        ("sac", "Pendulum-v1", {"num_actors": 0}),
        ("sac", "Pendulum-v1", {"deterministic": True}),
        ("dqn", "drivetrain/CartPole-v1", {"total_steps": 10_000_000}),  # a kernel steps it
    ],
)
def test_other_runs_have_one_learner_and_measure_nothing(algo, env, changes, monkeypatch):
    asked = two_cores_that_say(monkeypatch, gaining)
    config = TrainConfig.default(algo, env).override(**LONG | changes)
    chosen, reason = choosing.settle(config, interface_of(config))
    assert (chosen.num_learners, reason, asked) == (1, None, [])


def test_a_run_on_one_core_has_one_learner(monkeypatch):
    asked = two_cores_that_say(monkeypatch, gaining)
    monkeypatch.setattr(choosing, "num_cores", lambda: 1)
    config = TrainConfig.default("sac", "Pendulum-v1").override(**LONG)
    assert choosing.settle(config, interface_of(config)).config.num_learners == 1
    assert asked == []


def test_asked_for_actors_alone_it_measures_the_learners_that_are_worthwhile_too(monkeypatch):
    two_cores_that_say(monkeypatch, gaining)
    config = TrainConfig.default("sac", "Pendulum-v1").override(**LONG | {"num_actors": "auto"})
    assert choosing.settle(config, interface_of(config)).config.num_learners == 2


def test_where_measuring_that_nobody_asked_for_fails_the_run_begins_with_one_learner(monkeypatch):
    def fail(question):
        raise RunError("acting could not be measured: the rod broke")

    two_cores_that_say(monkeypatch, fail)
    config = TrainConfig.default("sac", "Pendulum-v1").override(**LONG)
    chosen, reason = choosing.settle(config, interface_of(config))
    assert (chosen.num_actors, chosen.num_learners) == (1, 1)
    assert reason == "1 learner, as acting could not be measured: the rod broke"
    with pytest.raises(RunError, match="the rod broke"):
        choosing.settle(config.override(num_learners="auto"), interface_of(config))


def test_seeds_of_one_command_weigh_their_learners_once(monkeypatch, tmp_path):
    asked, found = two_cores_that_say(monkeypatch, gaining), []
    monkeypatch.setattr("drivetrain.train.runs.seeds.start", lambda config, **_: found.append(config) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        train_seeds("sac", "Pendulum-v1", seeds="1..2", run_dir=str(tmp_path / "python"), **LONG)
    flags = ["--run-dir", str(tmp_path / "command"), "--num-actors", "1", "--total-steps", "100000"]
    with pytest.raises(ZeroDivisionError):
        main(["train", "sac", "Pendulum-v1", "--seeds", "1..2", *flags])
    assert [question.what for question in asked] == 2 * ["updating", "updating", "acting"]
    assert [each.run.num_learners for each in found] == [2, 2]


def test_seeds_of_one_command_are_sized_once(monkeypatch, tmp_path):
    asked, found = [], []
    monkeypatch.setattr(choosing, "ask", lambda question: asked.append(question.what) or answers(question))
    monkeypatch.setattr(choosing, "num_cores", lambda: 2)
    monkeypatch.setattr("drivetrain.train.runs.seeds.start", lambda config, **_: found.append(config) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        train_seeds("dqn", "CartPole-v1", seeds="1..2", run_dir=str(tmp_path), **OPEN)
    assert asked == ["updating", "acting"]
    assert [(each.run.num_actors, each.run.num_learners) for each in found] == [(2, 1)]


@pytest.mark.slow  # two whole runs
def test_an_automatic_run_is_the_run_of_the_numbers_that_it_chose(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(choosing, "ask", answers)
    monkeypatch.setattr(choosing, "num_cores", lambda: 2)
    small = {
        "num_envs": 2, "rollout_length": 16, "batch_size": 16, "num_epochs": 2, "hidden": (8,), "total_steps": 128,
        "eval_episodes": 1, "final_eval_episodes": 1,
    }  # fmt: skip
    train("ppo", "CartPole-v1", run_dir=str(tmp_path / "auto"), seed=3, **OPEN, **small)
    assert "sized: actor-bound: 2 actors, 1 learner" in capsys.readouterr().err
    chosen = json.loads((tmp_path / "auto/config.json").read_text())["run"]
    assert (chosen["num_actors"], chosen["num_learners"]) == (2, 1)
    train("ppo", "CartPole-v1", run_dir=str(tmp_path / "given"), seed=3, num_actors=2, num_learners=1, **small)
    auto, given_ = (load_checkpoint(tmp_path / name)[0]["params"] for name in ("auto", "given"))
    np.testing.assert_array_equal(auto, given_)


def test_show_config_prints_the_chosen_numbers_and_the_reason(monkeypatch, capsys):
    monkeypatch.setattr(choosing, "ask", answers)
    monkeypatch.setattr(choosing, "num_cores", lambda: 2)
    assert main(["train", "dqn", "CartPole-v1", "--num-actors", "auto", "--num-learners", "auto", "--show-config"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["run"]["num_actors"], shown["run"]["num_learners"]) == (2, 1)
    assert shown["sized"].startswith("actor-bound: 2 actors, 1 learner, for about ")


@pytest.mark.parametrize("value", ["many", -1, 1.5])
def test_counts_that_are_none_are_refused_with_the_words_that_are_allowed(value):
    for name in ("num_actors", "num_learners"):
        with pytest.raises(InvalidInput, match=rf"^{name}: expected .*\"auto\", got "):
            TrainConfig.default("dqn", "E").override(**{name: value})


def test_settings_that_no_number_of_actors_fits_are_refused_with_the_reason():
    config = TrainConfig.default("ppo", "CartPole-v1").override(num_actors="auto")
    config = config.override(num_envs=34, envs_per_actor=2, batch_size=34, rollout_length=4)  # 17 actors
    interface = interface_of(config)
    with pytest.raises(InvalidInput, match="num_envs: expected as many environments for every actor, got 34 for 1"):
        size(config, interface)


def test_where_the_only_setting_that_fits_has_more_actors_than_cores_it_is_taken(monkeypatch):
    monkeypatch.setattr(choosing, "ask", answers)
    monkeypatch.setattr(choosing, "num_cores", lambda: 2)
    config = TrainConfig.default("ppo", "CartPole-v1").override(**OPEN, num_envs=8, envs_per_actor=1)
    assert size(config, interface_of(config)).config.num_actors == 8


def test_a_call_that_is_long_now_and_then_does_not_make_measuring_long():
    calls = itertools.count()
    slow_ones = lambda: time.sleep(0.1 if next(calls) % 10 == 9 else 0.0)  # noqa: E731
    start_s = time.monotonic()
    samples = measure(slow_ones, 0.3)
    assert len(samples) >= 3
    assert time.monotonic() - start_s < 2, "chunks of thousands of calls, each a hundredth of a second, took minutes"
