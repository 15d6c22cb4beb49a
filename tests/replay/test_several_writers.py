"""Several writers in turn, by every way of adding, saves and loads between: rows are what the guide says of the steps.

The oracle is the guide's table of what a row holds, for one environment at a time; it knows no slots, frames or keys.
"""

import contextlib
import pickle
import tempfile
from pathlib import Path

import numpy as np
import pytest
from filled import SLOT_MASK

from drivetrain.core.errors import InvalidInput
from drivetrain.replay import Replay, Sequences
from drivetrain.replay.testing import check_consistent

GAMMA = 0.5
KINDS = {
    "steps": {},
    "windows": {"num_step": 3},
    "shared": {"num_step": 2, "share_next_obs": True},
    "stacked": {"frame_stack": 3},
    "sequences": {"sequence": Sequences(length=3, burn_in=1, period=2), "frame_stack": 2},
}


class Environment:
    """One environment's steps, each with a number of its own, and its windows that are open."""

    def __init__(self, program, break_rate):
        self.program, self.break_rate, self.window, self.begin, self.frames = program, break_rate, [], 0, None

    def step(self):
        program, rng = self.program, self.program.rng
        program.number += 1
        follows = self.frames is not None and rng.random() >= self.break_rate
        frames = self.frames if follows else (int(rng.integers(4)),) * program.stack
        ends = rng.random(2) < program.end_rate
        return {
            "number": program.number,
            "next_number": program.number,
            "obs": frames,
            "next_obs": (*frames[1:], int(rng.integers(200))),
            "reward": float(rng.integers(-9, 9)),
            "terminated": bool(ends[0]),
            "truncated": bool(ends[1]),
        }

    def take(self, step):
        """The rows that a step completes, as lists of their steps."""
        ended, rows = step["terminated"] or step["truncated"], []
        self.window.append(step)
        self.frames = None if ended else step["next_obs"]
        sequence = KINDS[self.program.kind].get("sequence")
        if sequence is None:
            while self.window and (ended or len(self.window) == self.program.num_steps):
                rows.append(self.window[:])
                del self.window[0]
        elif ended or len(self.window) - self.begin == sequence.num_steps:
            rows.append(self.window[self.begin :])
            self.begin += sequence.num_new_steps
        if ended:
            self.window, self.begin = [], 0
        return rows


def arrays_of(steps, stack, shape):
    """Steps as users give them."""
    arrays = {name: np.array([step[name] for step in steps]) for name in steps[0]}
    for name in ("obs", "next_obs"):
        arrays[name] = arrays[name].astype(np.uint8)[..., None].repeat(2, axis=-1)
        arrays[name] = arrays[name] if stack > 1 else arrays[name][:, 0]
    return {name: array.reshape(*shape, *array.shape[1:]) for name, array in arrays.items()}


class Program:
    """Calls of a replay at random, and what its rows have to be after each."""

    def __init__(self, kind, seed):
        self.kind, self.rng = kind, np.random.default_rng([seed, *kind.encode()])
        self.stack = KINDS[kind].get("frame_stack", 1)
        sequence = KINDS[kind].get("sequence")
        self.num_steps = sequence.num_steps if sequence else KINDS[kind].get("num_step", 1)
        self.capacity, self.shared = self.one_of(1, 2, 17, 60), self.one_of(True, False)
        self.end_rate, self.number = 0.1, 0
        self.folder = tempfile.TemporaryDirectory()
        self.path, self.saved = Path(self.folder.name) / "replay", None
        spec = {"obs": ((self.stack, 2) if self.stack > 1 else (2,), "uint8")}
        spec |= dict.fromkeys(["number", "next_number"], ((), "int64"))
        self.views = [Replay(self.capacity, spec, gamma=GAMMA, shared=self.shared, **KINDS[kind])]
        self.start([], {})

    def one_of(self, *values):
        return values[self.rng.integers(len(values))]

    def start(self, rows, priorities):
        self.rows, self.priorities, self.writers = rows, priorities, []
        self.new_writer()

    def run(self, num_calls):
        calls = [self.add] * 4 + [self.extend, self.drop_windows, self.new_writer, self.attach, self.load]
        calls += [self.save, self.save, self.give_priorities, self.give_priorities, self.change_alpha]
        calls.append(self.what_does_not_fit_changes_nothing)
        for _ in range(num_calls):
            self.one_of(*calls)()
            self.rows_are_what_became_of_the_steps()

    def close(self):
        self.folder.cleanup()
        for view in self.views:
            view.close()

    def new_writer(self):
        num_envs, check_obs = self.one_of(1, 2, 5), self.one_of(True, False)
        envs = [Environment(self, 0.1 if check_obs else 0.0) for _ in range(num_envs)]
        self.writers = [*self.writers[-2:], (self.views[-1].writer(num_envs, check_obs=check_obs), envs)]

    def add(self):
        native, envs = self.one_of(*self.writers)
        share, self.end_rate = self.one_of(1.0, 1.0, 0.5), self.one_of(0.0, 0.05, 0.3)
        for _ in range(self.one_of(1, 2, 8)):
            steps = [env.step() for env in envs]
            where = self.rng.random(len(envs)) < share
            arrays = arrays_of(steps, self.stack, (len(envs),))
            native.add(**arrays) if where.all() else native.add_some(where, **arrays)
            for env, step, is_meant in zip(envs, steps, where, strict=True):
                self.commit(env.take(step) if is_meant else [])

    def extend(self):
        native, envs = self.one_of(*self.writers)
        steps = []
        for _ in range(count := self.one_of(1, 4)):
            for env in envs:
                steps.append(env.step())
                self.commit(env.take(steps[-1]))
        native.extend(**arrays_of(steps, self.stack, (count, len(envs))))

    def commit(self, rows):
        self.rows = (self.rows + rows)[-self.capacity :]

    def drop_windows(self):
        native, envs = self.one_of(*self.writers)
        where = self.rng.random(len(envs)) < 0.7
        native.drop_windows(where)
        for env in [env for env, is_meant in zip(envs, where, strict=True) if is_meant]:
            env.window, env.begin, env.frames = [], 0, None

    def change_alpha(self):
        self.views[-1].set_alpha(self.one_of(0.3, 0.6, 1.0))

    def give_priorities(self):
        keys = self.views[0].all_keys()
        keys = keys[self.rng.random(len(keys)) < self.one_of(0.2, 1.0)]
        given = self.rng.uniform(0.5, 5, len(keys))
        assert self.views[-1].update_priorities(keys, given) == 0
        self.priorities |= dict(zip(self.numbers(keys), given, strict=True))

    def numbers(self, keys):
        """Of the first steps of rows."""
        numbers = self.views[0].read(keys).data["number"]
        return numbers.reshape(len(keys), -1)[:, 0].tolist() if len(keys) else []

    def save(self):
        self.views[0].save(self.path, incremental=self.one_of(True, True, True, False))
        self.saved = self.rows, dict(self.priorities), self.capacity

    def load(self):
        if self.saved:
            rows, priorities, as_saved = self.saved
            self.capacity = self.one_of(as_saved, as_saved, as_saved, 1, 17, 60)
            self.views = [Replay.load(self.path, capacity=self.capacity, shared=self.shared)]
            self.start(rows[-self.capacity :], dict(priorities))

    def attach(self):
        if self.shared:
            self.views = [self.views[0], Replay.attach(pickle.loads(pickle.dumps(self.views[0].handle())))]

    def what_does_not_fit_changes_nothing(self):
        native, envs = self.one_of(*self.writers)
        arrays = arrays_of([env.step() for env in envs], self.stack, (len(envs),))
        arrays["reward"][-1] = np.nan
        with pytest.raises(InvalidInput, match="finite"):
            native.add(**arrays)

    def rows_are_what_became_of_the_steps(self):
        keys = self.views[0].all_keys()
        numbers, of_number = self.numbers(keys), {row[0]["number"]: row for row in self.rows}
        expected = [row[0]["number"] for row in self.rows]
        is_framed = self.kind in ("shared", "stacked", "sequences")  # oldest rows may leave early
        self.rows = [of_number[number] for number in numbers]
        assert numbers == ([number for number in expected if number in set(numbers)] if is_framed else expected)
        assert len(np.unique(keys & SLOT_MASK)) == len(keys)
        check_consistent(self.views[-1])
        data = self.views[-1].read(keys).data
        for at, row in enumerate(self.rows):
            self.check({name: values[at] for name, values in data.items()}, row)
        got = dict(zip(numbers, self.views[-1].priorities(keys), strict=True))
        known = {number: self.priorities[number] for number in numbers if number in self.priorities}
        np.testing.assert_allclose([got[number] for number in known], list(known.values()), rtol=1e-4)

    def check(self, data, row):
        steps = arrays_of(row, self.stack, (len(row),))
        if self.kind == "sequences":
            steps["discount"] = np.where(steps["terminated"], 0.0, GAMMA)
            steps["mask"] = np.ones(len(row), bool)
            for name, values in steps.items():
                padded = np.concatenate(
                    [values, np.zeros((self.num_steps - len(row), *values.shape[1:]), values.dtype)]
                )
                np.testing.assert_array_equal(data[name], padded, err_msg=name)
            return
        assert data["reward"] == sum(GAMMA**k * step["reward"] for k, step in enumerate(row))
        assert data["discount"] == (0 if row[-1]["terminated"] else GAMMA ** len(row))
        for name in steps.keys() - {"reward"}:
            last = name.startswith("next_") or name in ("terminated", "truncated")
            np.testing.assert_array_equal(data[name], steps[name][-1 if last else 0], err_msg=name)


def check_programs(kind, seeds, num_calls):
    for seed in seeds:
        with contextlib.closing(Program(kind, seed)) as program:
            program.run(num_calls)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_several_writers_are_what_the_guide_says_of_their_steps(kind):
    check_programs(kind, range(2), 60)


@pytest.mark.stress  # many more programs, and longer ones
@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_several_writers_are_what_the_guide_says_in_many_programs(kind):
    check_programs(kind, range(100, 200), 100)
