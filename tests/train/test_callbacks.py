"""Callbacks see what metrics.jsonl has, end runs early or by what they raise, and leave runs in good order."""

import contextlib
import dataclasses
import gc
import os
import signal
import threading
import weakref
from pathlib import Path

import pytest

pytest.importorskip("jax", reason="needs the train extra")

from gymnasium.envs.classic_control import CartPoleEnv
from whole_run import SMALL, rows_of

from drivetrain.core.errors import InvalidInput
from drivetrain.train import resume, train
from drivetrain.train.callbacks import Callbacks
from drivetrain.train.config import TrainConfig
from drivetrain.train.run_dir.checkpoint import load_checkpoint, load_replay
from drivetrain.train.run_dir.folder import RunLock, load_result

LONG = {**SMALL, "total_steps": 1_000_000}


class Watcher:
    """Notes every event, and where it was called."""

    def __init__(self, act=lambda event: None):
        self.act = act
        self.events = []
        self.places = set()

    def __call__(self, event):
        self.events.append(event)
        self.places.add((os.getpid(), threading.get_ident()))
        return self.act(event)

    def kinds(self):
        return [event.kind for event in self.events]


def stop_at_an_evaluation(event):
    return "stop" if event.kind == "evaluation" else None


def children():
    return set(Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split())


@pytest.mark.release
@pytest.mark.parametrize("num_actors", [0, 1])
def test_a_callback_sees_every_row_ends_the_run_early_and_the_run_can_be_resumed(tmp_path, num_actors):
    run_dir = tmp_path / "run"
    watcher = Watcher(stop_at_an_evaluation)
    result = train(
        "dqn", "CartPole-v1", run_dir=str(run_dir), num_actors=num_actors, seed=3, callbacks=[watcher], **LONG
    )
    assert 500 <= result.num_steps < 1_000_000
    assert result.num_updates == (result.num_steps - 200) // 2
    assert len(result.returns) == 3
    assert [dict(event.row) for event in watcher.events[:-1]] == rows_of(run_dir)
    assert {"record", "evaluation", "checkpoint", "end"} == set(watcher.kinds())
    assert watcher.kinds().count("end") == 1
    assert watcher.events[-1].result is result
    assert watcher.events[-1].num_steps == result.num_steps
    assert {(event.run_dir, event.config.run.seed) for event in watcher.events} == {(run_dir, 3)}
    assert watcher.places == {(os.getpid(), threading.get_ident())}
    assert load_result(run_dir)["num_steps"] == result.num_steps

    again = Watcher()
    total = result.num_steps + 700
    resumed = resume(run_dir, total_steps=total, callbacks=[again])
    assert (resumed.num_steps, resumed.num_updates) == (total, (total - 200) // 2)
    assert min(event.num_steps for event in again.events) >= result.num_steps
    assert again.events[-1].result is resumed


@pytest.mark.release
@pytest.mark.parametrize("num_actors", [0, 1])
def test_what_a_callback_raises_ends_the_run_in_good_order_and_reaches_the_caller(tmp_path, num_actors):
    class Mistake(Exception):
        pass

    mistake = Mistake("in the callback")

    def fail(event):
        if event.kind == "evaluation":
            raise mistake

    run_dir, watcher, failing = tmp_path / "run", Watcher(), Watcher(fail)
    before = children()
    with pytest.raises(Mistake) as raised:
        train("dqn", "CartPole-v1", run_dir=str(run_dir), num_actors=num_actors, callbacks=[failing, watcher], **LONG)
    assert raised.value is mistake
    assert children() == before, "processes are left"
    assert failing.kinds()[-1] == "evaluation", "nobody calls it again"
    assert watcher.kinds()[-1] == "end"
    assert watcher.events[-1].result is None
    assert load_checkpoint(run_dir)[1]["num_steps"] >= 500
    with load_replay(run_dir, shared=False) as replay:
        assert len(replay) > 0
    assert load_result(run_dir) is None
    RunLock(run_dir).close()


def test_what_is_raised_at_the_checkpoint_of_an_interrupt_reaches_the_caller_of_a_run_in_turns_too(tmp_path):
    def interrupt_and_raise(event):
        if event.kind == "record":
            os.kill(os.getpid(), signal.SIGINT)
        if event.kind == "checkpoint" and event.num_steps > 204:  # the first is of the end of warm-up
            raise ZeroDivisionError

    settings = {**SMALL, "total_steps": 1_000, "log_interval_steps": 240, "num_actors": 0}
    with pytest.raises(ZeroDivisionError):
        train("dqn", "CartPole-v1", run_dir=str(tmp_path), callbacks=[interrupt_and_raise], **settings)
    assert load_checkpoint(tmp_path)[1]["num_steps"] >= 240


def test_what_is_raised_at_the_checkpoint_of_an_environments_fault_reaches_the_caller_who_is_told_of_both(
    tmp_path, capsys
):
    class Breaking(CartPoleEnv):
        num_steps = 0

        def step(self, action):
            Breaking.num_steps += 1
            if Breaking.num_steps > 300:
                raise RuntimeError("the pole broke")
            return super().step(action)

    def fail(event):
        if event.kind == "checkpoint" and event.num_steps > 204:  # the first is of the end of warm-up
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train("dqn", Breaking, run_dir=str(tmp_path), num_actors=0, callbacks=[fail], **LONG)
    assert "RuntimeError: the pole broke" in capsys.readouterr().err
    assert load_checkpoint(tmp_path)[1]["num_steps"] >= 296


@pytest.mark.slow  # two runs of PPO; the ledger's own tests end rollouts early within a second
@pytest.mark.parametrize("num_actors", [0, 2])
def test_a_run_of_rollouts_ends_early_with_a_whole_one(tmp_path, num_actors):
    settings = {"num_envs": 4, "rollout_length": 32, "batch_size": 32, "num_epochs": 2, "hidden": (8,)}
    evaluation = {"eval_interval_steps": 500, "eval_episodes": 1, "final_eval_episodes": 1}
    fields = {**settings, **evaluation, "total_steps": 1_000_000, "num_actors": num_actors}
    result = train("ppo", "CartPole-v1", run_dir=str(tmp_path), callbacks=[stop_at_an_evaluation], **fields)
    assert 500 <= result.num_steps < 1_000_000
    assert result.num_steps % 128 == 0
    assert result.num_updates == result.num_steps // 128 * 8


@pytest.mark.parametrize("callbacks", [print, [print, 3], "stop"])
def test_what_is_no_list_of_functions_is_refused_before_anything_starts(tmp_path, callbacks):
    with pytest.raises(InvalidInput, match="callbacks: expected a list of functions of an Event"):
        train("dqn", "CartPole-v1", run_dir=str(tmp_path / "run"), callbacks=callbacks)
    assert list(tmp_path.iterdir()) == []


def told(*callbacks):
    return Callbacks(callbacks, TrainConfig.default("dqn", "CartPole-v1"), Path("run"))


@pytest.mark.parametrize("answer", [True, False, "halt", 0])
def test_an_answer_that_other_libraries_give_is_refused_rather_than_guessed(answer):
    callbacks = told(lambda event: answer)
    callbacks.tell({"num_steps": 1})
    with pytest.raises(InvalidInput, match='callback: expected "stop" to end the run, or None to go on, got'):
        callbacks.require_none_raised()
    assert not callbacks.wants_stop


def test_numbers_that_are_not_finite_are_left_out_as_in_the_file():
    watcher = Watcher()
    told(watcher).tell({"num_steps": 5, "episode_return": float("nan")})
    assert watcher.events[0].row == {"num_steps": 5}
    assert watcher.events[0].num_steps == 5


def test_what_one_callback_does_to_its_row_is_not_seen_by_others_nor_by_the_next_event():
    watcher = Watcher()
    callbacks = told(lambda event: event.row.clear(), watcher)
    callbacks.tell({"num_steps": 5, "loss": 1.0})
    callbacks.end(None)
    assert [event.row for event in watcher.events] == [{"num_steps": 5, "loss": 1.0}] * 2


def test_everybody_is_told_of_the_end_even_if_one_raises_then():
    def fail(event):
        raise ValueError("at the end")

    watcher = Watcher()
    callbacks = told(fail, watcher)
    with pytest.raises(ValueError, match="at the end"):
        callbacks.end(None)
    assert watcher.kinds() == ["end"]


def test_of_several_that_raise_at_the_end_the_first_is_raised_and_tells_of_the_others():
    def fail(event):
        raise ValueError("first")

    def fail_too(event):
        raise KeyError("second")

    with pytest.raises(ValueError, match="first") as raised:
        told(fail, fail_too).end(None)
    assert raised.value.__notes__ == ["another callback raised, too: KeyError('second')"]


def test_who_has_raised_is_told_no_more_and_one_that_is_equal_to_it_is():
    @dataclasses.dataclass
    class Raising:
        kinds: list = dataclasses.field(default_factory=list, compare=False)
        raises: bool = dataclasses.field(default=False, compare=False)

        def __call__(self, event):
            self.kinds.append(event.kind)
            if self.raises:
                raise ZeroDivisionError

    quiet, raising = Raising(), Raising(raises=True)
    callbacks = told(quiet, raising, raising)
    callbacks.tell({"num_steps": 1})
    callbacks.end(None)
    assert (quiet.kinds, raising.kinds) == (["record", "end"], ["record"])


@pytest.mark.parametrize("kind", ["record", "end"])
def test_what_was_raised_holds_nothing_of_the_run_once_the_caller_has_dealt_with_it(kind):
    def fail(event):
        raise ZeroDivisionError

    def carry_out():
        callbacks = Callbacks([fail], TrainConfig.default("dqn", "CartPole-v1"), Path("RUN"))
        held.append(weakref.ref(callbacks))
        if kind == "record":
            callbacks.tell({"num_steps": 1})
            callbacks.require_none_raised()
        callbacks.end(None)

    held = []
    gc.disable()
    try:
        with contextlib.suppress(ZeroDivisionError):
            carry_out()
        assert held[0]() is None
    finally:
        gc.enable()
