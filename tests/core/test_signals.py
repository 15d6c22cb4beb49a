"""Ctrl-C, SIGTERM and SIGHUP reach whoever runs, and a Ctrl-C that came before is not forgotten."""

import os
import signal
import time

import pytest

from drivetrain.core.errors import TimedOut
from drivetrain.core.interrupts import noting_interrupts
from drivetrain.core.processes import succeeds_anew
from drivetrain.core.signals import Interruption, Signals, may_be_ctrl_c, raise_for, time_limit


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


@pytest.mark.parametrize("signum", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_what_is_ignored_stays_ignored(signum):
    """As SIGHUP under nohup, and Ctrl-C in the background of a script."""
    before = signal.signal(signum, signal.SIG_IGN)
    try:
        came = []
        with Signals(came.append):
            signal.raise_signal(signum)
        assert came == []
        assert signal.getsignal(signum) == signal.SIG_IGN
    finally:
        signal.signal(signum, before)


def test_a_handler_that_is_not_pythons_stays_where_it_is():
    """As of a program that this interpreter is part of."""
    assert not succeeds_anew("import signal; signal.signal(signal.SIGTERM, None)"), "it could not be put back"
    program = """
import ctypes, signal
handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(lambda signum: None)
libc = ctypes.CDLL(None)
libc.signal.argtypes, libc.signal.restype = [ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p
mine = ctypes.cast(handler, ctypes.c_void_p).value
libc.signal(signal.SIGTERM, mine)
signal.getsignal = {signal.SIGTERM: None}.get  # as it says where the handler was there before Python
from drivetrain.core.signals import Interruption, Signals, may_be_ctrl_c
with Signals(print):
    pass
assert libc.signal(signal.SIGTERM, mine) == mine
"""
    assert succeeds_anew(program)


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


def raised_by(raise_it):
    with pytest.raises(KeyboardInterrupt) as raised:
        raise_it()
    return raised.value


def interrupt_again():
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGINT)


def someones_own():
    raise KeyboardInterrupt


def test_an_interrupt_that_no_signal_of_ours_has_raised_is_somebodys_own():
    for_twice = Interruption()
    with Signals(for_twice.note):
        assert may_be_ctrl_c(raised_by(interrupt_again))
        assert not may_be_ctrl_c(raised_by(someones_own))
    with noting_interrupts():
        assert may_be_ctrl_c(raised_by(interrupt_again))
        assert not may_be_ctrl_c(raised_by(someones_own))
    assert may_be_ctrl_c(raised_by(someones_own)), "Python's own handler leaves no trace"
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert not may_be_ctrl_c(raised_by(someones_own))
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_second_signal_raises_except_where_that_would_break_something_and_the_last_one_says_how_to_end():
    interruption = Interruption()
    with interruption.held():
        interruption.note(signal.SIGINT)
        interruption.note(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        interruption.note(signal.SIGINT)
    with pytest.raises(SystemExit) as ended:
        raise_for(interruption.signum)
    assert ended.value.code == 128 + signal.SIGTERM
    with pytest.raises(KeyboardInterrupt):
        raise_for(signal.SIGINT)


@pytest.fixture
def no_alarm():
    """Nobody has set an alarm; the one that ends a hanging test goes on afterwards."""
    left_s, handler = signal.setitimer(signal.ITIMER_REAL, 0)[0], signal.signal(signal.SIGALRM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, left_s)


@pytest.mark.usefixtures("no_alarm")
def test_what_takes_longer_than_its_time_raises_a_sentence_and_what_does_not_leaves_no_alarm():
    with pytest.raises(TimedOut, match="it hangs"), time_limit(0.01, "it hangs"):
        time.sleep(60)
    for seconds in (60.0, float("inf")):
        with time_limit(seconds, "it hangs"):
            assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
    assert (signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)[0]) == (signal.SIG_DFL, 0)


STOPPED = """
import os, signal, subprocess
from drivetrain.core.errors import TimedOut
from drivetrain.core.signals import time_limit
goes_on = False
try:
    with time_limit(0.3, "it hangs"):
        with subprocess.Popen(["sh", "-c", f"sleep 1.5; kill -CONT {os.getpid()}"]):
            os.kill(os.getpid(), signal.SIGSTOP)
        goes_on = True
        signal.pause()
except TimedOut:
    assert goes_on
else:
    raise AssertionError
"""


def test_what_was_stopped_when_its_time_was_over_has_it_again_and_no_more():
    assert succeeds_anew(STOPPED)


@pytest.mark.usefixtures("no_alarm")
def test_an_alarm_that_somebody_else_has_set_is_left_as_it_is():
    signal.setitimer(signal.ITIMER_REAL, 50)
    with time_limit(0.001, "it hangs"):
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 50
        time.sleep(0.01)
    assert signal.getitimer(signal.ITIMER_REAL)[0] > 1
    signal.setitimer(signal.ITIMER_REAL, 0)
