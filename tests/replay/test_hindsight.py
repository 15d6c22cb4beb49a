"""Hindsight: a relabelled row is the step it came from, with a goal that its episode has reached, and its reward."""

import pickle

import numpy as np
import pytest
from goal_steps import SPEC, WANTED, goal, reward_of, rows_of, step_of

from drivetrain.core.errors import Closed, InvalidInput, SegmentError
from drivetrain.replay import Replay
from drivetrain.replay.testing import check_consistent


@pytest.mark.parametrize(("strategy", "num_goals"), [("future", 4), ("episode", 3), ("final", 1), ("future", 1)])
@pytest.mark.parametrize("settings", [{}, {"share_next_obs": True}, {"prioritized": False}])
def test_each_step_comes_again_with_goals_of_its_episode_and_their_rewards(strategy, num_goals, settings):
    lengths = {0: [5, 7], 1: [3, 9], 2: [12]}
    with Replay(1000, SPEC, **settings) as replay:
        writer = replay.hindsight_writer(3, reward=reward_of, strategy=strategy, num_goals=num_goals, seed=1)
        ends = {env: np.cumsum(episodes) - 1 for env, episodes in lengths.items()}
        for step in range(12):
            truncated = np.array([step in ends[env] for env in range(3)])
            writer.add(**step_of([0, 1, 2], [step] * 3, truncated=truncated))
        rows = rows_of(replay)
        assert len(rows) == 3 * 12 * (1 + num_goals)
        for env, step, reached, wanted, still_wanted, reward, terminated, truncated, discount in rows:
            np.testing.assert_array_equal(reached, goal(env, step + 1))
            np.testing.assert_array_equal(wanted, still_wanted)
            assert reward == reward_of(reached, wanted)
            assert not terminated
            assert truncated == (step in ends[env])
            assert discount == np.float32(0.99)
            if wanted[0] == WANTED:
                continue
            [last] = [end for end in ends[env] if end >= step][:1]
            first = max([end + 1 for end in ends[env] if end < step], default=0)
            earliest = {"future": step, "episode": first, "final": last}[strategy]
            assert wanted.tolist() in [goal(env, at + 1).tolist() for at in range(earliest, last + 1)]
        relabelled = [(env, step) for env, step, _, wanted, *_ in rows if wanted[0] != WANTED]
        assert all(relabelled.count((env, step)) == num_goals for env in range(3) for step in range(12))
        check_consistent(replay)


def test_goals_are_drawn_evenly_and_by_the_seed():
    def drawn(seed):
        with Replay(10_000, SPEC) as replay:
            writer = replay.hindsight_writer(reward=reward_of, num_goals=1000, seed=seed)
            for step in range(4):
                writer.add(**step_of([0], [step], truncated=step == 3))
            return [(int(step), int(wanted[1]) // 2 - 1) for _, step, _, wanted, *_ in rows_of(replay)]

    pairs = drawn(3)
    assert pairs == drawn(3) != drawn(4)
    for step in range(4):
        counts = np.array([pairs.count((step, at)) for at in range(4)])
        assert counts[:step].sum() == 0
        np.testing.assert_allclose(counts[step:], 1000 / (4 - step), rtol=0.15)


def test_rows_of_several_steps_have_one_goal():
    with Replay(1000, SPEC, num_step=3, gamma=0.5) as replay:
        writer = replay.hindsight_writer(reward=reward_of, strategy="final")
        for step in range(6):
            writer.add(**step_of([0], [step], terminated=step == 5))
        rows = [row for row in rows_of(replay) if row[3][0] != WANTED]
        assert len(rows) == 6
        for _, step, _, wanted, _, reward, terminated, _, discount in rows:
            steps = range(step, min(step + 3, 6))
            np.testing.assert_array_equal(wanted, goal(0, 6))
            expected = sum(0.5**i * reward_of(goal(0, at + 1), wanted) for i, at in enumerate(steps))
            assert reward == pytest.approx(expected)
            assert terminated == (step + 3 >= 6)
            assert discount == (0 if terminated else 0.125)
        with pytest.raises(InvalidInput, match=r'strategy: expected "final", as rows .* of up to 3 steps'):
            replay.hindsight_writer(reward=reward_of)


def test_reaching_a_goal_may_end_an_episode():
    with Replay(1000, SPEC) as replay:
        writer = replay.hindsight_writer(
            reward=reward_of, terminated=lambda achieved, desired: (achieved == desired).all(-1), strategy="final"
        )
        for step in range(4):
            writer.add(**step_of([0], [step], terminated=step == 3))  # by another rule
        rows = [row for row in rows_of(replay) if row[3][0] != WANTED]
        assert [bool(row[6]) for row in rows] == [False, False, False, True]
        assert [float(row[8]) for row in rows] == pytest.approx([0.99, 0.99, 0.99, 0])


def test_environments_that_did_not_step_and_episodes_that_were_dropped_are_left_out():
    with Replay(1000, SPEC) as replay:
        writer = replay.hindsight_writer(2, reward=reward_of, num_goals=2)
        lives = np.zeros(2, int)
        for where in ([True, True], [True, False], [False, True], [True, False]):
            writer.add_some(np.array(where), **step_of([0, 1], lives))
            lives += where
        writer.drop_windows(np.array([False, True]))
        writer.add(**step_of([0, 1], lives, truncated=True))
        relabelled = [(int(env), int(step)) for env, step, _, wanted, *_ in rows_of(replay) if wanted[0] != WANTED]
        assert sorted(relabelled) == sorted([(0, step) for step in range(4)] * 2 + [(1, 2)] * 2)
        assert not any(writer._open), "what belongs to no open episode is not held"
        writer.drop_windows()


def test_what_was_given_may_be_used_again_at_once():
    with Replay(100, SPEC) as replay:
        writer = replay.hindsight_writer(reward=reward_of, strategy="final")
        step = step_of([0], [0])
        for number in range(3):
            for name, array in step_of([0], [number], truncated=number == 2)["obs"].items():
                step["obs"][name][:] = array
            step["next_obs"]["achieved_goal"][:] = goal(0, number + 1)
            step["truncated"][:] = number == 2
            writer.add(**step)
        rows = [row for row in rows_of(replay) if row[3][0] != WANTED]
        assert [int(row[1]) for row in rows] == [0, 1, 2]
        assert [row[2].tolist() for row in rows] == [goal(0, at + 1).tolist() for at in range(3)]


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        (">f8", [1.5, 2, 3]),
        ([("age", ">i2"), ("name", "U2")], [(1, "ab"), (2, ""), (3, "c")]),
        (">M8[s]", ["2020-01-01", "2021-01-01", "2022-01-01"]),
        (">U3", ["abc", "", "d"]),
    ],
)
def test_fields_of_any_dtype_come_again(dtype, values):
    goals = ((2,), ">f4")
    spec = {"obs": {"achieved_goal": goals, "desired_goal": goals}, "other": ((3,), dtype), "scalar": ((), dtype)}
    other = np.array([values], dtype)
    reached = {"achieved_goal": np.ones((1, 2), ">f4"), "desired_goal": np.zeros((1, 2), ">f4")}
    with Replay(10, spec) as replay:
        replay.hindsight_writer(reward=reward_of, num_goals=2).add(
            obs=reached,
            next_obs=reached,
            other=other,
            scalar=other[:, 0].copy(),
            reward=np.zeros(1),
            terminated=np.zeros(1, bool),
            truncated=np.ones(1, bool),
        )
        data = replay.read(replay.all_keys()).data
        assert data["obs"]["desired_goal"].tolist() == [[0, 0], [1, 1], [1, 1]]
        assert data["other"].dtype == other.dtype
        assert (data["other"] == other).all()
        assert (data["scalar"] == other[0, 0]).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"reward": None}, r"reward: expected a function of \(achieved, desired\), or of these and steps, got None"),
        ({"terminated": True}, "terminated: expected a function of"),
        (
            {"reward": lambda achieved, desired, info: 0},
            r"reward: .*got one of \(achieved, desired, info\) \(missing a required argument: .info.\); put one",
        ),
        ({"terminated": lambda steps: 0}, r"terminated: .*got one of \(steps\)"),
        ({"strategy": "random"}, 'strategy: expected "future" or "episode" or "final", got \'random\''),
        ({"num_goals": 0}, "num_goals: expected an integer in 1..65536, got 0"),
        ({"num_envs": 0}, "num_envs"),
        ({"seed": -1}, "seed"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments, message):
    with Replay(100, SPEC) as replay, pytest.raises(InvalidInput, match=message):
        replay.hindsight_writer(**{"reward": reward_of} | arguments)


def test_observations_without_goals_are_refused():
    with (
        Replay(100, {"obs": ((3,), "float32")}) as flat,
        pytest.raises(
            InvalidInput, match=r"expected observations with achieved_goal and desired_goal, .* the fields obs,"
        ),
    ):
        flat.hindsight_writer(reward=reward_of)
    uneven = {"obs": {"achieved_goal": ((2,), "float32"), "desired_goal": ((3,), "float32")}}
    with (
        Replay(100, uneven) as replay,
        pytest.raises(InvalidInput, match=r"desired_goal to be as achieved_goal, float32\[2\], got float32\[3\]"),
    ):
        replay.hindsight_writer(reward=reward_of)


@pytest.mark.parametrize(
    ("reward", "message"),
    [
        (lambda achieved, desired: 0.0, r"reward: expected 8 numbers of \(achieved, desired\), .* got float64\[\]"),
        (lambda achieved, desired: achieved, r"reward: expected 8 numbers .* got float32\[8, 2\]; have it work"),
        (lambda achieved, desired: achieved[:, :1], r"got float32\[8, 1\]; take the last axis away"),
        (
            lambda achieved, desired: np.full(8, 1e39),
            r"reward\[0\]: expected finite .* within float32, got 1e\+39",
        ),
        (lambda achieved, desired: np.full(8, np.nan), r"reward\[0\]: expected finite numbers within float32, got nan"),
    ],
)
def test_rewards_that_do_not_fit_are_named_and_the_steps_are_there(reward, message):
    with Replay(100, SPEC) as replay:
        writer = replay.hindsight_writer(reward=reward)
        writer.add(**step_of([0], [0]))
        with pytest.raises(InvalidInput, match=message):
            writer.add(**step_of([0], [1], truncated=True))
        assert len(replay) == 2
        writer.add(**step_of([0], [2]))  # another episode
        bad = step_of([0], [3]) | {"action": np.zeros(1)}
        with pytest.raises(InvalidInput, match='field "action"'):
            writer.add(**bad)
        assert len(replay) == 3
    with pytest.raises(Closed):
        writer.add(**step_of([0], [3]))


def test_a_step_that_found_no_room_is_in_the_midst_of_no_episode():
    """Where every slot is in the hands of stopped processes, `add` drops the windows that it would be missing in."""

    class Full:
        def add_some(self, marks, step):
            raise SegmentError("waited 10 s for a free slot")

    with Replay(100, SPEC, num_step=3) as replay:
        writer = replay.hindsight_writer(2, reward=reward_of, strategy="final")
        writer.add(**step_of([0, 1], [0, 0]))
        ours, writer._as_they_are = writer._as_they_are, Full()
        with pytest.raises(SegmentError, match="waited"):
            writer.add_some(np.array([True, False]), **step_of([0, 1], [1, 1]))
        writer._as_they_are = ours
        writer.add(**step_of([0, 1], [2, 1], truncated=True))
        relabelled = [(int(env), int(step)) for env, step, _, wanted, *_ in rows_of(replay) if wanted[0] != WANTED]
        assert relabelled == [(0, 2), (1, 0), (1, 1)]


def test_environments_that_no_episode_is_open_of_keep_no_steps_of_others():
    """One of two environments ends episodes of fifty steps, the other is begun later, or waits in an episode."""
    with Replay(1000, SPEC) as replay:
        writer = replay.hindsight_writer(2, reward=reward_of)
        for waiting in (0, 1):
            for _ in range(waiting):
                writer.add_some(np.array([False, True]), **step_of([0, 1], [0, 0]))
            for step in range(120):
                ends = np.array([step % 50 == 49, False])
                writer.add_some(np.array([True, False]), **step_of([0, 1], [step, 0], truncated=ends))
            nbytes = writer._step.nbytes // 2
            assert [len(b"".join(steps)) for steps in writer._open] == [120 % 50 * nbytes, waiting * nbytes]
            writer.drop_windows(np.array([True, False]))


@pytest.mark.parametrize("settings", [{}, {"share_next_obs": True}])
def test_a_relabelling_that_ctrl_c_ends_leaves_no_row_of_two_episodes(settings):
    class Interrupted:
        def __init__(self, native):
            self.native, self.num_left = native, 3
            self.drop_windows = native.drop_windows

        def add(self, step):
            self.num_left -= 1
            if self.num_left < 0:
                raise KeyboardInterrupt
            return self.native.add(step)

    with Replay(1000, SPEC, num_step=3, **settings) as replay:
        writer = replay.hindsight_writer(reward=reward_of, strategy="final")
        ours, writer._relabelled = writer._relabelled, Interrupted(writer._relabelled)
        for step in range(4):
            writer.add(**step_of([0], [step]))
        with pytest.raises(KeyboardInterrupt):
            writer.add(**step_of([0], [4], truncated=True))
        writer._relabelled = ours
        for step in range(5, 8):
            writer.add(**step_of([0], [step], truncated=step == 7))
        rows = [row for row in rows_of(replay) if row[3][0] != WANTED]
        assert [(int(step), int(wanted[1]) // 2 - 1) for _, step, _, wanted, *_ in rows] == [
            (0, 4),
            (5, 7),
            (6, 7),
            (7, 7),
        ]
        check_consistent(replay)


def test_a_step_that_ctrl_c_kept_from_being_held_is_in_the_midst_of_no_episode(monkeypatch):
    with Replay(100, SPEC, num_step=3) as replay:
        writer = replay.hindsight_writer(reward=reward_of, strategy="final")
        writer.add(**step_of([0], [0]))

        def interrupted(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr(writer, "_hold", interrupted)
        with pytest.raises(KeyboardInterrupt):
            writer.add(**step_of([0], [1]))
        monkeypatch.undo()
        writer.add(**step_of([0], [2], truncated=True))
        assert [int(step) for _, step, _, wanted, *_ in rows_of(replay) if wanted[0] != WANTED] == [2]


def test_rewards_may_depend_on_the_steps_themselves():
    """As where actions cost something: the fields of the relabelled steps, with their new goals."""
    seen = []

    def reward(achieved, desired, steps):
        seen.append(steps)
        return reward_of(achieved, desired) - 1000 * steps["action"]

    with Replay(1000, SPEC) as replay:
        writer = replay.hindsight_writer(
            2,
            reward=reward,
            terminated=lambda achieved, desired, *, steps: steps["obs"]["observation"] % 2,
            num_goals=3,
        )
        for step in range(6):
            writer.add(**step_of([0, 1], [step, step], truncated=step == 5))
        assert [len(steps["reward"]) for steps in seen] == [18, 18]
        for steps in seen:
            assert (steps["obs"]["desired_goal"] != WANTED).all()
            np.testing.assert_array_equal(steps["obs"]["desired_goal"], steps["next_obs"]["desired_goal"])
            assert set(steps) == {"obs", "next_obs", "action", "reward", "terminated", "truncated"}
        rows = [row for row in rows_of(replay) if row[3][0] != WANTED]
        assert len(rows) == 36
        for env, step, reached, wanted, _, reward, terminated, _, _ in rows:
            assert reward == reward_of(reached, wanted) - 1000 * (env + step)
            assert terminated == (env * 1000 + step) % 2


def stacked(steps):
    first = steps[0]
    if not isinstance(first, dict):
        return np.stack(steps)
    return {name: stacked([step[name] for step in steps]) for name in first}


def test_several_steps_at_once_are_as_so_many_adds():
    def filled(extends):
        with Replay(1000, SPEC) as replay:
            writer = replay.hindsight_writer(2, reward=reward_of, seed=5)
            steps = [step_of([0, 1], [step, step], truncated=[step == 3, step % 5 == 4]) for step in range(12)]
            if extends:
                writer.extend(**stacked(steps))
            else:
                for step in steps:
                    writer.add(**step)
            return rows_of(replay)

    for one, other in zip(filled(True), filled(False), strict=True):
        for mine, theirs in zip(one, other, strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_a_hindsight_writer_that_is_to_be_copied_says_how_another_is_made():
    with (
        Replay(1000, SPEC) as replay,
        pytest.raises(InvalidInput, match=r"cannot be pickled or copied; send replay\.h"),
    ):
        pickle.dumps(replay.hindsight_writer(reward=reward_of))


def in_place(achieved, desired):
    desired -= achieved
    return desired.sum(axis=-1)


def in_place_of_steps(achieved, desired, steps):
    steps["obs"]["observation"] *= 0
    return np.zeros(len(achieved))


@pytest.mark.parametrize("reward", [in_place, in_place_of_steps])
def test_a_reward_that_computes_in_place_is_stopped_before_it_changes_what_is_stored(reward):
    with Replay(100, SPEC) as replay:
        writer = replay.hindsight_writer(reward=reward)
        writer.add(**step_of([0], [0]))
        with pytest.raises(ValueError, match="read-only"):
            writer.add(**step_of([0], [1], truncated=True))
        assert len(replay) == 2
