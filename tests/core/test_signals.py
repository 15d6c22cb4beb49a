"""Ctrl-C, SIGTERM and SIGHUP reach whoever runs, and a Ctrl-C that came before is not forgotten."""

import os
import signal

import pytest

from drivetrain.core.interrupts import noting_interrupts
from drivetrain.core.signals import Signals


@pytest.mark.usefixtures("usual_hangups")
def test_signals_go_to_the_run_and_back_to_whom_they_went_before():
    signums = [signal.SIGHUP, signal.SIGINT, signal.SIGTERM]
    before = [signal.getsignal(signum) for signum in signums]
    came = []
    with Signals(came.append):
        for signum in signums:
            signal.raise_signal(signum)
    assert came == signums
    assert [signal.getsignal(signum) for signum in signums] == before


@pytest.mark.usefixtures("usual_hangups")
@pytest.mark.parametrize("first", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_a_terminal_that_goes_away_is_no_second_interrupt_however_often_it_says_so(first):
    came = []
    with Signals(came.append):
        for signum in (first, signal.SIGHUP, signal.SIGHUP):
            signal.raise_signal(signum)
    assert came == [first]


def test_under_nohup_a_terminal_may_go_away():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        came = []
        with Signals(came.append):
            signal.raise_signal(signal.SIGHUP)
        assert came == []
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("pythons_own_interrupts")
def test_a_ctrl_c_that_a_library_swallowed_while_it_loaded_ends_a_run_before_it_begins():
    before = [signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM)]
    with noting_interrupts() as notes:
        assert not notes.came
        with Signals(lambda signum: None):  # nothing came
            pass
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt), Signals(lambda signum: None):
            raise AssertionError("the run began")
        assert signal.getsignal(signal.SIGINT) is notes
    assert [signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM)] == before


def test_whoever_has_a_handler_of_their_own_keeps_it():
    def own(signum, frame):
        came.append(signum)

    came, before = [], signal.signal(signal.SIGINT, own)
    try:
        with noting_interrupts() as notes:
            signal.raise_signal(signal.SIGINT)
        assert came == [signal.SIGINT]
        assert not notes.came
        assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("pythons_own_interrupts")
def test_after_a_run_was_interrupted_another_ctrl_c_ends_the_command_at_once_and_a_caller_of_train_not(monkeypatch):
    ended, own = [], signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(os, "_exit", ended.append)
    with Signals(lambda signum: None):
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is own
    with noting_interrupts():
        with Signals(lambda signum: None):
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
    assert ended == [130]
    assert signal.getsignal(signal.SIGINT) is own
