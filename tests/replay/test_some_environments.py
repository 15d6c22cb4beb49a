"""Adding steps of some of a writer's environments, and breaking episodes off: as with a writer for each of them."""

import gymnasium
import numpy as np
import pytest
from filled import all_rows
from gymnasium.vector import AutoresetMode

from drivetrain.core.errors import Closed, InvalidInput
from drivetrain.replay import Replay, Sequences

NUM_ENVS = 5
SPEC = {"obs": ((3,), "float32"), "action": ((), "int64")}
STACKED = {"obs": {"image": ((2, 4), "uint8")}, "action": ((), "int64")}
CASES = [
    (SPEC, {"num_step": 1, "initial_priority": "given"}),
    (SPEC, {"num_step": 3, "initial_priority": "given"}),
    (SPEC, {"num_step": 1, "share_next_obs": True, "initial_priority": "given"}),
    (SPEC, {"num_step": 3, "share_next_obs": True}),
    (STACKED, {"num_step": 2, "frame_stack": 2}),
    (SPEC, {"sequence": Sequences(length=3, burn_in=1, period=2)}),
    (STACKED, {"num_step": 1, "frame_stack": 2, "capacity": 10}),  # few frames: not all environments at once
    (STACKED, {"sequence": Sequences(length=3), "frame_stack": 2, "capacity": 20}),
    (STACKED, {"sequence": Sequences(length=3), "frame_stack": 2, "initial_priority": "given"}),
]


class Stream:
    """Random steps of environments of which only some move on."""

    def __init__(self, spec):
        self.rng = np.random.default_rng(3)
        self.stacked = spec is STACKED
        self.obs = [self._first() for _ in range(NUM_ENVS)]

    def _first(self):
        return self.rng.integers(0, 99, (2, 4), np.uint8) if self.stacked else self.rng.random(3, np.float32)

    def reset(self, env):
        self.obs[env] = self._first()

    def step(self, where, with_priorities):
        after = [np.concatenate([obs[1:], self._first()[:1]]) if self.stacked else self._first() for obs in self.obs]
        ends = self.rng.random(NUM_ENVS) < 0.15
        step = {
            "obs": self._nested(self.obs), "next_obs": self._nested(after),
            "action": self.rng.integers(0, 9, NUM_ENVS), "reward": self.rng.normal(size=NUM_ENVS).astype(np.float32),
            "terminated": ends & (self.rng.random(NUM_ENVS) < 0.5), "truncated": ends,
        }  # fmt: skip
        if with_priorities:
            step["priority"] = self.rng.random(NUM_ENVS, np.float32)
        for env in np.flatnonzero(where):
            self.obs[env] = self._first() if ends[env] else after[env]
        return step

    def _nested(self, observations):
        stacked = np.stack(observations)
        return {"image": stacked} if self.stacked else stacked


def of_one(step, env):
    return {
        name: of_one(values, env) if isinstance(values, dict) else values[env : env + 1]
        for name, values in step.items()
    }


def flattened(data, prefix=""):
    for name, values in data.items():
        yield from flattened(values, f"{name}/") if isinstance(values, dict) else [(prefix + name, values)]


@pytest.mark.parametrize("check_obs", [True, False])
@pytest.mark.parametrize(("spec", "settings"), CASES)
def test_rows_are_those_of_a_writer_for_each_environment(spec, settings, check_obs):
    given = settings.get("initial_priority") == "given"
    settings = {"capacity": 200, "spec": spec, "seed": 1, **settings}
    with Replay(**settings) as together, Replay(**settings) as apart:
        writer = together.writer(NUM_ENVS, check_obs=check_obs)
        writers = [apart.writer(1, check_obs=check_obs) for _ in range(NUM_ENVS)]
        stream = Stream(spec)
        for t in range(120):
            where = stream.rng.random(NUM_ENVS) < (t % 5) / 4
            step = stream.step(where, given)
            writer.add(**step) if where.all() else writer.add_some(where, **step)
            for env in np.flatnonzero(where):
                writers[env].add(**of_one(step, env))
            dropped = stream.rng.random(NUM_ENVS) < 0.05
            writer.drop_windows(dropped)
            for env in np.flatnonzero(dropped):
                stream.reset(env)
                writers[env] = apart.writer(1, check_obs=check_obs)
        assert len(together) == len(apart) > together.capacity / 4
        for (name, values), (_, expected) in zip(
            flattened(all_rows(together)), flattened(all_rows(apart)), strict=True
        ):
            np.testing.assert_array_equal(values, expected, err_msg=name)
        np.testing.assert_array_equal(together.all_keys(), apart.all_keys())
        of_all = [replay.priorities(replay.all_keys()) for replay in (together, apart)]
        np.testing.assert_array_equal(*of_all)


def test_without_marks_all_windows_are_dropped():
    with Replay(50, SPEC, num_step=3, gamma=1.0) as replay:
        writer, stream = replay.writer(NUM_ENVS), Stream(SPEC)
        everywhere, no = np.ones(NUM_ENVS, bool), np.zeros(NUM_ENVS, bool)
        for _ in range(2):
            writer.add(**{**stream.step(everywhere, False), "terminated": no, "truncated": no})
        writer.drop_windows()
        last = {**stream.step(everywhere, False), "terminated": everywhere, "truncated": no}
        writer.add(**last)
        assert len(replay) == NUM_ENVS
        np.testing.assert_array_equal(all_rows(replay)["reward"], last["reward"])


@pytest.mark.parametrize("num_step", [1, 3])
def test_environments_that_only_reset_in_a_step_of_gymnasiums_leave_no_row(num_step):
    envs = gymnasium.make_vec("CartPole-v1", 4, vectorization_mode="sync")
    assert envs.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
    with Replay.for_env(envs, 2_000, num_step=num_step, gamma=1.0) as replay:
        writer = replay.writer(4)
        obs, _ = envs.reset(seed=0)
        envs.action_space.seed(0)
        resets, num_episodes, num_taken = np.zeros(4, bool), 0, 0
        for _ in range(300):
            action = envs.action_space.sample()
            next_obs, reward, terminated, truncated, _ = envs.step(action)
            writer.add_some(
                ~resets, obs=obs, action=action, reward=reward, next_obs=next_obs, terminated=terminated,
                truncated=truncated,
            )  # fmt: skip
            num_taken += (~resets).sum()
            resets = terminated | truncated
            num_episodes += resets.sum()
            obs = next_obs
        data = all_rows(replay)
        assert num_episodes > 20
        assert num_taken - len(replay) <= 4 * (num_step - 1)
        assert np.abs(data["obs"][:, 2]).max() < 0.2095, "no row begins where an episode has ended"
        inside = ~data["terminated"]
        assert (data["reward"][inside] == num_step).all()
        assert data["terminated"].sum() >= num_episodes
    envs.close()


def test_what_does_not_fit_is_refused_and_nothing_is_added():
    with Replay(50, SPEC) as replay:
        writer, step = replay.writer(NUM_ENVS), Stream(SPEC).step(np.ones(NUM_ENVS, bool), False)
        for where, got in [
            (np.ones(4, bool), r"bool\[4\]"),
            (np.ones(NUM_ENVS), r"float64\[5\]"),
            ([1, 2], r"int64\[2\]"),
        ]:
            with pytest.raises(InvalidInput, match=rf"where: expected bool\[5\], got {got}"):
                writer.add_some(where, **step)
            with pytest.raises(InvalidInput, match=rf"where: expected bool\[5\], got {got}"):
                writer.drop_windows(where)
        with pytest.raises(InvalidInput, match="missing reward"):
            writer.add_some(np.ones(NUM_ENVS, bool), **{name: x for name, x in step.items() if name != "reward"})
        assert len(replay) == 0
        writer.add_some([True, False, True, False, False], **step)
        assert len(replay) == 2
        writer.add_some(np.zeros(NUM_ENVS, bool), **step)
        writer.add_some(np.ones(2 * NUM_ENVS, bool)[::2], **step)
        assert len(replay) == 2 + NUM_ENVS
    for call in (lambda: writer.add_some(np.ones(NUM_ENVS, bool), **step), writer.drop_windows):
        with pytest.raises(Closed):
            call()


def test_what_is_not_marked_means_nothing_not_even_where_it_is_no_number():
    with Replay(8, {"x": ((), "int64")}, initial_priority="given") as replay:
        writer, no = replay.writer(2), np.zeros(2, bool)
        step = {"x": np.array([1, 2]), "terminated": no, "truncated": no}
        bad = np.array([np.inf, 2.0]), np.array([np.nan, 3.0])
        writer.add_some(np.array([False, True]), reward=bad[0], priority=bad[1].astype(np.float32), **step)
        assert replay.read(replay.all_keys()).data["reward"].tolist() == [2.0]
        with pytest.raises(InvalidInput, match=r'field "reward"\[0\]: expected finite'):
            writer.add_some(np.array([True, False]), reward=bad[0], priority=bad[1].astype(np.float32), **step)
