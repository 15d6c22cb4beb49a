"""What is shown of a run, on streams that take little or nothing."""

import contextlib
import errno
import os
import sys

import pytest

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
    display = Display(1_000, quiet=False)
    display.note("a sentence")
    display.show({"num_steps": 500})
    assert stream.num_refused > 0
    display.close()


def test_a_row_of_steps_that_are_past_does_not_set_the_bar_back(monkeypatch):
    terminal = Stream(is_terminal=True)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with contextlib.closing(Display(50_000, quiet=False)) as display:
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
    display = Display(1_000, quiet=False)
    display.show({"num_steps": 500, "episode_return": 20.0, "eval_return": -0.0484})
    assert terminal.text == "500/1,000 steps  return 20.0  evaluated -0.0484\n"
    display.close()
