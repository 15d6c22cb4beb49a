"""The rate limiter: the ratio holds at every instant, whoever waits, dies or gives up."""

import multiprocessing
import os
import pickle
import signal
import threading
import time
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from children import run_script, waiting_for
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.core.errors import Closed, InvalidInput, OwnerDead, SegmentError, TimedOut
from drivetrain.replay import Replay
from drivetrain.replay.limiter import Limiter, RateLimit

HALF = Fraction(1, 2)


def make(ratio=HALF, **changes):
    return Limiter(ratio, **{"tolerance": 4, "min_size": 10, **changes})


def test_due_updates_are_the_floor_of_the_ratio_times_inserts_after_the_first():
    rule = RateLimit(updates_per_insert=Fraction(2, 3), tolerance=0, min_size=10)
    assert [rule.due(inserts) for inserts in (0, 10, 11, 12, 13, 16)] == [0, 0, 0, 1, 2, 4]
    assert RateLimit(updates_per_insert=Fraction(1, 10), tolerance=0, min_size=0).due(3 * 10**17) == 3 * 10**16


@pytest.mark.whole
@settings(max_examples=60, deadline=None)
@given(
    data=st.data(),
    ratio=st.fractions(min_value=0, max_value=4, max_denominator=7),
    tolerance=st.integers(0, 9),
    min_size=st.integers(0, 30),
    inserts=st.integers(1, 7),
    updates=st.integers(1, 5),
    steps=st.integers(1, 80),
)
def test_any_order_of_turns_and_failures_keeps_the_promises(data, ratio, tolerance, min_size, inserts, updates, steps):
    updates = min(updates, tolerance + 1)
    with make(ratio, tolerance=tolerance, min_size=min_size) as limiter:
        producers = [limiter.producer() for _ in range(2)]
        consumers = [limiter.consumer() for _ in range(2)]
        amounts = {**dict.fromkeys(producers, inserts), **dict.fromkeys(consumers, updates)}
        unfinished = dict.fromkeys(amounts, 0)
        for _ in range(steps):
            one = data.draw(st.sampled_from([*amounts]))
            move = data.draw(st.sampled_from(["acquire", "commit", "leave"]))
            if move == "acquire" and not unfinished[one]:
                counts, rule = limiter.counts(), limiter.rule
                if one in producers:
                    allowed = rule.due(counts.granted) - counts.updates <= tolerance
                else:
                    allowed = rule.due(counts.committed) - counts.taken >= updates
                try:
                    one.acquire(amounts[one], timeout_s=0)
                    unfinished[one] = amounts[one]
                    assert allowed
                except TimedOut:
                    assert not allowed
            elif move == "commit" and unfinished[one]:
                one.commit(unfinished.pop(one))
                unfinished[one] = 0
            elif move == "leave":
                one.close()  # and gives back
                new = limiter.producer() if one in producers else limiter.consumer()
                (producers if one in producers else consumers).append(new)
                (producers if one in producers else consumers).remove(one)
                amounts[new], unfinished[new] = amounts.pop(one), 0
                del unfinished[one]
            counts = limiter.counts()
            assert counts.updates <= counts.taken <= limiter.rule.due(counts.committed), "consumers ran ahead"
            bound = tolerance + -(-ratio.numerator * inserts // ratio.denominator)
            assert limiter.rule.due(counts.granted) - counts.updates <= bound + (counts.taken - counts.updates), (
                "producers ran ahead"
            )
            assert counts.granted - counts.committed == sum(unfinished[p] for p in producers)
            assert counts.taken - counts.updates == sum(unfinished[c] for c in consumers)


def produce(handle, replay_handle, num_steps, pause_s):
    with Limiter.attach(handle) as limiter, Replay.attach(replay_handle) as replay, limiter.producer() as producer:
        writer, flags = replay.writer(4), np.zeros(4, bool)
        for _ in range(num_steps // 4):
            with producer.turn(4, timeout_s=60):
                time.sleep(pause_s)
                writer.add(x=np.zeros(4, np.uint8), reward=np.zeros(4), terminated=flags, truncated=flags)


@pytest.mark.whole
def test_processes_keep_the_ratio_and_a_killed_producer_stops_nobody():
    with (
        make(Fraction(1, 4), tolerance=8, min_size=100) as limiter,
        Replay(5000, {"x": ((), "uint8")}, shared=True) as replay,
        limiter.consumer() as consumer,
    ):
        spawn = multiprocessing.get_context("spawn")
        handles = limiter.handle(), replay.handle()
        steady = spawn.Process(target=produce, args=(*handles, 1200, 0.0), daemon=True)
        killed = spawn.Process(target=produce, args=(*handles, 10**9, 0.01), daemon=True)
        killed.start()
        while not limiter.counts().granted:
            assert killed.is_alive()
        steady.start()
        while True:  # until the steady one is done and nothing is owed
            had_ended = not steady.is_alive()
            try:
                with consumer.turn(timeout_s=0.2):
                    replay.sample(32)
            except TimedOut:
                if had_ended:
                    break
            counts = limiter.counts()
            if counts.updates >= 20 and counts.granted > counts.committed and killed.is_alive():
                os.kill(killed.pid, signal.SIGKILL)
                killed.join()
            assert counts.updates <= limiter.rule.due(replay.num_inserted)
            assert limiter.rule.due(counts.granted) - counts.updates <= 8 + 2
        assert steady.exitcode == 0
        counts = limiter.counts()
        assert limiter.rule.due(counts.committed) == counts.updates >= 275, "1,200 inserts call for 275"


def hold_the_lock_and_stop(handle):
    with Limiter.attach(handle) as limiter, limiter._tally._mutex:
        os.kill(os.getpid(), signal.SIGSTOP)


def test_a_time_out_is_kept_and_names_the_process_that_was_stopped_while_it_held_the_lock():
    with make() as limiter, limiter.producer() as producer, limiter.consumer() as consumer:
        holder = multiprocessing.get_context("spawn").Process(target=hold_the_lock_and_stop, args=(limiter.handle(),))
        holder.start()
        assert os.WIFSTOPPED(os.waitpid(holder.pid, os.WUNTRACED)[1])
        for participant in (producer, consumer):
            with pytest.raises(TimedOut, match=rf"whose lock is held by process {holder.pid}, which does not go on"):
                participant.acquire(timeout_s=0.01)
        os.kill(holder.pid, signal.SIGCONT)
        holder.join()
        producer.acquire(timeout_s=5)


def test_a_consumer_that_gives_up_says_which_producers_it_waited_for():
    with make(tolerance=9) as limiter, limiter.consumer() as consumer:
        none = "expected 3 updates to be owed, got 0 .*1/2 updates per insert after the first 10.*: none registered"
        with pytest.raises(TimedOut, match=none):
            consumer.acquire(3, timeout_s=0.01)
        with limiter.producer() as producer:
            producer.acquire(14)
            producer.commit(12)
            mine = (
                rf"process {os.getpid()} waited 0.01 s for the producers: expected 3 .* got 1 .12 inserts done of 14 "
            )
            with pytest.raises(
                TimeoutError, match=mine + rf".*process {os.getpid()} .2 inserts granted and not committed"
            ):
                consumer.acquire(3, timeout_s=0.01)
        consumer.acquire(1)  # nothing was taken by the wait that ended
        assert limiter.counts() == (12, 12, 0, 1)


def test_a_producer_that_gives_up_says_which_consumers_it_waited_for():
    with make(tolerance=1) as limiter, limiter.producer() as producer, limiter.consumer() as consumer:
        producer.acquire(20)
        producer.commit(20)
        consumer.acquire(2)
        message = (
            r"waited 0 s for the consumers: expected at most 1 updates owed before 4 more inserts, got 5 "
            rf".*0 updates done of 2 granted.*consumers: process {os.getpid()} .2 updates granted and not committed"
        )
        with pytest.raises(TimedOut, match=message):
            producer.acquire(4, timeout_s=0)
        consumer.commit(2)
        consumer.acquire(2, timeout_s=0)
        with pytest.raises(TimedOut, match="got 3 "):
            producer.acquire(4, timeout_s=0)
        consumer.commit(2)
        producer.acquire(4, timeout_s=0)


def take_and_die(handle):
    limiter = Limiter.attach(handle)
    producer, _consumer = limiter.producer(), limiter.consumer()
    producer.acquire(30)
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_dead_process_is_named_and_what_it_was_granted_comes_back():
    with make(tolerance=3) as limiter, limiter.producer() as producer, limiter.consumer() as consumer:
        child = multiprocessing.get_context("spawn").Process(target=take_and_die, args=(limiter.handle(),))
        child.start()
        child.join()
        assert limiter.counts().granted == 30
        with pytest.raises(TimedOut, match=rf"process {child.pid} .dead, 30 inserts granted"):
            consumer.acquire(timeout_s=0)
        producer.acquire(12, timeout_s=60)  # more than is owed stood in the way: the dead one's is given back
        producer.commit(12)
        assert limiter.counts().granted == 12
        consumer.acquire(timeout_s=0)
        with pytest.raises(TimedOut, match=rf"process {child.pid} .dead, 0 inserts"):
            consumer.acquire(timeout_s=0)


def test_a_turn_of_nothing_waits_for_nobody():
    with make(1, tolerance=0, min_size=0) as limiter, limiter.producer() as producer, limiter.consumer() as consumer:
        with producer.turn(1):  # one update is owed: no more inserts
            pass
        marks = np.zeros(4, bool)  # as of environments of which each begins an episode
        with producer.turn(marks.sum(), timeout_s=0):
            pass
        with pytest.raises(TimedOut):
            producer.acquire(1, timeout_s=0)
        with consumer.turn(1), consumer.turn(0, timeout_s=0):
            pass
        assert limiter.counts() == (1, 1, 1, 1)
        limiter.stop()
        with pytest.raises(Closed):
            producer.acquire(0)


def test_stopping_ends_waits_and_later_calls():
    with make() as limiter, limiter.consumer() as consumer:
        waiting, errors = waiting_for(consumer)
        waiting.start()
        limiter.stop()
        waiting.join(30)
        assert errors == ["the limiter was stopped"]
        with pytest.raises(Closed):
            limiter.producer().acquire()


def test_threads_of_one_process_take_part_each_with_their_own():
    with make(1, tolerance=3, min_size=0) as limiter:

        def run(participation, num):
            with participation:
                for _ in range(num):
                    with participation.turn(timeout_s=60):
                        pass

        threads = [threading.Thread(target=run, args=(limiter.producer(), 300)) for _ in range(2)]
        threads += [threading.Thread(target=run, args=(limiter.consumer(), 200)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert limiter.counts() == (600, 600, 600, 600)


def test_an_unrelated_process_attaches_and_a_dead_owner_is_named():
    with make() as limiter:
        text = "from children import *; from drivetrain.replay.limiter import Limiter\n"
        text += "with Limiter.attach(handle_from_stdin()) as limiter, limiter.producer() as one:\n"
        text += "    with one.turn(7): print(limiter.rule)"
        printed = run_script(text, stdin=pickle.dumps(limiter.handle()))
        assert printed.strip() == repr(limiter.rule)
        assert limiter.counts().committed == 7
    text = "from children import *; from drivetrain.replay.limiter import Limiter; limiter = Limiter(1, tolerance=0)\n"
    text += "print(pickle.dumps(limiter.handle()).hex())"
    with pytest.raises(OwnerDead):
        Limiter.attach(pickle.loads(bytes.fromhex(run_script(text))))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Limiter(0.25, tolerance=1), r"a ratio of integers >= 0, .* got 0.25; write 0.25 as Fraction\(1, 4\)"),
        (lambda: Limiter(-1, tolerance=1), "updates_per_insert"),
        (lambda: Limiter(True, tolerance=1), "updates_per_insert"),
        (lambda: Limiter(1, tolerance=-1), "tolerance: expected an integer in"),
        (lambda: Limiter(1, tolerance=1, min_size=1.5), "min_size"),
        (lambda: Limiter(1, tolerance=1, num_participants=0), "num_participants"),
        (lambda: make(tolerance=3).consumer().acquire(5), r"at most tolerance \+ 1 = 4 updates, got 5: .* at least 4"),
        (
            lambda: make().consumer().acquire(timeout_s=float("nan")),
            "timeout_s: expected a number of .* got nan",
        ),
        (lambda: make().consumer().acquire(timeout_s="1"), "timeout_s: expected a number of seconds >= 0"),
        (lambda: make().consumer().acquire(timeout_s=np.zeros(2)), "timeout_s: expected a number of seconds >= 0"),
        (lambda: make().consumer().acquire(timeout_s=10**400), "timeout_s: expected a number of seconds >= 0"),
        (lambda: pickle.dumps(make()), r"a Limiter cannot be pickled .* send limiter\.handle"),
        (lambda: pickle.dumps(make().producer()), r"a Participation cannot be pickled .* register there"),
        (lambda: make().producer().acquire(-1), r"amount: expected an integer in 0\.\..*, got -1"),
        (lambda: make().producer().acquire(2**64), r"amount: expected an integer in .* got 18446744073709551616"),
        (lambda: make().producer().commit(1), "at most the 0 acquired and not committed, got 1; acquire first"),
        (lambda: Limiter.attach("handle"), r"expected what limiter\.handle\(\) returned, got str"),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


def test_seconds_may_be_any_real_number():
    for timeout_s in (np.float32(0.01), np.array(0.01), Fraction(1, 100), Decimal("0.01")):
        with pytest.raises(TimedOut):
            make().consumer().acquire(timeout_s=timeout_s)


def test_a_closed_limiter_says_so():
    limiter = make()
    participation = limiter.producer()
    limiter.close()
    limiter.close()
    for call in (limiter.producer, limiter.consumer, limiter.counts, limiter.stop):
        with pytest.raises(Closed, match="this limiter is closed"):
            call()
    participation.close()


def test_numpys_integers_are_a_ratio_too():
    assert Limiter(np.int64(2), tolerance=0).rule.updates_per_insert == 2


def test_a_full_limiter_says_who_is_registered_and_a_closed_place_is_free():
    with make(num_participants=2) as limiter:
        first, _second = limiter.producer(), limiter.producer()
        with pytest.raises(SegmentError, match=rf"no room for more producers: registered are process {os.getpid()} "):
            limiter.producer()
        limiter.consumer()
        first.close()
        first.close()
        with pytest.raises(Closed, match=r"register again with limiter\.producer\(\)"):
            first.acquire()
        limiter.producer().acquire()


@pytest.mark.parametrize("waits", [True, False])
def test_closing_a_limiter_ends_the_waits_of_its_participations(waits):
    limiter = Limiter(1, tolerance=0)
    consumer, producer = limiter.consumer(), limiter.producer()
    producer.acquire()
    thread, errors = waiting_for(consumer)
    if waits:
        thread.start()
        time.sleep(0.05)
    limiter.close()
    if not waits:
        thread.start()
    thread.join(60)
    assert errors == ["this limiter is closed"]
    producer.commit()  # what was granted
    consumer.close()
    producer.close()
