"""What is shown of a run, on streams that take little or nothing."""

import contextlib
import errno
import os
import sys

import pytest

from drivetrain.train import train
from drivetrain.train.telemetry.progress import Display


class Stream:
    """What is written to it, or a disk without room; a terminal or a file."""

    encoding = "utf-8"

    def __init__(self, *, error=None, is_terminal=False):
        self.text, self._error, self._is_terminal, self.num_refused = "", error, is_terminal, 0

    def write(self, text):
        if self._error is not None:
            self.num_refused += 1
            raise OSError(self._error, os.strerror(self._error))
        self.text += text

    def flush(self):
        self.write("")

    def isatty(self):
        return self._is_terminal


@pytest.mark.parametrize("is_terminal", [False, True])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EPIPE])
def test_a_log_without_room_or_that_nobody_reads_any_more_ends_no_run(monkeypatch, error, is_terminal):
    stream = Stream(error=error, is_terminal=is_terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr("drivetrain.train.telemetry.progress._LINE_INTERVAL_S", 0.0)
    display = Display(1_000)
    display.note("a sentence")
    display.show({"num_steps": 500})
    assert stream.num_refused > 0
    display.close()


def test_a_row_of_steps_that_are_past_does_not_set_the_bar_back(monkeypatch):
    terminal = Stream(is_terminal=True)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with contextlib.closing(Display(50_000)) as display:
        display.show({"num_steps": 14_000, "episode_return": 20.0})
        display.show({"num_steps": 12_500, "eval_return": 321.5})
        assert sys.stderr is not terminal
    assert sys.stderr is terminal
    assert "14,000 of 50,000 steps" in terminal.text
    assert "12,500" not in terminal.text
    assert "evaluated 321.5" in terminal.text


def test_a_terminal_that_cannot_redraw_gets_lines(monkeypatch):
    terminal = Stream(is_terminal=True)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr("drivetrain.train.telemetry.progress._LINE_INTERVAL_S", 0.0)
    display = Display(1_000)
    display.show({"num_steps": 500, "episode_return": 20.0, "eval_return": -0.0484})
    assert terminal.text == "500/1,000 steps  return 20.0  evaluated -0.0484\n"
    display.close()


def test_the_last_evaluations_are_told_of_once_on_a_line_when_one_is_due(monkeypatch):
    stream = Stream()
    monkeypatch.setattr(sys, "stderr", stream)
    with contextlib.closing(Display(1_000)) as display:
        display.evaluating(100)
        assert stream.text == ""
        monkeypatch.setattr("drivetrain.train.telemetry.progress._LINE_INTERVAL_S", 0.0)
        display.evaluating(100)
        display.evaluating(100)
    told = "all steps are taken; the best policy is evaluated over 100 episodes (final_eval_episodes)\n"
    assert stream.text == told


def test_the_last_evaluations_are_told_of_at_once_below_the_bar_and_stay_there(monkeypatch):
    terminal = Stream(is_terminal=True)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with contextlib.closing(Display(500)) as display:
        display.show({"num_steps": 500, "episode_return": 20.0})
        display.evaluating(1)
        display.show({"num_steps": 500, "eval_return": 321.5})
    last = terminal.text.rpartition("500 of 500 steps")[2]
    assert "evaluated 321.5" in last
    assert "is evaluated over 1 episode (" in last


@pytest.mark.parametrize("num_actors", [0, pytest.param(1, marks=pytest.mark.whole)])
def test_a_run_tells_of_its_last_evaluations(monkeypatch, capfd, tmp_path, num_actors):
    pytest.importorskip("jax", reason="needs the train extra")
    monkeypatch.setattr("drivetrain.train.telemetry.progress._LINE_INTERVAL_S", 0.0)
    few = {"total_steps": 20, "envs_per_actor": 1, "eval_episodes": 1, "eval_interval_steps": 10, "time_report": False}
    settings = {**few, "num_actors": num_actors, "final_eval_episodes": 3, "hidden": (4,), "eval_envs": 1}
    train("dqn", "strange_envs:Slow-v0", run_dir=str(tmp_path), **settings)
    lines = capfd.readouterr().err.splitlines()
    assert sum("all steps are taken; the best policy is evaluated over 3 episodes" in line for line in lines) == 1
