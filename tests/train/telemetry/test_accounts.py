"""Each training episode is in one row, or kept with the checkpoint, in whatever order processes tell of all that."""

import random

import pytest

from drivetrain.train.episode import Episode
from drivetrain.train.telemetry.accounts import Accounts
from drivetrain.train.telemetry.unreported import FILE, Unreported

ONE = Episode(2.5, 7, 1.0)


class Told:
    """A run whose actors take steps, one an episode, and tell of them late, as its learner does of checkpoints.

    After each report, whoever goes on from either checkpoint that may be there finds all that was told of the steps
    before it once: in the rows that are not cut, or kept.
    """

    def __init__(self, seed, folder, accounts=None):
        self.rng, self.folder = random.Random(seed), folder
        self.accounts = accounts or Accounts(0, Unreported())
        self.num_steps = 0
        self.actors = [[], [], []]
        self.checkpoints = []  # begun, and not told of
        self.told, self.rows, self.begun, self.written = [], [], 0, 0

    def go_on(self):
        """Take a step, begin a checkpoint, write a row, or hear of one of these."""
        what = self.rng.choice(["step", "step", "step", "hear", "hear", "begin", "hear of it", "row", "finish"])
        if what == "step":
            self.num_steps += 1
            self.rng.choice(self.actors).append(self.num_steps)
        elif what == "hear":
            actor = self.rng.choice(self.actors)
            for ended_at in actor:
                self.accounts.add_episodes([ONE], ended_at)
            self.told += actor
            actor.clear()
        elif what == "begin":
            self.checkpoints.append(self.num_steps)
        elif what == "hear of it" and self.checkpoints:
            self.begun = self.checkpoints.pop(0)
            self.accounts.begin(self.begun)
        elif what == "finish" and not self.checkpoints:  # what is told of the next comes behind this
            self.written = self.begun
            self.accounts.finish()
        elif what == "row" and self.num_steps > max([0, *(at for at, _ in self.rows)]):
            before = self.accounts._open.num_episodes
            self.accounts.close(self.num_steps)
            self.rows.append((self.num_steps, before))

    def check(self):
        """Compare what is kept with what was told."""
        self.accounts.keep(self.folder)
        for at in (self.begun, self.written):
            kept = Unreported.kept(self.folder, at)
            in_rows = sum(number for row_at, number in self.rows if row_at <= at)
            assert in_rows + kept.num_episodes == sum(ended_at <= at for ended_at in self.told)
            assert kept.total_reward == 2.5 * kept.num_episodes == kept.num_told * 2.5
            assert kept.total_length == 7 * kept.num_episodes

    def run(self, num_events):
        """Go on so often, and check each time."""
        for _ in range(num_events):
            self.go_on()
            self.check()


@pytest.mark.parametrize(
    "seed", [*range(10), *(pytest.param(seed, marks=pytest.mark.stress) for seed in range(10, 500))]
)
def test_every_episode_is_counted_once_in_whatever_order_rows_checkpoints_and_actors_are_heard_of(seed, tmp_path):
    Told(seed, tmp_path).run(60)


class Careless(Accounts):
    """Takes for what had happened by a checkpoint what has been heard of as that is heard of."""

    def begin(self, num_steps):
        self._begun = num_steps, Unreported()
        self._begun[1].add(self._open)


def test_what_is_heard_of_with_a_checkpoint_is_not_what_had_happened_by_then(tmp_path):
    wrong = 0
    for seed in range(20):
        try:
            Told(seed, tmp_path, Careless(0, Unreported())).run(60)
        except AssertionError:
            wrong += 1
    assert wrong > 10


def test_a_kill_leaves_what_belongs_to_the_checkpoint_that_is_there_whether_or_not_it_is_told_of(tmp_path):
    accounts = Accounts(0, Unreported())
    accounts.add_episodes([ONE] * 3, 90)
    accounts.begin(100)
    accounts.finish()
    accounts.add_episodes([ONE] * 2, 150)
    accounts.begin(200)
    accounts.keep(tmp_path)
    assert [Unreported.kept(tmp_path, at).num_episodes for at in (100, 200)] == [3, 5]
    accounts.finish()
    accounts.keep(tmp_path)
    assert [Unreported.kept(tmp_path, at).num_episodes for at in (100, 200)] == [0, 5]


def test_a_file_of_before_there_were_two_checkpoints_in_it_is_read(tmp_path):
    sums = {"num_episodes": 2, "total_reward": 3.0, "total_length": 9, "num_told": 0, "total_success": 0.0}
    lags = {"num_lags": 1, "total_lag": 4.0, "max_lag": 4.0}
    (tmp_path / FILE).write_text(str({"num_steps": 70, **sums, **lags}).replace("'", '"'))
    assert Unreported.kept(tmp_path, 70) == Unreported(**sums, **lags)
    assert Unreported.kept(tmp_path, 60) == Unreported()
