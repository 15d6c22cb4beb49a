"""Whatever does not fit is refused in a sentence that says what was expected, and changes nothing."""

import re

import numpy as np
import pytest
from children import run_script
from filled import add_rows, filled_replay, first_keys

from drivetrain.core.errors import InvalidInput, NotEnoughData, SegmentError
from drivetrain.replay import Replay, Sample, Sequences

SPEC = {"obs": ((4,), "float32"), "action": ((), "int64")}


def step(num_envs=2, **changes):
    return {
        "obs": np.zeros((num_envs, 4), np.float32),
        "action": np.zeros(num_envs, np.int64),
        "next_obs": np.zeros((num_envs, 4), np.float32),
        "reward": np.zeros(num_envs),
        "terminated": np.zeros(num_envs, bool),
        "truncated": np.zeros(num_envs, bool),
    } | changes


def state(replay):
    """All that a refused call must leave as it was."""
    return {k: v for k, v in replay._table.stats().items() if k != "random_block"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"obs": np.zeros((2, 4))},
            r'field "obs": expected float32\[2, 4\], got float64\[2, 4\]; cast it .*or declare float64 in the spec',
        ),
        ({"obs": np.zeros((2, 5), np.float32)}, r'field "obs": expected float32\[2, 4\], got float32\[2, 5\]'),
        ({"obs": np.zeros((3, 4), np.float32)}, r"expected float32\[2, 4\], got float32\[3, 4\]; .*per environment"),
        ({"obs": np.zeros(4, np.float32)}, r"got float32\[4\]; add the leading axis"),
        ({"obs": [[0.0] * 4] * 2}, "expected a NumPy array .* got list"),
        ({"obs": {"left": np.zeros((2, 4), np.float32)}}, "obs"),
        ({"obs": None}, "expected a NumPy array .* got NoneType"),
        ({"action": np.zeros(2, np.int32)}, r'field "action": expected int64\[2\], got int32\[2\]'),
        ({"action": np.zeros((2, 1), np.int64)}, r'field "action": expected int64\[2\], got int64\[2, 1\]'),
        ({"reward": np.zeros((2, 1))}, r'field "reward": expected float32\[2\], got float64\[2, 1\]'),
        ({"reward": np.zeros(2, complex)}, 'field "reward"'),
        ({"terminated": np.zeros(2)}, r'field "terminated": expected bool\[2\], got float64\[2\]'),
        ({"truncated": np.zeros(2, np.uint8)}, r'field "truncated": expected bool\[2\], got uint8\[2\]'),
        ({"done": np.zeros(2, bool)}, "not declared in the spec: done"),
        ({"discount": np.zeros(2, np.float32)}, "not declared in the spec: discount"),
    ],
)
@pytest.mark.parametrize("num_step", [1, 3])
def test_a_step_that_does_not_fit_is_refused(changes, message, num_step):
    replay = Replay(16, SPEC, num_step=num_step)
    writer = replay.writer(2)
    with pytest.raises(InvalidInput, match=message):
        writer.add(**step(**changes))
    assert len(replay) == 0
    writer.add(**step(truncated=np.ones(2, bool)))
    assert len(replay) == 2  # only what fitted is in the windows


@pytest.mark.parametrize(
    ("dtype", "cast"),
    [
        (">f4", ".astype('>f4')"),
        ([("x", "i4"), ("y", ">f8", (2,))], ".astype([('x', '<i4'), ('y', '>f8', (2,))])"),
    ],
)
def test_the_cast_that_a_refusal_names_can_be_typed_as_it_stands(dtype, cast):
    replay = Replay(16, {"x": ((), dtype)})
    steps = {"reward": np.ones(2), "terminated": np.zeros(2, bool), "truncated": np.zeros(2, bool)}
    with pytest.raises(InvalidInput, match=re.escape(f"; cast it with {cast}")):
        replay.writer(2).add(x=np.zeros(2), **steps)


@pytest.mark.parametrize(
    ("bad", "dtype"), [(np.nan, "f4"), (np.inf, "f2"), (-np.inf, "f8"), (1e39, "f8"), (3.4028235e38, "f8")]
)
@pytest.mark.parametrize("kind", [{}, {"num_step": 3}, {"sequence": Sequences(length=2)}])
def test_a_reward_that_is_no_number_is_refused(bad, dtype, kind):
    replay = Replay(16, SPEC, **kind)
    writer = replay.writer(2)
    with pytest.raises(
        InvalidInput, match=r'field "reward"\[1\]: expected finite .* got (nan|-?inf|1e\+39|3.4028235e\+38)'
    ):
        writer.add(**step(reward=np.array([0, bad], dtype)))
    assert len(replay) == 0
    writer.add(**step(truncated=np.ones(2, bool), reward=np.full(2, 60000, dtype)))
    assert len(replay) > 0


@pytest.mark.parametrize(
    ("priority", "message"),
    [
        ([0.5, -1.0], r'field "priority"\[1\]: expected a finite float32 >= 0, got -1.0'),
        ([np.nan, 1.0], r"got nan"),
        ([1.0, 1e39], r"got 1e\+39"),
        ([1.0], r'field "priority": expected float32\[2\], got float64\[1\]'),
        (["1", "2"], r'field "priority": expected float32\[2\], got <U1\[2\]'),
        (None, "missing priority"),
    ],
)
@pytest.mark.parametrize("num_step", [1, 3])
def test_a_given_priority_that_does_not_fit_is_refused(priority, message, num_step):
    replay = Replay(16, SPEC, num_step=num_step, initial_priority="given")
    writer = replay.writer(2)
    changes = {} if priority is None else {"priority": np.array(priority)}
    with pytest.raises(InvalidInput, match=message):
        writer.add(**step(**changes))
    with pytest.raises(InvalidInput, match="not declared in the spec: priority"):
        Replay(16, SPEC).writer(2).add(**step(priority=np.ones(2)))
    writer.add(**step(truncated=np.ones(2, bool), priority=np.array([1, 3], np.int8)))
    assert len(replay) == 2


@pytest.mark.parametrize("missing", ["obs", "action", "next_obs", "reward", "terminated", "truncated"])
def test_a_missing_field_is_named(missing):
    values = step()
    del values[missing]
    with pytest.raises(InvalidInput, match=f"missing {missing}"):
        Replay(16, SPEC).writer(2).add(**values)


@pytest.mark.parametrize(
    ("priorities", "message"),
    [
        ([1, np.nan, 1, 1], r"priorities\[1\]: expected a finite float32 >= 0, got nan"),
        ([1, 1, np.inf, 1], r"priorities\[2\].*got inf"),
        ([1, 1, 1, -1e-9], r"priorities\[3\].*got -1e-09"),
        ([1, 1, 1, 1e39], r"priorities\[3\].*got 1e\+39"),
        ([1, 1, 1], r"one per key, shape \[4\], got \[3\]; give those of the same rows"),
        ([[1, 1, 1, 1]], r"one per key, shape \[4\], got \[1, 4\]; give priorities.reshape\(keys.shape\)"),
        ([[1], [1], [1], [1]], r"one per key, shape \[4\], got \[4, 1\]; give priorities.reshape\(keys.shape\)"),
        ([[1, 2]] * 4, r"one per key, shape \[4\], got \[4, 2\]; make one of each row's, as of the steps"),
        (["1", "1", "1", "1"], "real numbers"),
        ([1j, 1, 1, 1], "real numbers"),
        ([True] * 4, "real numbers"),
    ],
)
def test_priorities_that_do_not_fit_are_refused(priorities, message):
    replay = filled_replay(4, alpha=1.0)
    before = state(replay)
    with pytest.raises(InvalidInput, match=message):
        replay.update_priorities(first_keys(4), np.array(priorities))
    assert state(replay) == before


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (np.arange(4), "expected uint64"),
        (np.arange(4.0), "expected uint64"),
        (np.arange(4, dtype=np.uint64), "no key of this replay"),
        (first_keys(4) + np.uint64(2), "no key of this replay"),
        (first_keys(4) + np.uint64(1 << 32), "no key of this replay"),
        (np.full(4, 2**64 - 1, np.uint64), "no key of this replay"),
    ],
)
def test_keys_of_no_row_are_refused(keys, message):
    replay = filled_replay(4, alpha=1.0)
    before = state(replay)
    with pytest.raises(InvalidInput, match=message):
        replay.update_priorities(keys, np.full(4, 9.0))
    assert state(replay) == before


def test_keys_and_priorities_of_any_layout_and_real_dtype_are_taken():
    replay = filled_replay(8, alpha=1.0)
    keys = first_keys(8)
    assert replay.update_priorities(keys[::2], np.arange(8)[::2]) == 0
    assert replay.update_priorities(keys.reshape(2, 4), np.ones((2, 4), np.float16)) == 0
    assert replay.update_priorities(keys.tolist() and keys[:1], [3]) == 0
    assert replay.update_priorities(keys[:0], np.zeros(0)) == 0
    assert replay._table.is_consistent()


def test_unaligned_arrays_are_taken():
    def unaligned(array):
        raw = np.zeros(array.nbytes + 1, np.uint8)[1:]
        raw[:] = array.reshape(-1).view(np.uint8)
        return raw.view(array.dtype).reshape(array.shape)

    replay = Replay(8, SPEC, alpha=1.0)
    replay.writer(2).add(**{name: unaligned(array + array.dtype.type(1)) for name, array in step().items()})
    sample = replay.sample(2)
    assert (sample.data["obs"] == 1).all()
    assert sample.data["reward"].tolist() == [1.0, 1.0]
    assert replay.update_priorities(unaligned(sample.keys), unaligned(np.full(2, 5.0))) == 0
    assert replay._table.stats()["max_priority"] == 5.0


def test_a_uniform_replay_takes_no_priorities():
    with pytest.raises(InvalidInput, match="prioritized=True"):
        filled_replay(4, prioritized=False).update_priorities(first_keys(4), np.ones(4))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size: expected an integer >= 1, got 0"),
        ({"batch_size": -1}, "batch_size"),
        ({"batch_size": 2.0}, "batch_size"),
        ({"batch_size": "2"}, "batch_size"),
        ({"batch_size": True}, "batch_size"),
        ({"batch_size": None}, "batch_size"),
        ({"beta": -0.1}, r"beta: expected a number in \[0, 1\]"),
        ({"beta": 1.1}, "beta"),
        ({"beta": np.nan}, "beta"),
        ({"beta": "1"}, "beta"),
        ({"beta": None}, "beta"),
        ({"beta": 10**400}, "beta"),
        ({"beta": np.complex64(0.5)}, "beta"),
        ({"mode": "uniform"}, 'mode: expected "stratified" or "iid"'),
        ({"mode": np.array(["iid", "iid"])}, 'mode: expected "stratified" or "iid"'),
        ({"num_batches": 0}, "num_batches"),
        ({"num_batches": 1.5}, "num_batches"),
        ({"num_batches": 2**40}, "num_batches"),
        ({"out": (1, 2, 3)}, "out: expected a Sample"),
        ({"out": Sample(None, None, None)}, "out: expected x to be a writable"),
        ({"join_stacks": "no"}, "join_stacks: expected True or False, got 'no'"),
    ],
)
def test_arguments_of_sample_that_do_not_fit_are_refused(options, message):
    replay = filled_replay(8)
    with pytest.raises(InvalidInput, match=message):
        replay.sample(**({"batch_size": 4} | options))


def test_numpy_integers_and_floats_are_as_good_as_pythons():
    replay = Replay(np.int64(8), {"x": ((np.int32(2),), "uint8")}, num_step=np.uint8(1), seed=np.uint64(2**64 - 1))
    no = np.zeros(8, bool)
    replay.writer(np.int16(8)).add(x=np.zeros((8, 2), np.uint8), reward=np.zeros(8), terminated=no, truncated=no)
    assert replay.sample(np.int64(4), beta=np.float32(0.5), num_batches=np.int32(2)).keys.shape == (2, 4)


def test_numpy_booleans_are_as_good_as_pythons():
    yes, no = np.bool_(True), np.bool_(False)
    with Replay(8, SPEC, prioritized=yes, shared=no, share_next_obs=yes) as replay:
        replay.writer(2, check_obs=no).add(**step())
        assert replay.sample(2, join_stacks=yes).keys.shape == (2,)
        replay.set_alpha(0.5, rescale=yes)
        assert replay.new_batch(2, pinned=no).keys.shape == (2,)


def test_sampling_too_early_says_how_much_there_is():
    replay = Replay(16, {"x": ((), "uint8")}, num_step=3)
    for num in (1, 2**60):
        with pytest.raises(NotEnoughData, match=f"expected at least {num} committed transitions, got 0"):
            replay.sample(num)
    add_rows(replay, 5)
    with pytest.raises(NotEnoughData, match=r"expected at least 6 committed transitions, got 5; .*num_step=3"):
        replay.sample(6)
    with pytest.raises(NotEnoughData, match="holds at most 16"):
        replay.sample(17, num_batches=2)
    assert replay.sample(5).keys.shape == (5,)


def test_rows_that_come_just_after_a_sample_found_too_few_are_not_told_as_too_few(monkeypatch):
    replay = filled_replay(16, num_rows=5)
    monkeypatch.setattr(Replay, "__len__", lambda self: 8)  # as when a thread has added three meanwhile
    with pytest.raises(NotEnoughData, match=r"at least 6 committed transitions, got fewer, and 8 now .*sample again"):
        replay.sample(6)


def test_out_is_written_and_returned():
    replay = filled_replay(64, seed=1)
    twin = filled_replay(64, seed=1)
    out = replay.sample(8, num_batches=2)
    twin.sample(8, num_batches=2)
    again = replay.sample(8, num_batches=2, out=out)
    assert again is out
    expected = twin.sample(8, num_batches=2)
    np.testing.assert_array_equal(again.keys, expected.keys)
    np.testing.assert_array_equal(again.weights, expected.weights)


@pytest.mark.parametrize("wrong", ["sizes", "batches", "dtype", "read-only", "strided", "missing", "list", "keys"])
def test_an_out_that_does_not_fit_is_refused(wrong):
    replay = filled_replay(64)
    out = replay.sample(8)
    sizes = {"batch_size": 8}
    if wrong == "sizes":
        sizes = {"batch_size": 7}
    elif wrong == "batches":
        sizes = {"batch_size": 8, "num_batches": 1}
    elif wrong == "dtype":
        out.data["reward"] = out.data["reward"].astype(np.float64)
    elif wrong == "read-only":
        out.data["reward"].flags.writeable = False
    elif wrong == "strided":
        out.data["reward"] = np.zeros(16, np.float32)[::2]
    elif wrong == "missing":
        del out.data["discount"]
    elif wrong == "list":
        out.data["x"] = [0] * 8
    else:
        out = out._replace(keys=out.keys.astype(np.int64))
    before = replay._table.stats()
    with pytest.raises(InvalidInput, match="out: expected"):
        replay.sample(**sizes, out=out)
    assert replay._table.stats() == before


@pytest.mark.parametrize("num_batches", [None, 3])
def test_an_out_whose_arrays_share_memory_is_refused(num_batches):
    replay = filled_replay(64)
    out = replay.new_batch(8, num_batches=num_batches)
    for first in (0, 1):  # the same array twice; half of it
        memory = np.empty(2 * out.weights.size, np.float32)
        rewards = memory[: out.weights.size].reshape(out.weights.shape)
        start = first * out.weights.size // 2
        weights = memory[start : start + out.weights.size].reshape(out.weights.shape)
        shared = out._replace(data={**out.data, "reward": rewards}, weights=weights)
        before = replay._table.stats()
        with pytest.raises(InvalidInput, match=r"share no memory, got (reward and weights|weights and reward) in"):
            replay.sample(8, num_batches=num_batches, out=shared)
        assert replay._table.stats() == before
    swapped = out._replace(weights=out.data["reward"], data={**out.data, "reward": out.weights})  # in no order
    assert replay.sample(8, num_batches=num_batches, out=swapped) is swapped


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"capacity": 0}, "capacity: expected an integer in 1..4294967295, got 0"),
        ({"capacity": -1.0}, "capacity: .* got -1.0$"),
        ({"capacity": 2**32}, "capacity"),
        ({"capacity": 1e6}, r"got 1000000\.0; write 1000000$"),
        ({"alpha": -0.1}, r"alpha: expected a number in \[0, 1\]"),
        ({"alpha": 1.5}, "alpha"),
        ({"alpha": np.nan}, "alpha"),
        ({"num_step": 0}, "num_step"),
        ({"gamma": 1.01}, "gamma"),
        ({"gamma": "1"}, "gamma"),
        ({"gamma": 10**400}, "gamma"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**64}, "seed"),
        (
            {"initial_priority": "max"},
            'initial_priority: expected "running_max", "buffer_max", "given" or a .* got',
        ),
        ({"initial_priority": -0.5}, "initial_priority"),
        ({"initial_priority": np.inf}, "initial_priority"),
        ({"initial_priority": np.nan}, "initial_priority"),
        ({"initial_priority": 1e39}, "initial_priority"),
        ({"initial_priority": 10**400}, "initial_priority"),
        ({"initial_priority": np.array("a")}, "initial_priority"),
        ({"initial_priority": True}, "initial_priority"),
        ({"initial_priority": None}, "initial_priority"),
        ({"weights_by": "max"}, r'weights_by: expected "batch" or "buffer", got .max'),
        ({"weights_by": None}, "weights_by"),
        ({"weights_by": np.array(["batch", "buffer"])}, "weights_by"),
        ({"initial_priority": np.array([1.0, 2.0])}, "initial_priority"),
        ({"prioritized": "no"}, "prioritized: expected True or False, got 'no'"),
        ({"share_next_obs": None}, "share_next_obs: expected True or False"),
        ({"share_next_obs": np.zeros(2)}, "share_next_obs: expected True or False"),
        ({"shared": 2}, "shared: expected True or False"),
        ({"initial_priority": 1.0, "prioritized": False}, "a uniform replay has no priorities, got 1.0"),
        ({"initial_priority": "given", "spec": {"priority": {"x": ((), "f4")}}}, "the name is taken"),
    ],
)
def test_settings_out_of_range_are_refused(options, message):
    with pytest.raises(InvalidInput, match=message):
        Replay(**({"capacity": 8, "spec": SPEC} | options))


@pytest.mark.parametrize("num_envs", [0, -1, 1.5, "2", 2**40])
def test_a_writer_needs_a_sensible_number_of_environments(num_envs):
    with pytest.raises(InvalidInput, match="num_envs"):
        Replay(8, SPEC).writer(num_envs)


@pytest.mark.parametrize("shared", [True, False])
def test_more_capacity_than_memory_is_refused_before_it_is_touched(shared):
    with pytest.raises(
        SegmentError, match=r"capacity 4294967295 needs [\d,.]+ TiB, but .* are available; use a smaller"
    ):
        Replay(2**32 - 1, {"obs": ((84, 84, 4), "uint8")}, shared=shared)


@pytest.mark.parametrize("arguments", [(None, None), ("keys", [1.0]), (3, None)])
def test_priorities_that_are_no_arrays_are_named(arguments):
    with Replay(4, spec={"x": ((), "float32")}) as replay, pytest.raises(InvalidInput, match="keys: expected uint64"):
        replay.update_priorities(*arguments)


def test_dtypes_of_ml_dtypes_are_known_by_their_names_though_nobody_has_imported_it():
    run = "from drivetrain.replay import Replay; print(Replay(4, {'x': ((2,), 'bfloat16')}).sample)"
    assert "sample" in run_script(run)


def test_a_replay_says_what_it_is():
    replay = filled_replay(2000, num_rows=3)
    assert repr(replay) == "<Replay: prioritized, 3 of 2,000 rows>"
    replay.close()
    assert repr(replay) == "<Replay: prioritized, closed>"
