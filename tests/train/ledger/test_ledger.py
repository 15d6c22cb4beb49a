"""The ledger: never too many steps, never too many updates, exact at the end, whoever dies."""

import multiprocessing
import os
import signal
import time
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.train.ledger.ledger import Ledger
from drivetrain.train.ledger.rules import Origin, Rules

FRACTIONS = st.fractions(min_value=0, max_value=4, max_denominator=7)


def make_rules(**changes):
    defaults = {"total_steps": 100, "warmup_steps": 20, "ratio": Fraction(1, 2), "tolerance": 4, "updates_per_call": 8}
    return Rules(**{**defaults, **changes})


def test_due_updates_are_the_floor_of_the_ratio_times_steps_after_warm_up():
    rules = make_rules(ratio=Fraction(2, 3), warmup_steps=10)
    assert [rules.due(steps) for steps in (0, 10, 11, 12, 13, 16)] == [0, 0, 0, 1, 2, 4]


def test_a_ratio_that_binary_fractions_miss_stays_exact_over_long_runs():
    assert make_rules(ratio=Fraction(1, 10), warmup_steps=0).due(3 * 10**17) == 3 * 10**16


@pytest.mark.release
@settings(max_examples=100, deadline=None)
@given(
    data=st.data(),
    total=st.integers(1, 120),
    warmup=st.integers(0, 60),
    ratio=FRACTIONS,
    tolerance=st.integers(0, 12),
    per_call=st.integers(1, 9),
    num_actors=st.integers(1, 3),
    wanted=st.integers(1, 7),
    may_end_early=st.booleans(),
)
def test_any_order_of_events_keeps_the_promises_and_ends_exactly(
    data, total, warmup, ratio, tolerance, per_call, num_actors, wanted, may_end_early
):
    rules = make_rules(
        total_steps=total, warmup_steps=warmup, ratio=ratio, tolerance=tolerance, updates_per_call=per_call
    )
    with_ledger = Ledger.create(rules, num_actors)
    try:
        play(with_ledger, num_actors, wanted, may_end_early, data.draw)
    finally:
        with_ledger.close()


def play(ledger, num_actors, wanted, may_end_early, draw):
    """Actors, learner, deaths and a wish for an early end in any order, until nobody can move."""
    in_flight = [0] * num_actors
    begun = []  # updates of calls that are not complete
    while True:
        counts, rules = ledger.counts(), ledger.rules
        moves = [("end early", 0)] if may_end_early else []
        for actor in range(num_actors):
            if in_flight[actor]:
                moves += [("commit", actor), ("die", actor)]
            elif rules.grantable(wanted, counts.granted, counts.updates):
                moves.append(("acquire", actor))
        if rules.takeable(counts.committed, counts.updates + sum(begun)):
            moves.append(("begin", 0))
        if begun:
            moves.append(("finish", 0))
        if not moves:
            break
        move, actor = draw(st.sampled_from(moves))
        if move == "acquire":
            grant = ledger.acquire(actor, wanted)
            assert grant.start == counts.granted
            assert 1 <= grant.num_steps <= wanted
            in_flight[actor] = grant.num_steps
        elif move == "commit":
            ledger.commit(actor, in_flight[actor])
            in_flight[actor] = 0
        elif move == "die":
            assert ledger.give_back(actor) == in_flight[actor]
            in_flight[actor] = 0
        elif move == "end early":
            assert ledger.end_early() == ledger.rules.total_steps == counts.granted
            may_end_early = False
        elif move == "begin":
            begun.append(ledger.wait_for_updates(sum(begun)))
            assert begun[-1] > 0
            assert counts.updates + sum(begun) <= rules.due(counts.committed), "the learner begins too much"
        else:
            ledger.complete(begun.pop(0))
        check_promises(ledger.counts(), ledger.rules, wanted)
    counts, rules = ledger.counts(), ledger.rules
    assert ledger.is_finished(counts), "nobody can move, and the run is not over"
    assert counts == (rules.total_steps, rules.total_steps, rules.due(rules.total_steps))
    assert ledger.acquire(0, wanted) is None
    assert ledger.wait_for_updates() == 0


def check_promises(counts, rules, wanted):
    assert counts.committed <= counts.granted <= rules.total_steps
    assert counts.updates <= rules.due(counts.committed), "the learner ran ahead"
    bound = rules.tolerance + -(-rules.ratio.numerator * wanted // rules.ratio.denominator)
    assert rules.due(counts.granted) - counts.updates <= bound, "the actors ran ahead"


@pytest.mark.release
def test_an_early_end_reaches_processes_that_wait_and_comes_out_exactly(spawn):
    rules = make_rules(total_steps=10**9, ratio=Fraction(3, 4), tolerance=7)
    ledger = Ledger.create(rules, 2)
    busy = [spawn(act_for_ever, ledger.handle(), rules, 2, actor, 0.001) for actor in range(2)]
    busy.append(spawn(learn_for_ever, ledger.handle(), rules, 2))
    while ledger.counts().committed < 200:
        time.sleep(0.005)
    total_steps = ledger.end_early()
    for process in busy:
        process.join(60)
        assert process.exitcode == 0
    assert 200 <= total_steps < 10**9
    assert ledger.counts() == (total_steps, total_steps, rules.due(total_steps))
    assert ledger.end_early() == total_steps
    ledger.close()


def test_an_early_end_waits_for_whole_rollouts_and_for_a_replay_that_is_filled_again():
    assert make_rules(steps_per_rollout=16, total_steps=96).ended_at(33, 0).total_steps == 48
    assert make_rules(refill_until=60).ended_at(33, 0).total_steps == 60
    assert make_rules(refill_until=60).ended_at(70, 0).total_steps == 70
    assert make_rules(total_steps=40).ended_at(40, 10) == make_rules(total_steps=40)


def test_an_early_end_has_the_steps_taken_that_the_updates_done_before_are_ahead_by():
    """As they are where an environment has failed while the updates for its next step were under way."""
    rules = make_rules(warmup_steps=20, ratio=Fraction(2, 3), tolerance=0)
    ledger = Ledger.create(rules, 1, Origin(num_steps=40, num_updates=16))
    assert ledger.end_early() == 44
    assert ledger.acquire(0, 8) == (40, 4)
    ledger.commit(0, 4)
    assert ledger.acquire(0, 8) is None
    assert ledger.wait_for_updates(timeout_s=1.0) == 0
    assert ledger.is_finished(ledger.counts())
    ledger.close()


def test_updates_under_way_are_neither_due_again_nor_waited_for_longer_than_asked():
    ledger = Ledger.create(
        make_rules(total_steps=100, warmup_steps=0, ratio=Fraction(1), tolerance=8, updates_per_call=4), 1
    )
    ledger.commit(0, ledger.acquire(0, 6).num_steps)
    first = ledger.wait_for_updates()
    due = ledger.rules.due(6)
    assert 0 < first <= due
    started_s = time.monotonic()
    assert ledger.wait_for_updates(due, timeout_s=0.05) == 0
    assert time.monotonic() - started_s >= 0.05
    assert ledger.counts().updates == 0
    ledger.stop()
    assert ledger.wait_for_updates(first) == 0


@pytest.mark.parametrize("tolerance", [0, 3])
def test_more_updates_are_not_waited_for_where_actors_wait_for_those_under_way(tolerance):
    ledger = Ledger.create(
        make_rules(total_steps=100, warmup_steps=0, ratio=Fraction(1), tolerance=tolerance, updates_per_call=8), 1
    )
    ledger.commit(0, ledger.acquire(0, tolerance + 1).num_steps)
    begun = ledger.wait_for_updates()
    assert begun == tolerance + 1
    assert ledger.wait_for_updates(begun, timeout_s=1_000.0) == 0
    ledger.complete(begun)
    assert ledger.acquire(0, 1) is not None
    ledger.close()


def test_rows_that_are_lost_before_the_first_update_put_it_off_and_later_ones_do_not():
    rules = make_rules(total_steps=100, warmup_steps=20, ratio=Fraction(1), tolerance=0, updates_per_call=8)
    ledger = Ledger.create(rules, 1)
    there = Ledger.attach(ledger.handle(), rules, 1)
    ledger.commit(0, ledger.acquire(0, 10).num_steps)
    there.lose_rows(4, needed=16)
    assert ledger.rules.refill_until == 0, "the warm-up is longer"
    there.lose_rows(4, needed=16)
    there.lose_rows(4, needed=16)
    assert ledger.rules.refill_until == 28, "it is not, with all that was lost"
    ledger.commit(0, ledger.acquire(0, 15).num_steps)
    assert there.wait_for_updates(timeout_s=0.01) == 0
    ledger.commit(0, ledger.acquire(0, 5).num_steps)
    assert there.wait_for_updates() == 8
    there.complete(8)
    there.lose_rows(4, needed=16)
    assert ledger.rules.refill_until == 28
    there.close()
    ledger.close()


def test_rows_that_are_lost_while_a_replay_that_was_not_kept_fills_put_the_next_update_off():
    rules = make_rules(total_steps=100, warmup_steps=20, refill_until=60)
    ledger = Ledger.create(rules, 1, Origin(num_steps=40, num_updates=5))
    for filled in (62, 66):
        ledger.lose_rows(4, needed=58)
        assert ledger.rules.refill_until == filled
    ledger.close()


def test_lock_step_alternates_between_steps_and_all_the_updates_they_call_for():
    rules = make_rules(tolerance=0, warmup_steps=0, total_steps=24, ratio=Fraction(1, 4), updates_per_call=8)
    ledger = Ledger.create(rules, 1)
    sizes = []
    while grant := ledger.acquire(0, 8):
        ledger.commit(0, grant.num_steps)
        assert rules.grantable(8, *ledger.counts()[1:]) == 0
        sizes.append(ledger.wait_for_updates())
        ledger.complete(sizes[-1])
    assert sizes == [2, 2, 2]
    ledger.close()


def act_for_ever(handle, rules, num_actors, actor, pause_s):
    ledger = Ledger.attach(handle, rules, num_actors)
    while grant := ledger.acquire(actor, 5):
        time.sleep(pause_s)
        ledger.commit(actor, grant.num_steps)


def learn_for_ever(handle, rules, num_actors):
    ledger = Ledger.attach(handle, rules, num_actors)
    while count := ledger.wait_for_updates():
        ledger.complete(count)


@pytest.fixture
def spawn():
    context = multiprocessing.get_context("spawn")
    started = []

    def start(target, *arguments):
        process = context.Process(target=target, args=arguments)
        process.start()
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.join()


@pytest.mark.release
def test_processes_keep_the_promises_at_every_instant_and_survive_a_killed_actor(spawn):
    rules = make_rules(total_steps=3_001, warmup_steps=101, ratio=Fraction(3, 4), tolerance=7, updates_per_call=4)
    ledger = Ledger.create(rules, 2)
    learner = spawn(learn_for_ever, ledger.handle(), rules, 2)
    slow = spawn(act_for_ever, ledger.handle(), rules, 2, 0, 0.001)
    killed = spawn(act_for_ever, ledger.handle(), rules, 2, 1, 0.001)
    while ledger.counts().committed < 500:
        time.sleep(0.005)
    os.kill(killed.pid, signal.SIGKILL)
    killed.join()
    ledger.give_back(1)
    while not ledger.is_finished(counts := ledger.counts()):
        # Read one by one, the numbers are of slightly different instants; updates come last.
        assert rules.due(counts.granted) - counts.updates <= rules.tolerance + 4
        time.sleep(0.001)
    for process in (slow, learner):
        process.join(60)
        assert process.exitcode == 0
    assert ledger.counts() == (3_001, 3_001, rules.due(3_001))
    ledger.close()


def test_stop_wakes_everybody_who_waits(spawn):
    rules = make_rules(warmup_steps=0, tolerance=0)
    ledger = Ledger.create(rules, 1)
    ledger.commit(0, ledger.acquire(0, 10).num_steps)  # the actor must now wait for five updates
    waiting = spawn(act_for_ever, ledger.handle(), rules, 1, 0, 0.0)
    time.sleep(0.5)
    ledger.stop()
    waiting.join(60)
    assert waiting.exitcode == 0
    assert ledger.wait_for_updates() == 0
    ledger.close()


def test_steps_that_are_done_after_a_stop_are_counted_nowhere():
    ledger = Ledger.create(make_rules(), 2)
    grants = [ledger.acquire(actor, 5) for actor in (0, 1)]
    assert ledger.commit(0, grants[0].num_steps)
    ledger.stop()
    assert ledger.settled().committed == 5
    assert not ledger.commit(1, grants[1].num_steps)
    assert ledger.settled() == (10, 5, 0)
    ledger.close()
