"""Runs in hindsight: what stands in the replay, what is refused, and that it helps."""

from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest

pytest.importorskip("optax", reason="needs the train extra")

from goal_envs import Bits, ManyAtOnce, Numbered, OneByOne, Squares
from gymnasium import spaces
from gymnasium.wrappers import FrameStackObservation

from drivetrain.core.errors import InvalidInput, RunError
from drivetrain.train import train
from drivetrain.train.environments.goals import Goals
from drivetrain.train.environments.spaces import actions_of, observations_of
from drivetrain.train.interface import Interface
from drivetrain.train.run_dir.checkpoint import load_replay

SMALL = {
    "total_steps": 60, "capacity": 1_000, "hidden": (8,), "batch_size": 4, "warmup_steps": 8, "num_step": 1,
    "update_ratio": "1/4", "eval_episodes": 1, "final_eval_episodes": 1, "eval_interval_steps": 1_000,
    "hindsight_goals": 3, "seed": 3,
}  # fmt: skip


def rows_of(run_dir):
    replay = load_replay(run_dir, shared=False, scratch_dir=None)
    try:
        return SimpleNamespace(**replay.read(replay.all_keys()).data)
    finally:
        replay.close()


@pytest.mark.release
@pytest.mark.parametrize("num_actors", [0, 1])
@pytest.mark.parametrize("env", [Bits, OneByOne, Numbered, Squares])
def test_steps_stand_in_the_replay_once_more_for_each_goal_with_its_reward_and_end(tmp_path, env, num_actors):
    train("dqn", env, run_dir=str(tmp_path), num_actors=num_actors, envs_per_actor=2, **SMALL)
    rows = rows_of(tmp_path)
    achieved, desired = rows.next_obs["achieved_goal"], rows.next_obs["desired_goal"]
    assert np.array_equal(rows.obs["desired_goal"], desired)
    reached = (achieved == desired).reshape(len(desired), -1).all(-1)
    assert np.array_equal(rows.reward, reached - 1.0)
    if env is not Squares:  # which does not say that a goal ends an episode
        assert np.array_equal(rows.discount == 0, reached)
    assert 0 < reached.mean() < 1
    # 60 steps are rows of their own; those of the two open episodes, of up to 3 steps, have no other goals yet.
    assert 60 + 3 * (60 - 2 * 3) <= len(reached) <= 60 + 3 * 60
    assert (len(reached) - 60) % 3 == 0


@pytest.mark.parametrize("num", [1, 5])
@pytest.mark.parametrize("changes", [False, True])
def test_functions_that_answer_for_many_goals_alone_are_asked_for_many(num, changes):
    env = ManyAtOnce(changes_goals=changes)
    interface = Interface(
        observations=observations_of(env.observation_space, "it"), actions=actions_of(env.action_space, "it")
    )
    goals = Goals(env, "it", interface, clip_rewards=False)
    for _ in range(2):
        achieved, desired = np.random.default_rng(0).integers(0, 2, (2, num, 4)).astype(np.float32)
        desired[0] = achieved[0]
        reached = (achieved == desired).all(-1)
        assert np.array_equal(goals.reward(achieved, desired), reached - 1.0)
        assert np.array_equal(goals.terminated(achieved, desired), reached)


class Seen(Bits):
    """Bits as a picture."""

    def __init__(self):
        super().__init__()
        self.observation_space["observation"] = spaces.Box(0, 255, (36, 36), np.uint8)

    def shown(self):
        return {**super().shown(), "observation": np.resize(self.bits, (36, 36)).astype(np.uint8)}


class Stacked(FrameStackObservation):
    """Three observations at a time."""

    compute_terminated = None

    def __init__(self):
        super().__init__(Bits(), 3)

    def compute_reward(self, achieved, desired, info):
        return (achieved == desired).all((-1, -2)) - 1.0


@pytest.mark.release
@pytest.mark.parametrize("env", [Seen, Stacked])
def test_a_replay_of_shared_observations_has_room_for_its_capacity_in_hindsight(tmp_path, env):
    train("dqn", env, run_dir=str(tmp_path), num_actors=0, **SMALL | {"capacity": 100})
    assert len(rows_of(tmp_path).reward) == 100


@pytest.mark.release
def test_actors_continue_to_choose_goals_by_the_seed(tmp_path):
    runs = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        train("dqn", Bits, run_dir=str(tmp_path / name), num_actors=0, **SMALL | {"seed": seed})
        runs.append(rows_of(tmp_path / name).obs["desired_goal"])
    assert np.array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0][:60], runs[2][:60])


def test_rows_of_several_steps_get_the_goal_of_the_end(tmp_path):
    train(
        "dqn",
        Bits,
        run_dir=str(tmp_path),
        num_actors=0,
        **SMALL | {"num_step": 2, "warmup_steps": 20},
        hindsight_strategy="final",
    )
    rows = rows_of(tmp_path)
    reached = (rows.next_obs["achieved_goal"] == rows.next_obs["desired_goal"]).all(-1)
    assert np.array_equal(rows.discount == 0, reached)
    # 60 steps in 8 environments, whose windows of 2 steps are open; and once more those of episodes, of up to 4 steps,
    # that have ended, with the goal that they came to.
    assert 60 - 8 + 60 - 8 * 3 <= len(reached) <= 2 * 60
    assert reached.sum() >= (60 - 8 * 3) / 4


def test_clipped_rewards_are_clipped_for_other_goals_too(tmp_path):
    class Large(Bits):
        def compute_reward(self, achieved, desired, info):
            return 7.0 * self.is_reached(achieved, desired)

    train("dqn", Large, run_dir=str(tmp_path), num_actors=0, **SMALL, clip_rewards=True)
    assert set(rows_of(tmp_path).reward.tolist()) == {0.0, 1.0}


@pytest.mark.release
def test_sac_learns_in_hindsight_and_goes_on_after_a_resume(tmp_path):
    from drivetrain.train import resume

    class Moved(Bits):
        def __init__(self):
            super().__init__()
            self.action_space = spaces.Box(-1, 1, (1,), np.float32)

        def step(self, action):
            return super().step(int(action[0] * 1.99 + 2))

    run = {**SMALL, "total_steps": 40}
    train("sac", Moved, run_dir=str(tmp_path), num_actors=1, **run)
    before = len(rows_of(tmp_path).reward)
    assert resume(tmp_path, total_steps=60, env=Moved).num_steps == 60
    assert len(rows_of(tmp_path).reward) > before + 20


class WithoutReward(Bits):
    compute_reward = None

    def step(self, action):
        return self.shown(), 0.0, False, False, {}


class WithoutInfo(Bits):
    def compute_terminated(self, achieved, desired):
        return self.is_reached(achieved, desired)


class OtherGoals(Bits):
    def __init__(self):
        super().__init__()
        self.observation_space["desired_goal"] = spaces.Box(0, 1, (7,), np.float64)


@pytest.mark.parametrize(
    ("env", "settings", "sentence"),
    [
        (
            "CartPole-v1",
            {},
            "a dict with achieved_goal and desired_goal, .* those of 'CartPole-v1' have no names",
        ),
        (WithoutReward, {}, r"has no compute_reward\(achieved_goal, desired_goal, info\)"),
        (
            WithoutInfo,
            {},
            r"expected compute_terminated\(achieved_goal, desired_goal, info\), .*WithoutInfo' is "
            r"compute_terminated\(achieved, desired\) \(too many positional",
        ),
        (OtherGoals, {}, "expected desired_goal to be as achieved_goal is"),
        (
            Bits,
            {"num_step": 3, "warmup_steps": 30},
            "num_step: expected 1 beside hindsight_goals, .* or hindsight_strategy final, got 3",
        ),
        (Bits, {"deterministic": True}, "hindsight_goals: expected 0 beside deterministic"),
        (Bits, {"frame_stack": 2}, "expected 0 beside frame_stack; leave one"),
        (Bits, {"hindsight_goals": -1}, r"hindsight_goals: expected in 0\.\.2\^16, got -1"),
        ("drivetrain/CartPole-v1", {}, "expected 0 beside a compiled simulator"),
    ],
)
def test_what_has_no_other_goals_is_refused_before_anything_starts(tmp_path, env, settings, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        train("dqn", env, run_dir=str(tmp_path / "run"), **SMALL | settings)
    assert not (tmp_path / "run").exists()


class Unrewarded(Bits):
    def step(self, action):
        self.bits[action] = 1 - self.bits[action]
        self.num_steps += 1
        return self.shown(), 0.0, False, self.num_steps == 3, {}


class Raising(Unrewarded):
    def compute_reward(self, achieved, desired, info):
        raise KeyError("no such goal")


class Nameless(Bits):
    def compute_terminated(self, achieved, desired, info):
        return "soon"


class Endless(Unrewarded):
    def compute_reward(self, achieved, desired, info):
        return np.nan


class Written(Unrewarded):
    def compute_reward(self, achieved, desired, info):
        return "1" if isinstance(info, dict) else np.full(len(achieved), "1")


WRONG = [
    (Raising, r"compute_reward: KeyError: 'no such goal' \(.*test_goals.py, line \d+\); mend"),
    (Nameless, "compute_terminated: expected True or False of each of 1 goals, got 'soon'"),
    (Endless, "compute_reward: expected a finite number of each of 1 goals, got nan"),
    (Written, "compute_reward: expected a finite number of each of 1 goals, got '1'"),
]


@pytest.mark.release
@pytest.mark.parametrize(
    ("env", "sentence", "num_actors"),
    [
        *((*wrong, 0) for wrong in WRONG),
        (*WRONG[0], 1),  # an actor is started again three times, whatever the fault
        *(pytest.param(*wrong, 1, marks=pytest.mark.slow) for wrong in WRONG[1:]),
    ],
)
def test_what_an_environment_says_of_goals_is_its_fault(tmp_path, env, sentence, num_actors):
    with pytest.raises(RunError, match=sentence):
        train("dqn", env, run_dir=str(tmp_path), num_actors=num_actors, **SMALL | {"total_steps": 2_000})
    assert len(rows_of(tmp_path).reward) >= 1  # what was gathered is kept


@pytest.mark.slow
def test_goals_of_ten_bits_are_learned_in_hindsight_alone(tmp_path):
    def success(name, **settings):
        result = train(
            "dqn", gymnasium_bits, run_dir=str(tmp_path / name), num_actors=0, total_steps=12_000, hidden=(256,),
            num_step=1, learning_rate=1e-3, capacity=200_000, prioritized=False, gamma=0.95, batch_size=128,
            update_ratio=1, exploration_steps=4_000, target_tau=0.05, target_interval=1, double=False, dueling=False,
            seed=1, final_eval_episodes=200, **settings,
        )  # fmt: skip
        return result.mean_return

    def gymnasium_bits() -> gymnasium.Env:
        return Bits(10)

    assert success("with", hindsight_goals=4) > -6.5  # five bits differ at first, on the average
    assert success("without") < -8.0
