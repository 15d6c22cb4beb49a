"""What is shown of a run, on streams that take little or nothing."""

import errno
import sys

from drivetrain.train.progress import Display


class Stream:
    """What is written to it, or a disk without room; a terminal or a file."""

    encoding = "utf-8"

    def __init__(self, *, is_full=False, is_terminal=False):
        self.text, self._is_full, self._is_terminal = "", is_full, is_terminal

    def write(self, text):
        if self._is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.text += text

    def flush(self):
        self.write("")

    def isatty(self):
        return self._is_terminal


def test_a_log_without_room_ends_no_run(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Stream(is_full=True))
    monkeypatch.setattr("drivetrain.train.progress._LINE_INTERVAL_S", 0.0)
    display = Display(1_000, quiet=False)
    display.note("a sentence")
    display.show({"num_steps": 500})
    display.close()


def test_a_terminal_that_cannot_redraw_gets_lines(monkeypatch):
    terminal = Stream(is_terminal=True)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr("drivetrain.train.progress._LINE_INTERVAL_S", 0.0)
    display = Display(1_000, quiet=False)
    display.show({"num_steps": 500, "episode_return": 20.0})
    assert terminal.text == "500/1,000 steps  return 20.0\n"
    display.close()
