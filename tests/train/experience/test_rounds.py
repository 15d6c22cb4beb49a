"""The parts of deterministic runs: episodes, open windows, chance by environment, and the ledger's rounds."""

import threading

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")

from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.core.errors import InvalidInput, RunError
from drivetrain.replay import Replay
from drivetrain.train.config import TrainConfig
from drivetrain.train.experience.rollout import Rollout
from drivetrain.train.experience.rounds.episodes import Episodes, checksum
from drivetrain.train.experience.rounds.exploration import Apart
from drivetrain.train.experience.rounds.returning import bring_back
from drivetrain.train.experience.rounds.windows import Windows, of_env, round_of
from drivetrain.train.ledger.ledger import Grant, Ledger
from drivetrain.train.ledger.rules import Origin, Rules

SPEC = {"obs": {"a": ((2,), "float32"), "b": ((), "int64")}, "action": ((), "int64")}


def rollout_of(rng, num_steps=1, num_envs=3, share=0.3):
    """A rollout as actors leave it, of made-up numbers."""

    def observations():
        return {"a": rng.random((num_steps, num_envs, 2), np.float32), "b": rng.integers(9, size=(num_steps, num_envs))}

    ends = rng.random((2, num_steps, num_envs)) < share / 2
    action, reward = rng.integers(4, size=(num_steps, num_envs)), rng.random((num_steps, num_envs), np.float32)
    return Rollout(observations(), action, reward, *ends, observations())


def test_episodes_hold_the_actions_since_the_last_end_and_what_they_led_to():
    rollouts = [rollout_of(np.random.default_rng(seed), num_steps=4) for seed in range(5)]
    episodes = Episodes(3)
    for rollout in rollouts:
        episodes.add(rollout)
    actions = np.concatenate([rollout.action for rollout in rollouts])
    ended = np.concatenate([rollout.terminated | rollout.truncated for rollout in rollouts])
    for env in range(3):
        ends = np.flatnonzero(ended[:, env])
        assert episodes.numbers[env] == len(ends)
        assert episodes.actions[env] == actions[ends[-1] + 1 :, env].tolist()
        in_one = len(episodes.actions[env]) > 0
        assert episodes.shown[env] == (checksum(rollouts[-1].last_obs, (-1, env)) if in_one else -1)


@pytest.mark.parametrize("num_steps", [0, 7])
def test_episodes_come_back_from_a_checkpoint(num_steps):
    episodes = Episodes(3)
    if num_steps:
        episodes.add(rollout_of(np.random.default_rng(1), num_steps=num_steps))
    again = Episodes.of(episodes.arrays())
    assert (again.numbers, again.actions, again.shown) == (episodes.numbers, episodes.actions, episodes.shown)
    assert again.part(1, 2).actions == episodes.actions[1:]


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**20), num_step=st.integers(1, 4), before=st.integers(0, 12))
def test_new_writers_given_the_open_windows_go_on_as_the_old_ones_would(seed, num_step, before):
    rng = np.random.default_rng(seed)
    rounds = [rollout_of(rng) for _ in range(before + 8)]
    drawn = []
    for interrupted in (False, True):
        with Replay(200, SPEC, num_step=num_step, prioritized=False) as replay:
            writers = [replay.writer() for _ in range(3)]
            windows, episodes = Windows(num_step), Episodes(3)
            for index, rollout in enumerate(rounds):
                if interrupted and index == before:
                    arrays, num_rows = windows.arrays(), len(replay)
                    writers, windows = [replay.writer() for _ in range(3)], Windows(num_step)
                    windows.restore(arrays)
                    windows.give(writers, list(map(len, episodes.actions)))
                    assert len(replay) == num_rows
                step = round_of(rollout)
                for env, writer in enumerate(writers):
                    writer.add(**of_env(step, env))
                windows.add(step)
                episodes.add(rollout)
            drawn.append((len(replay), replay.sample(8, beta=1.0, num_batches=8).data))
    assert drawn[0][0] == drawn[1][0]
    for name in ("reward", "action", "discount"):
        np.testing.assert_array_equal(drawn[0][1][name], drawn[1][1][name])
    np.testing.assert_array_equal(drawn[0][1]["next_obs"]["a"], drawn[1][1]["next_obs"]["a"])


class Dice:
    """A policy that draws, and notes what it is asked."""

    def __init__(self):
        self.asked = []

    def explore(self, obs, step, rng, noise):
        assert noise is None
        self.asked.append((obs.shape, step))
        return rng.integers(0, 1_000, len(obs))


def begun(numbers):
    """Environments at the begin of these episodes."""
    episodes = Episodes(len(numbers))
    episodes.numbers = numbers
    return episodes


def test_an_environments_chance_does_not_depend_on_which_actor_has_it():
    config = TrainConfig.default("dqn", "E").override(deterministic=True, num_actors=1, envs_per_actor=4, seed=7)
    halves = config.override(num_actors=2, envs_per_actor=2)
    dice = Dice()
    whole = Apart(config, None, 0, 5, begun([0, 3, 0, 1]))
    parts = [Apart(halves, None, 0, 5, begun([0, 3])), Apart(halves, None, 1, 5, begun([0, 1]))]
    assert whole.first_seeds() == [seed for part in parts for seed in part.first_seeds()]
    for _ in range(3):
        together = whole.actions(dice, np.zeros((4, 2)), 0)
        apart = np.concatenate([part.actions(dice, np.zeros((2, 2)), 0) for part in parts])
        np.testing.assert_array_equal(together, apart)
    assert dice.asked[:4] == dice.asked[4:8] == [((1, 2), 20), ((1, 2), 21), ((1, 2), 22), ((1, 2), 23)]
    assert whole.next_seed(2) == parts[1].next_seed(0)
    assert len({*whole.first_seeds(), whole.next_seed(0)}) == 5


class Counter:
    """An environment that shows how often it was stepped, counted from somewhere."""

    def __init__(self, start=0, length=100):
        self.start, self.length = start, length

    def reset(self, seed):
        self.count = seed + self.start
        return np.array([self.count], np.float32)

    def step(self, action):
        self.count += action
        self.length -= 1
        return np.array([self.count], np.float32), float(action), self.length == 0, False


def test_an_environment_is_brought_back_by_its_seed_and_actions_or_refused():
    episodes = Episodes(2)
    episodes.actions[1], episodes.shown[1] = [1, 2, 3], checksum(np.array([[16.0]], np.float32), 0)
    rewards = []
    assert bring_back(Counter(), "E", 10, episodes, 1, rewards.append) == [16.0]
    assert rewards == [1.0, 2.0, 3.0]
    assert bring_back(Counter(), "E", 10, episodes, 0, rewards.append) == [10.0]
    with pytest.raises(RunError, match=r"'E' did not come back .*: it shows something else after 3 actions.*without"):
        bring_back(Counter(start=1), "E", 10, episodes, 1, rewards.append)
    with pytest.raises(RunError, match="it ended after 2 of 3 actions"):
        bring_back(Counter(length=2), "E", 10, episodes, 1, rewards.append)


def test_a_round_is_granted_when_the_one_before_is_released():
    config = TrainConfig.default("dqn", "E").override(
        deterministic=True, num_actors=2, envs_per_actor=2, warmup_steps=100, update_ratio=1, total_steps=406
    )
    rules = Rules.of(config)
    assert (rules.total_steps, rules.tolerance, rules.steps_per_rollout) == (408, 0, 4)
    ledger = Ledger.create(rules, 2, Origin(num_steps=100))
    taken = []
    threads = [threading.Thread(target=lambda: taken.append(ledger.acquire(1, 2))) for _ in range(2)]
    assert ledger.acquire(0, 2) == ledger.acquire(1, 2) == Grant(100, 2)
    ledger.commit(1, 2)
    threads[0].start()
    threads[0].join(0.3)
    assert taken == [], "the other actor is not through"
    ledger.commit(0, 2)
    assert ledger.wait_for_round() == 104
    assert rules.takeable(104, 0) == 4
    threads[0].join(0.3)
    assert taken == [], "nothing is learned yet"
    ledger.complete(4)
    threads[0].join(0.3)
    assert taken == [], "nothing is published yet"
    ledger.release(104)
    threads[0].join()
    assert taken == [Grant(104, 2)]
    ledger.stop()
    assert ledger.wait_for_round() == 0
    ledger.close()


def test_what_cannot_be_deterministic_is_refused():
    config = TrainConfig.default("dqn", "E").override(deterministic=True)
    with pytest.raises(InvalidInput, match="deterministic: expected num_actors and num_learners as numbers"):
        config.override(num_actors="auto")
    with pytest.raises(InvalidInput, match="deterministic: expected save_replay"):
        config.override(save_replay=False)
