"""How long an environment's call goes on: as long as it is watched."""

import pytest

from drivetrain.train.environments.watching import WatchClock


class Watched:
    """Looks every tenth of a second at a call that began when it was made."""

    def __init__(self):
        self.now_s = 100.0
        self.clock = WatchClock(lambda: self.now_s)
        self.began_s = self.now_s

    def look(self, seconds, place=0):
        self.now_s += seconds
        self.clock.look()
        return self.clock.watched_s(place, self.now_s - self.began_s)

    def look_for(self, seconds):
        for _ in range(round(seconds / 0.1)):
            found = self.look(0.1)
        return found


def test_a_call_that_goes_on_is_as_old_as_the_clock_says():
    assert Watched().look_for(30) == pytest.approx(30, abs=0.2)


def test_what_nobody_has_watched_is_not_counted():
    watched = Watched()
    watched.look_for(2)
    assert watched.look(3_600) == pytest.approx(3, abs=0.2)
    assert watched.look_for(5) == pytest.approx(8, abs=0.2)


def test_the_next_call_begins_anew_and_others_have_their_own():
    watched = Watched()
    watched.look_for(10)
    watched.began_s = watched.now_s
    assert watched.look_for(1) == pytest.approx(1, abs=0.2)
    assert watched.look(0.1, place=1) == pytest.approx(1, abs=0.3)


def test_where_there_is_no_call_none_goes_on():
    watched = Watched()
    watched.look_for(10)
    assert watched.clock.watched_s(0, 0.0) == 0
    watched.began_s = watched.now_s
    assert watched.look_for(1) == pytest.approx(1, abs=0.2)


def test_a_watcher_that_is_often_held_up_still_sees_that_a_call_does_not_end():
    watched = Watched()
    found = [watched.look(10) for _ in range(30)][-1]
    assert found == pytest.approx(30, abs=1)


def test_a_watcher_that_is_held_up_behind_its_look_does_not_take_a_call_for_the_next_one():
    watched = Watched()
    watched.look_for(10)
    watched.clock.look()
    watched.now_s += 0.5  # as by ending another process
    watched.clock.watched_s(0, watched.now_s - watched.began_s)
    assert watched.look_for(1) == pytest.approx(11.5, abs=0.2)
