"""Grants of the rate limiter, by the participation that holds them: errors, interrupts, garbage, forks."""

import gc
import sys
import time
from fractions import Fraction

import pytest
from children import run_script, waiting_for

from drivetrain.core.errors import Closed
from drivetrain.replay.limiter import Limiter, RateLimit
from drivetrain.replay.tally import Tally


def make(**changes):
    return Limiter(**{"updates_per_insert": Fraction(1, 2), "tolerance": 4, "min_size": 10, **changes})


def test_an_exception_in_a_turn_leaves_what_was_acquired_before_it():
    with make() as limiter, limiter.producer() as producer:
        producer.acquire(4)
        with pytest.raises(KeyError), producer.turn(2):
            raise KeyError("of the caller")
        assert limiter.counts().granted == 4
        producer.commit(4)


@pytest.mark.filterwarnings("error")  # of what nobody can catch
def test_an_exception_in_a_turn_whose_participation_was_closed_is_that_exception():
    def suspended():
        with producer.turn(2):
            yield

    def fail():
        with producer.turn(2):
            producer.close()
            raise KeyError("of the caller")

    with make() as limiter:
        producer = limiter.producer()
        with pytest.raises(KeyError, match="of the caller"):
            fail()
        producer = limiter.producer()
        program = suspended()
        next(program)
        producer.close()
        del program
        assert limiter.counts().granted == 0


def test_ctrl_c_in_a_wait_that_has_just_been_granted_gives_the_grant_back(monkeypatch):
    with make() as limiter, limiter.producer() as producer:
        producer.acquire(3)
        wait = Tally.wait

        def interrupted(*arguments):
            wait(*arguments)
            raise KeyboardInterrupt

        monkeypatch.setattr(Tally, "wait", interrupted)
        for attempt in (lambda: producer.acquire(2), lambda: producer.turn(2).__enter__()):
            with pytest.raises(KeyboardInterrupt):
                attempt()
            assert limiter.counts().granted == 3
        monkeypatch.undo()
        producer.commit(3)


def test_ctrl_c_in_a_wait_of_a_participation_that_was_closed_takes_nothing_from_who_has_its_place_now(monkeypatch):
    with make() as limiter, limiter.producer() as producer:

        def interrupted(*_):
            producer.close()
            monkeypatch.undo()
            others.append(limiter.producer())
            others[0].acquire(3)
            raise KeyboardInterrupt

        others = []
        monkeypatch.setattr(Tally, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            producer.acquire(2)
        assert limiter.counts().granted == 3
        others[0].commit(3)


class Interrupt:
    """Raises at the n-th call or return that Python makes from here on, as a signal's handler may."""

    def __init__(self, number):
        self.left = number

    def __call__(self, *_):
        self.left -= 1
        if self.left == 0:
            sys.setprofile(None)
            raise KeyboardInterrupt


def test_ctrl_c_anywhere_behind_the_block_of_a_turn_leaves_nothing_granted_and_not_done():
    with make(updates_per_insert=0) as limiter, limiter.producer() as producer:
        ends, counts = [], limiter.counts()
        while "undisturbed" not in ends:
            before = counts
            try:
                with producer.turn(2):
                    sys.setprofile(Interrupt(len(ends) + 1))
                sys.setprofile(None)
                ends.append("undisturbed")
            except KeyboardInterrupt:
                ends.append("interrupted")
            counts = limiter.counts()
            assert counts.granted == counts.committed
            if ends[-1] == "interrupted" and counts.committed > before.committed:
                ends[-1] = "done all the same"
        assert ends.count("done all the same") > 10


def test_ctrl_c_ends_a_wait_for_the_lock_that_a_stopped_process_keeps_and_what_is_done_counts():
    run_script("""
import signal
from children import *
from drivetrain.replay.limiter import Limiter
limiter = Limiter(1, tolerance=8)
producer, interrupts = limiter.producer(), []
def hold_and_stop():
    with limiter._tally._mutex:
        os.kill(os.getpid(), signal.SIGSTOP)
def interrupt(*_):
    interrupts.append(limiter.counts())
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
try:
    with producer.turn(2):
        pid = forked(hold_and_stop)
        assert os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1])
        signal.setitimer(signal.ITIMER_REAL, 0.3, 20)
except KeyboardInterrupt:
    assert interrupts == [(2, 0, 0, 0)]
assert limiter.counts() == (2, 2, 0, 0)
signal.setitimer(signal.ITIMER_REAL, 0.3, 20)
try:
    producer.acquire()
except KeyboardInterrupt:
    assert len(interrupts) == 2
assert limiter.counts() == (2, 2, 0, 0)
signal.setitimer(signal.ITIMER_REAL, 0)
os.kill(pid, signal.SIGCONT)
assert wait_for(pid) == 0
with producer.turn(3, timeout_s=60):
    pass
assert limiter.counts() == (5, 5, 0, 0)
""")


def test_a_participation_that_nobody_holds_any_more_is_ended():
    """As of a cell of a notebook that is run again, or of a function that failed."""
    with make(num_participants=2) as limiter:
        for _ in range(10):
            producer = limiter.producer()
            producer.acquire(3)
            del producer
            gc.collect()
            assert limiter.counts().granted == 0
        assert len([limiter.producer() for _ in range(2)]) == 2


def test_a_forked_child_that_closes_or_drops_a_participation_takes_nothing_from_its_parent():
    run_script("""
from children import *
from drivetrain.replay.limiter import Limiter
limiter = Limiter(1, tolerance=8)
producer = limiter.producer()
producer.acquire(4)
def drop():
    global producer
    del producer
assert wait_for(forked(producer.close)) == 0
assert wait_for(forked(drop)) == 0
assert limiter.counts().granted == 4
producer.commit(4)
""")


def test_a_process_that_has_no_file_descriptor_left_takes_no_other_for_dead():
    run_script("""
import resource
from children import *
from drivetrain.core.errors import TimedOut
from drivetrain.replay.limiter import Limiter
limiter = Limiter(1, tolerance=8)
ready, told = os.pipe()
go, let_go = os.pipe()
def insert():
    producer = limiter.producer()
    producer.acquire(4)
    os.write(told, b"x")
    os.read(go, 1)
    producer.commit(4)
pid = forked(insert)
os.read(ready, 1)
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
mine = limiter.consumer()
try:
    mine.acquire(timeout_s=0.7)
except TimedOut as error:
    assert "dead" not in str(error), error
limiter.producer().close()
os.write(let_go, b"x")
assert wait_for(pid) == 0
mine.acquire(4, timeout_s=30)
assert limiter.counts().committed == 4
""")


def test_what_a_killed_process_was_granted_comes_back_however_busy_the_others_are():
    """A wait is woken more often than the dead are looked for when nobody wakes it."""
    run_script("""
import signal, threading
from children import *
from drivetrain.replay.limiter import Limiter
limiter = Limiter(1, tolerance=3)
producer, busy, waiting = limiter.producer(), limiter.consumer(), limiter.consumer()
producer.acquire(3)
producer.commit(3)
def take_and_die():
    taken = limiter.consumer()
    taken.acquire(3)
    os.kill(os.getpid(), signal.SIGKILL)
assert wait_for(forked(take_and_die)) == -signal.SIGKILL
assert limiter.counts().taken == 3
granted = threading.Event()
threading.Thread(target=lambda: (waiting.acquire(2), granted.set()), daemon=True).start()
for _ in range(2_000):
    with producer.turn(timeout_s=60):
        pass
    with busy.turn(timeout_s=60):
        pass
    if granted.wait(0.01):
        break
assert granted.is_set(), limiter.counts()
""")


def test_closing_a_participation_ends_its_wait_in_another_thread_and_nothing_is_granted_to_nobody():
    with make(updates_per_insert=1, min_size=0) as limiter, limiter.producer() as producer:
        consumer = limiter.consumer()
        thread, errors = waiting_for(consumer)
        thread.start()
        time.sleep(0.05)
        consumer.close()
        thread.join(60)
        assert [error.partition(";")[0] for error in errors] == ["this participation is closed"]
        with producer.turn():
            pass
        assert limiter.counts().taken == 0


def test_an_exception_in_a_turn_gives_the_grant_back():
    with make() as limiter, limiter.producer() as producer:

        def fail():
            with producer.turn(5):
                assert limiter.counts() == (5, 0, 0, 0)
                raise KeyError("of the caller")

        with pytest.raises(KeyError):
            fail()
        assert limiter.counts() == (0, 0, 0, 0)
        with producer.turn(5):
            pass
        assert limiter.counts() == (5, 5, 0, 0)


def test_a_participation_stays_in_the_process_that_registered_it():
    run_script("""
from children import *
from drivetrain.core.errors import InvalidInput
from drivetrain.replay.limiter import Limiter
limiter = Limiter(1, tolerance=0)
producer = limiter.producer()
def use_it():
    try:
        producer.acquire()
    except InvalidInput as error:
        assert "belongs to the process that registered it" in str(error)
        limiter.producer().acquire()
assert wait_for(forked(use_it)) == 0
""")


def test_a_turn_that_is_collected_while_its_thread_has_the_lock_gives_the_grant_back():
    """As of a coroutine that nobody awaits any more: garbage is collected in the midst of any call."""

    def suspended():
        with producer.turn(3):
            yield

    with make() as limiter, limiter.producer() as producer:
        program = suspended()
        next(program)
        with limiter._tally._mutex:
            del program
        assert limiter.counts().granted == 0


def test_a_participation_that_is_closed_while_it_is_granted_something_keeps_nothing():
    class Closing(RateLimit):
        def allows_insert(self, granted, updates):
            producer.close()
            return True

    with make() as limiter:
        limiter.rule = Closing(**vars(limiter.rule))
        producer = limiter.producer()
        with pytest.raises(Closed, match="this participation is closed"):
            producer.acquire(3)
        assert limiter.counts().granted == 0


def test_what_a_participation_gave_back_as_another_thread_closed_it_cannot_be_committed(monkeypatch):
    with make() as limiter, limiter.producer() as producer, limiter.producer() as other:
        producer.acquire(2)
        asked = Tally.unfinished

        def closed_meanwhile(tally, side, index):
            amount = asked(tally, side, index)
            producer.close()
            return amount

        monkeypatch.setattr(Tally, "unfinished", closed_meanwhile)
        with pytest.raises(Closed, match="closed by another thread"):
            producer.commit(2)
        assert (limiter.counts().granted, limiter.counts().committed) == (0, 0)
        other.acquire(2)
        other.commit(2)
        assert (limiter.counts().granted, limiter.counts().committed) == (2, 2)
