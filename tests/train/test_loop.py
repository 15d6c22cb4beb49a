"""The sequential reference: a seed fixes every bit."""

import contextlib
import gc
import itertools
import os
import signal

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")
from gymnasium.envs.classic_control import CartPoleEnv
from whole_run import rows_of, rows_without_times

from drivetrain.core.errors import InvalidInput, RunError
from drivetrain.train import resume, train
from drivetrain.train.config import TrainConfig
from drivetrain.train.experience.experience import make_experience, writers
from drivetrain.train.learner.learner import Learner
from drivetrain.train.loop import Loop
from drivetrain.train.policies.policy import EpsilonGreedy
from drivetrain.train.run_dir.checkpoint import load_checkpoint, load_replay, load_saved_policy
from drivetrain.train.run_dir.saving import Saver
from drivetrain.train.runs.requirements import describe

SMALL = {
    "num_actors": 0, "total_steps": 1_003, "envs_per_actor": 4, "warmup_steps": 200, "hidden": (16,), "batch_size": 16,
    "update_ratio": "1/3", "eval_interval_steps": 400, "eval_episodes": 2, "final_eval_episodes": 3,
    "log_interval_steps": 250, "capacity": 1_000, "updates_per_call": 8,
}  # fmt: skip


def test_two_runs_of_a_seed_are_equal_to_the_last_bit_and_another_seed_is_not(tmp_path):
    results = [
        train("dqn", "CartPole-v1", seed=seed, run_dir=str(tmp_path / name), checkpoint_interval_s=1e6, **SMALL)
        for name, seed in (("a", 3), ("b", 3), ("c", 4))
    ]
    arrays = [load_checkpoint(result.run_dir)[0] for result in results]
    assert all(arrays[0][name].tobytes() == arrays[1][name].tobytes() for name in arrays[0])
    assert rows_without_times(results[0].run_dir) == rows_without_times(results[1].run_dir)
    assert results[0].returns == results[1].returns
    assert not np.array_equal(arrays[0]["params"], arrays[2]["params"])


def test_the_callers_garbage_is_collected_as_before_after_a_run(tmp_path):
    gc.unfreeze()  # what other modules of tests have left
    before = gc.get_freeze_count()
    train("dqn", "CartPole-v1", run_dir=str(tmp_path / "run"), **SMALL)
    assert gc.isenabled()
    assert gc.get_freeze_count() == before


def test_any_number_of_steps_and_ratio_comes_out_exactly(tmp_path):
    result = train("dqn", "CartPole-v1", run_dir=str(tmp_path), **SMALL)
    assert (result.num_steps, result.num_updates) == (1_003, (1_003 - 200) // 3)
    assert len(result.returns) == 3
    _, meta = load_checkpoint(tmp_path)
    assert (meta["num_steps"], meta["num_updates"]) == (1_003, 267)
    assert load_saved_policy(tmp_path, "best").vector.shape == load_saved_policy(tmp_path, "last").vector.shape


@pytest.mark.release
@pytest.mark.parametrize("num_actors", [0, 1])
def test_a_run_that_ends_with_a_step_of_some_environments_has_rows_for_its_last_update(tmp_path, num_actors):
    few = {"envs_per_actor": 9, "num_step": 3, "batch_size": 1, "warmup_steps": 19, "total_steps": 20}
    settings = {**SMALL, **few, "update_ratio": 1, "num_actors": num_actors}
    assert train("dqn", "CartPole-v1", run_dir=str(tmp_path), **settings).num_updates == 1
    with load_replay(tmp_path, shared=False) as replay:
        assert len(replay) == 2, "the third steps of two of the nine"


ENDS = [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit), (signal.SIGHUP, SystemExit)]


STEPWISE = {**SMALL, "envs_per_actor": 1, "update_ratio": 1, "updates_per_call": 1, "total_steps": 203}


@pytest.mark.parametrize(
    ("prioritized", "each_step"),
    [(False, ["explore", "step", "begin", "finish"]), (True, ["explore", "step", "finish", "begin"])],
)
def test_the_updates_that_a_step_calls_for_are_done_while_the_environment_steps(
    tmp_path, monkeypatch, prioritized, each_step
):
    events = []

    def noting(of, name):
        whole = getattr(of, name)

        def noted(self, *args):
            events.append(name)
            return whole(self, *args)

        monkeypatch.setattr(of, name, noted)

    for of, name in ((EpsilonGreedy, "explore"), (Learner, "begin"), (CartPoleEnv, "step"), (Learner, "finish")):
        noting(of, name)
    train("dqn", CartPoleEnv, run_dir=str(tmp_path), prioritized=prioritized, **STEPWISE)
    first = events.index("begin")  # that of step 201
    assert events[:first] == ["explore", "step"] * 201, "the replay may give no batch before"
    saving = ["begin", "finish", "begin"]  # the first checkpoint is written before another call is begun
    rest = [*saving, *each_step, "explore", "step", "finish"]  # of the last step, which no other follows
    assert events[first : first + len(rest)] == rest


@pytest.mark.release
@pytest.mark.parametrize("num_actors", [0, 1])
def test_updates_under_way_when_an_environment_raises_are_finished_and_saved(tmp_path, num_actors):
    class Failing(CartPoleEnv):
        has_failed, num_left = False, 202

        def step(self, action):
            self.num_left -= 1
            if not self.num_left and not Failing.has_failed:
                Failing.has_failed = True
                raise ZeroDivisionError
            return super().step(action)

    run_dir = tmp_path / "run"
    with pytest.raises(RunError, match="ZeroDivisionError"):
        train("dqn", Failing, run_dir=str(run_dir), **STEPWISE)
    _, meta = load_checkpoint(run_dir)
    assert (meta["num_steps"], meta["num_updates"]) == (201, 2)  # the second is the one that step 202 calls for
    with pytest.raises(InvalidInput, match="steps that call for the 2 updates done, got 201, which call for 1"):
        resume(run_dir, env=Failing, total_steps=201)
    result = resume(run_dir, env=Failing, num_actors=num_actors)
    assert (result.num_steps, result.num_updates) == (203, 3)


def test_a_callback_that_stops_a_run_has_the_step_taken_that_updates_are_under_way_for(tmp_path):
    def stop(event):
        return "stop" if event.row["num_steps"] == 202 else None

    settings = {**STEPWISE, "log_interval_steps": 202, "total_steps": 1_000}
    result = train("dqn", CartPoleEnv, run_dir=str(tmp_path), callbacks=[stop], **settings)
    assert (result.num_steps, result.num_updates) == (203, 3)


@pytest.mark.release
@pytest.mark.parametrize(
    "variant",
    [{"prioritized": False}, {"normalize_observations": True}, {"normalize_observations": True, "update_ratio": "1/9"}],
)
def test_what_a_run_in_turns_learns_hangs_on_no_checkpoint(tmp_path, variant):
    arrays = []
    for interval_s in (1e-6, 1e3):  # before each step, and at the end
        run_dir = tmp_path / str(interval_s)
        settings = {**SMALL, "update_ratio": 2, "updates_per_call": 3, "total_steps": 303, **variant}
        train("dqn", "CartPole-v1", run_dir=str(run_dir), checkpoint_interval_s=interval_s, **settings)
        arrays.append(load_checkpoint(run_dir)[0])
    assert all(arrays[0][name].tobytes() == arrays[1][name].tobytes() for name in arrays[0])


@pytest.mark.release
def test_nor_does_it_hang_on_one_between_the_calls_of_a_step(tmp_path, monkeypatch):
    params = []
    for due in ({0}, {0, 12}):  # looks at the clock: the first learning step has four, and so has each of the others
        looks = itertools.count()
        monkeypatch.setattr(Saver, "is_due", property(lambda _, due=due, looks=looks: next(looks) in due))
        run_dir = tmp_path / str(len(due))
        settings = {**SMALL, "envs_per_actor": 16, "update_ratio": 1, "tolerance": 0, "updates_per_call": 5}
        train("sac", "Pendulum-v1", run_dir=str(run_dir), **{**settings, "warmup_steps": 160, "total_steps": 400})
        params.append(load_checkpoint(run_dir)[0]["params"])
    np.testing.assert_array_equal(*params)


@pytest.mark.usefixtures("usual_hangups")
@pytest.mark.parametrize(("signum", "ends_with"), ENDS)
def test_an_interrupt_ends_the_final_evaluation_at_once_and_everything_is_saved(tmp_path, signum, ends_with):
    def interrupt(event):
        if event.kind == "evaluation" and event.row["num_steps"] == SMALL["total_steps"]:
            os.kill(os.getpid(), signum)

    settings = {**SMALL, "final_eval_episodes": 10**5}
    with pytest.raises(ends_with):
        train("dqn", "CartPole-v1", run_dir=str(tmp_path), callbacks=[interrupt], **settings)
    _, meta = load_checkpoint(tmp_path)
    assert (meta["num_steps"], meta["num_updates"]) == (1_003, 267)
    assert not (tmp_path / "result.json").exists()


@pytest.mark.usefixtures("usual_hangups")
@pytest.mark.parametrize(("signum", "ends_with"), ENDS)
def test_an_interrupt_while_updates_compile_waits_for_them_however_often_it_is_said(
    tmp_path, monkeypatch, signum, ends_with
):
    has_compiled = []

    def compile_updates(learner):
        for _ in range(3):
            os.kill(os.getpid(), signum)
        has_compiled.append(True)

    run_dir = str(tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr(Learner, "compile", compile_updates)
        with pytest.raises(ends_with):
            train("dqn", "CartPole-v1", run_dir=run_dir, **SMALL)
    assert has_compiled == [True]
    assert resume(run_dir).num_steps == SMALL["total_steps"]


def test_what_observations_are_normalised_by_is_saved_by_an_interrupt_in_the_warm_up(tmp_path):
    settings = {**SMALL, "warmup_steps": 900, "log_interval_steps": 50, "normalize_observations": True}
    with pytest.raises(KeyboardInterrupt):
        train("dqn", "CartPole-v1", run_dir=str(tmp_path), callbacks=[interrupting_at(100)], **settings)
    arrays, meta = load_checkpoint(tmp_path)
    assert meta["num_updates"] == 0
    assert arrays["moments"][:, 0].sum() == meta["num_steps"] > 0


@pytest.mark.whole
@pytest.mark.parametrize(("num_actors", "ends_with"), [(0, "its last step"), (1, "its last step"), (0, "a callback")])
def test_what_observations_are_normalised_by_is_saved_where_a_run_ends_in_its_warm_up(tmp_path, num_actors, ends_with):
    def end(event):
        if ends_with == "a callback" and event.row["num_steps"] >= 100:
            raise ZeroDivisionError

    settings = {**SMALL, "num_actors": num_actors, "total_steps": 203, "log_interval_steps": 50}
    settings |= {"warmup_steps": 900, "normalize_observations": True, "run_dir": str(tmp_path), "callbacks": [end]}
    with contextlib.suppress(ZeroDivisionError):
        train("dqn", "CartPole-v1", **settings)
    arrays, meta = load_checkpoint(tmp_path)
    assert arrays["moments"][:, 0].sum() == meta["num_steps"] > 0


def test_what_observations_are_normalised_by_is_saved_where_an_environment_raises(tmp_path):
    class Failing(CartPoleEnv):
        num_left = 100

        def step(self, action):
            self.num_left -= 1
            assert self.num_left
            return super().step(action)

    settings = {**SMALL, "envs_per_actor": 1, "normalize_observations": True, "run_dir": str(tmp_path)}
    with pytest.raises(RunError, match="AssertionError"):
        train("dqn", Failing, **settings)
    arrays, meta = load_checkpoint(tmp_path)
    assert arrays["moments"][:, 0].sum() == meta["num_steps"] == 99


def interrupting_at(step):
    """A callback that interrupts the run at that step, or soon after."""

    def interrupt(event):
        if event.row["num_steps"] >= step:
            os.kill(os.getpid(), signal.SIGINT)

    return interrupt


@pytest.mark.parametrize(("within", "at"), [("_step", 500), ("_step", 1_003), ("_evaluate", 1_003)])
def test_an_interrupt_at_a_step_that_calls_for_a_row_of_metrics_or_after_it_does_not_lose_it(
    tmp_path, monkeypatch, within, at
):
    method = getattr(Loop, within)

    def interrupted(loop):
        if within == "_evaluate" and loop._counts.committed == at:  # its environments' first look ends it
            os.kill(os.getpid(), signal.SIGINT)
        method(loop)
        if within == "_step" and loop._counts.committed == at:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(Loop, within, interrupted)
        with pytest.raises(KeyboardInterrupt):
            train("dqn", "CartPole-v1", run_dir=str(tmp_path), **SMALL)
    resume(tmp_path)
    rows = [row["num_steps"] for row in rows_of(tmp_path) if "updates_per_s" in row]
    assert rows == [252, 500, 752, 1_000, 1_003]


@pytest.mark.release
def test_an_interrupt_at_a_step_that_calls_for_an_evaluation_puts_it_off_to_the_resumed_run(tmp_path, monkeypatch):
    step, settings = Loop._step, {**SMALL, "total_steps": 500, "deterministic": True}
    train("dqn", "CartPole-v1", run_dir=str(tmp_path / "whole"), **settings)

    def interrupted(loop):
        step(loop)
        if loop._counts.committed == 400:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(Loop, "_step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train("dqn", "CartPole-v1", run_dir=str(tmp_path / "taken up"), **settings)
    resume(tmp_path / "taken up")
    whole, taken_up = (
        [row for row in rows_of(tmp_path / name) if "eval_return" in row] for name in ("whole", "taken up")
    )
    assert [row["num_steps"] for row in whole] == [400, 500]
    assert taken_up == whole


@pytest.mark.release
def test_a_run_interrupted_in_the_least_warm_up_there_can_be_goes_on_though_open_windows_are_lost(tmp_path):
    least = 64 + 8 * 2  # a batch, and two open windows of three steps in each environment
    settings = {
        **SMALL, "warmup_steps": least, "batch_size": 64, "num_step": 3, "envs_per_actor": 8, "total_steps": 400,
        "log_interval_steps": 8,
    }  # fmt: skip
    run_dir = str(tmp_path / "run")
    with pytest.raises(KeyboardInterrupt):
        train("dqn", "CartPole-v1", run_dir=run_dir, callbacks=[interrupting_at(40)], **settings)
    with pytest.raises(KeyboardInterrupt):
        resume(run_dir, callbacks=[interrupting_at(72)])
    assert load_checkpoint(tmp_path / "run")[1]["num_updates"] == 0
    result = resume(run_dir)
    assert (result.num_steps, result.num_updates) == (400, (400 - least) // 3)


@pytest.mark.parametrize(
    ("algo", "env"),
    [("dqn", "CartPole-v1"), ("ddpg", "Pendulum-v1"), ("td3", "Pendulum-v1"), ("sac", "Pendulum-v1")],
)
def test_a_learner_restored_from_a_checkpoint_has_the_same_state(algo, env):
    settings = {"hidden": (8,), "num_actors": 1, "warmup_steps": 300}
    config = TrainConfig.default(algo, env).override(seed=1, **settings)
    interface = describe(config)
    first, second = Learner(config, interface), Learner(config.override(seed=2), interface)
    saved = {name: array + 1 if name != "params" else array for name, array in first.learned.arrays().items()}
    second.learned.restore(saved)
    restored = second.learned.arrays()
    assert restored.keys() == saved.keys()
    assert all(np.array_equal(restored[name], saved[name]) for name in saved if name != "params")
    assert np.array_equal(restored["params"], saved["params"] + 1)  # the acting network's, of the new state


def filled_replay(config, interface):
    """CartPole's rows, drawn."""
    rng, envs = np.random.default_rng(0), config.envs_per_actor
    replay = make_experience(config, interface, shared=False)
    writer, never = writers(replay, 0)(envs), np.zeros(envs, np.bool_)
    obs = rng.normal(size=(envs, 4)).astype(np.float32)
    for _ in range(200):
        action, reward = rng.integers(0, 2, envs), rng.normal(size=envs).astype(np.float32)
        next_obs = rng.normal(size=(envs, 4)).astype(np.float32)
        writer.add(obs=obs, action=action, reward=reward, next_obs=next_obs, terminated=never, truncated=never)
        obs = next_obs
    return replay


def test_calls_begun_one_after_the_other_give_what_calls_finished_in_between_do():
    settings = {"hidden": (8,), "warmup_steps": 300, "prioritized": False, "updates_per_call": 4, "seed": 3}
    config = TrainConfig.default("dqn", "CartPole-v1").override(num_actors=1, **settings)
    interface = describe(config)
    learners, found = [Learner(config, interface) for _ in range(2)], ([], [])
    replays = [filled_replay(config, interface) for _ in learners]

    def note(index):
        learner = learners[index]
        found[index].append((learner.learned.num_updates, learner.metrics, learner.learned.vector.tobytes()))

    for count in (4, 3, 4):
        learners[0].learn(replays[0], count, 0.5)
        note(0)
    learners[1].begin(replays[1], 4, 0.5)
    for before, count in ((4, 3), (7, 4)):
        learners[1].begin(replays[1], count, 0.5)
        learners[1].finish(replays[1])
        assert learners[1].learned.num_updates == before
        note(1)
    learners[1].finish(replays[1])
    note(1)
    assert found[0] == found[1]
    states = [learner.learned.arrays() for learner in learners]
    assert all(np.array_equal(states[0][name], states[1][name]) for name in states[0])


@pytest.mark.parametrize(
    "variant",
    [{"prioritized": False, "num_step": 1, "double": False}, {"dueling": True, "tolerance": 0}, {"update_ratio": 0}],
)
def test_the_variants_run(tmp_path, variant):
    settings = {**SMALL, "total_steps": 401, "warmup_steps": 300, **variant}
    result = train("dqn", "CartPole-v1", run_dir=str(tmp_path), **settings)
    assert result.num_steps == 401


@pytest.mark.release
@pytest.mark.parametrize("algo", ["ddpg", "td3", "sac"])
def test_continuous_control_is_reproducible_to_the_last_bit(tmp_path, algo):
    settings = {**SMALL, "total_steps": 401, "warmup_steps": 300, "eval_max_steps": 50}
    settings |= {"normalize_observations": True, "normalize_rewards": True}
    results = [train(algo, "Pendulum-v1", run_dir=str(tmp_path / name), **settings) for name in "ab"]
    arrays = [load_checkpoint(result.run_dir)[0] for result in results]
    assert all(arrays[0][name].tobytes() == arrays[1][name].tobytes() for name in arrays[0])
    assert results[0].returns == results[1].returns
    assert results[0].num_updates == 101 // 3


@pytest.mark.release
def test_discrete_observations_can_be_learned_from(tmp_path):
    settings = {**SMALL, "total_steps": 500, "eval_max_steps": 50}
    assert train("dqn", "FrozenLake-v1", run_dir=str(tmp_path), **settings).num_steps == 500
