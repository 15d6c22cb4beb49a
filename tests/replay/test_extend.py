"""Several steps in one call: the same rows as step by step, or none."""

import numpy as np
import pytest

from drivetrain.core.errors import Closed, InvalidInput
from drivetrain.replay import Replay, Sequences
from drivetrain.replay.testing import check_consistent

NESTED = {"obs": {"x": ((2,), "float32"), "y": ((), "int32")}, "action": ((), "int64")}
FLAT = {"obs": ((3,), "float32"), "action": ((2,), "float32")}


def steps_of(spec, num_steps, num_envs, seed=0):
    """Random steps, `[num_steps, num_envs, ...]`."""
    rng = np.random.default_rng(seed)

    def drawn(spec):
        if isinstance(spec, dict):
            return {name: drawn(entry) for name, entry in spec.items()}
        shape, dtype = spec
        return rng.integers(0, 100, (num_steps, num_envs, *shape)).astype(dtype)

    steps = drawn(spec)
    return steps | {
        "next_obs": drawn(spec["obs"]),
        "reward": rng.standard_normal((num_steps, num_envs)),
        "terminated": rng.random((num_steps, num_envs)) < 0.1,
        "truncated": rng.random((num_steps, num_envs)) < 0.1,
    }


def at(steps, step):
    if isinstance(steps, dict):
        return {name: at(entry, step) for name, entry in steps.items()}
    return steps[step]


@pytest.mark.parametrize(
    ("spec", "settings"),
    [
        (FLAT, {"num_step": 3}),
        (NESTED, {"num_step": 2}),
        (NESTED, {"share_next_obs": True}),
        (FLAT, {"sequence": Sequences(length=4, burn_in=1, period=3)}),
        (FLAT, {"initial_priority": "given"}),
    ],
)
def test_the_rows_are_those_of_as_many_steps(spec, settings):
    steps = steps_of(spec, 50, 3)
    if "initial_priority" in settings:
        steps["priority"] = np.abs(steps["reward"])
    with Replay(500, spec, **settings) as at_once, Replay(500, spec, **settings) as in_turn:
        writer, one_by_one = at_once.writer(3), in_turn.writer(3)
        writer.extend(**at(steps, slice(0, 20)))
        writer.extend(**at(steps, slice(20, 20)))  # none
        writer.extend(**at(steps, slice(20, 50)))
        for step in range(50):
            one_by_one.add(**at(steps, step))
        rows, expected = (replay.sample(32) for replay in (at_once, in_turn))
        np.testing.assert_array_equal(rows.keys, expected.keys)
        names = at_once._schema
        for left, right in zip(names.flatten(rows.data).values(), names.flatten(expected.data).values(), strict=True):
            np.testing.assert_array_equal(left, right)
        check_consistent(at_once)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("reward", np.zeros(3), r"extend: expected rewards of \[steps, 3\], one per step and environment, got \[3\]"),
        (
            "reward",
            np.zeros((3, 5)),
            r"rewards of \[steps, 3\], .*, got \[3, 5\]; .*: swap them, array.swapaxes\(0, 1\)",
        ),
        (
            "reward",
            np.zeros((5, 2)),
            r'field "reward": expected float32\[5, 3\], got float64\[5, 2\]; give one row per',
        ),
        (
            "action",
            np.zeros((5, 3), np.float32),
            r'"action": expected float32\[5, 3, 2\], got .*; give one row per step',
        ),
        ("action", np.zeros((5, 3, 2)), r'"action": expected float32\[5, 3, 2\], got float64.*; cast it'),
        ("action", None, 'field "action": expected a NumPy array'),
        ("reward", [[1.0] * 3] * 5, 'field "reward": expected a NumPy array'),
        (
            "reward",
            [[1.0] * 3, [1.0]],
            r'field "reward": expected an array that NumPy can read, got list \(.*inhomogeneous',
        ),
        ("obs", np.zeros((4, 3, 3), np.float32), r'"obs": expected float32\[5, 3, 3\], got float32\[4, 3, 3\]'),
    ],
)
def test_what_does_not_fit_is_named_and_nothing_is_added(name, value, message):
    with Replay(100, FLAT) as replay:
        writer = replay.writer(3)
        with pytest.raises(InvalidInput, match=message):
            writer.extend(**steps_of(FLAT, 5, 3) | {name: value})
        steps = steps_of(FLAT, 5, 3)
        steps["reward"][4, 2] = np.nan
        with pytest.raises(InvalidInput, match=r'field "reward"\[4, 2\]: expected finite numbers'):
            writer.extend(**steps)
        with pytest.raises(InvalidInput, match="missing action"):
            writer.extend(**{name: array for name, array in steps.items() if name != "action"})
        assert replay.num_inserted == 0
    with pytest.raises(Closed):
        writer.extend(**steps_of(FLAT, 5, 3))


def test_fields_that_are_missing_are_named_before_their_shapes_are_looked_at():
    with (
        Replay(10, {"action": ((), "int64")}) as replay,
        pytest.raises(InvalidInput, match=r"extend: expected exactly the fields .*; missing action, reward, termin"),
    ):
        replay.writer(1).extend()


@pytest.mark.parametrize(
    ("name", "shape", "remedy"),
    [
        ("reward", (2, 1), r"float32\[2\], got .*; take the last axis away, array\[\.\.\., 0\]"),
        ("obs", (2, 3, 1), r"got float32\[2, 3, 1\]; take the last axis away"),
        ("torque", (2,), r"\[2, 1\], got .*; add the last axis, array\[\.\.\., None\]"),
        ("reward", (5, 2, 1), r"got \[5, 2, 1\]; take the last axis away"),
        ("terminated", (5, 2, 1), r"bool\[5, 2, 1\]; take the last axis away"),
        ("torque", (5, 2), r"got float32\[5, 2\]; add the last axis"),
    ],
)
def test_an_axis_of_one_that_is_too_much_or_missing_is_told_as_such(name, shape, remedy):
    """Stable-Baselines3, cpprb, TorchRL and many files have rewards and ends as [N, 1]."""
    spec = FLAT | {"torque": ((1,), "float32")}
    steps, method = steps_of(spec, 5, 2), "extend"
    if shape[0] == 2:
        steps, method = at(steps, 0), "add"
    steps[name] = steps[name].reshape(shape)
    with Replay(16, spec) as replay, pytest.raises(InvalidInput, match=remedy):
        getattr(replay.writer(2), method)(**steps)


def test_steps_of_one_environment_without_its_axis_are_told_to_take_it():
    with Replay(16, FLAT) as replay, pytest.raises(InvalidInput, match=r"got \[5\]; .*: give array\[:, None\] of each"):
        replay.writer(1).extend(**{name: array[:, 0] for name, array in steps_of(FLAT, 5, 1).items()})
