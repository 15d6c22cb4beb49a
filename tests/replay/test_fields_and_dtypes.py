"""Any dtype of fixed size goes in and comes out the same, in nested dicts and through handles and files."""

import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from filled import all_rows, slots_of

from drivetrain.core.errors import InvalidInput
from drivetrain.replay import Replay, Sequences
from drivetrain.replay.schema import Schema

ALIGNED = np.dtype([("flag", "u1"), ("value", "f8"), ("inner", [("x", ">i2"), ("y", "S3")], (2,))], align=True)
DTYPES = [
    "bool",
    "uint8",
    "int16",
    "uint32",
    "int64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
    "datetime64[ms]",
    "timedelta64[s]",
    ">f4",
    ">i8",
    "S5",
    "U3",
    "V7",
    ALIGNED,
    np.dtype([("a", "f4"), ("b", "u1", (3,))]),
    ml_dtypes.bfloat16,
    np.dtype([("a", ml_dtypes.float8_e4m3fn, (3,))]),
]


def random_items(rng, dtype, shape):
    raw = rng.integers(48, 58, (*shape, np.dtype(dtype).itemsize), np.uint8)
    if np.dtype(dtype).kind == "U":
        raw.view(np.uint32)[...] = rng.integers(48, 58, (*shape, np.dtype(dtype).itemsize // 4), np.uint32)
    if np.dtype(dtype).kind == "b":
        raw &= 1
    return raw.view(dtype)[..., 0]


def raw(steps, name, order):
    """Bytes of a field of some (time, environment) items; NumPy would change byte orders if it stacked them."""
    return b"".join(steps[t][name][e : e + 1].tobytes() for t, e in order)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("num_step", [1, 3])
def test_every_dtype_comes_out_as_it_went_in(dtype, num_step, tmp_path):
    rng = np.random.default_rng(0)
    replay = Replay(32, {"obs": ((2, 3), dtype), "extra": ((), dtype)}, num_step=num_step, gamma=1.0, shared=True)
    writer, steps = replay.writer(4), []
    for t in range(3):
        steps.append(
            {
                "obs": random_items(rng, dtype, (4, 2, 3)),
                "extra": random_items(rng, dtype, (4,)),
                "next_obs": random_items(rng, dtype, (4, 2, 3)),
                "reward": np.arange(4, dtype=np.float32),
                "terminated": np.zeros(4, bool),
                "truncated": np.full(4, t == 2),
            }
        )
        writer.add(**steps[-1])
    replay.save(tmp_path / "file")
    order = (
        [(t, e) for e in range(4) for t in range(3)] if num_step == 3 else [(t, e) for t in range(3) for e in range(4)]
    )
    for copy in (replay, Replay.attach(replay.handle()), Replay.load(tmp_path / "file")):
        sample = copy.sample(12)  # equal weights: each row once
        obs = sample.data["obs"]
        assert obs.dtype == np.dtype(dtype)
        assert obs.shape == (12, 2, 3)
        inserted = [(0, i) for i in np.argsort(slots_of(sample.keys))]
        stored = {name: raw([sample.data], name, inserted) for name in sample.data}
        last = [(2 if num_step == 3 else t, e) for t, e in order]
        assert stored["obs"] == raw(steps, "obs", order)
        assert stored["extra"] == raw(steps, "extra", order)
        assert stored["next_obs"] == raw(steps, "next_obs", last)


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_native_code_writes_in_pairs_lies_side_by_side_in_every_row(dtype):
    schema = Schema.from_spec({"obs": ((3,), dtype), "half": ((), "float16"), "byte": ((5,), "uint8")})
    offsets = {field.name: field.offset for field in schema.fields}
    assert offsets["discount"] == offsets["reward"] + 4
    assert offsets["truncated"] == offsets["terminated"] + 1


def test_nested_dicts_keep_their_shape():
    spec = {
        "obs": {"camera": {"left": ((2,), "uint8")}, "speed": ((), "float32")},
        "action": {"arm": ((3,), "float32")},
    }
    replay = Replay(8, spec)
    replay.writer(2).add(
        obs={"camera": {"left": np.ones((2, 2), np.uint8)}, "speed": np.zeros(2, np.float32)},
        action={"arm": np.full((2, 3), 2, np.float32)},
        next_obs={"camera": {"left": np.full((2, 2), 3, np.uint8)}, "speed": np.ones(2, np.float32)},
        reward=np.zeros(2),
        terminated=np.zeros(2, bool),
        truncated=np.zeros(2, bool),
    )
    data = replay.sample(2, num_batches=3).data
    assert set(data) == {"obs", "action", "next_obs", "reward", "discount", "terminated", "truncated"}
    assert data["obs"]["camera"]["left"].shape == (3, 2, 2)
    assert (data["next_obs"]["camera"]["left"] == 3).all()
    assert data["next_obs"]["speed"].shape == (3, 2)
    assert (data["action"]["arm"] == 2).all()


def test_keys_with_a_slash_are_other_fields_than_nested_ones():
    replay = Replay(8, {"obs": {"a/b": ((), "int8"), "a": {"b": ((), "int16")}}}, share_next_obs=True)
    step = {"reward": np.ones(2), "terminated": np.zeros(2, bool), "truncated": np.zeros(2, bool)}
    obs = {"a/b": np.full(2, 1, np.int8), "a": {"b": np.full(2, 2, np.int16)}}
    replay.writer(2).add(obs=obs, next_obs={"a/b": obs["a/b"] + 2, "a": {"b": obs["a"]["b"] + 2}}, **step)
    for batch in (replay.sample(2), replay.sample(2, out=replay.new_batch(2)), replay.sample(2, join_stacks=True)):
        assert {key: type(value) for key, value in batch.data["obs"].items()} == {"a/b": np.ndarray, "a": dict}
        assert (batch.data["obs"]["a/b"].tolist(), batch.data["obs"]["a"]["b"].tolist()) == ([1, 1], [2, 2])
        assert (batch.data["next_obs"]["a/b"].tolist(), batch.data["next_obs"]["a"]["b"].tolist()) == ([3, 3], [4, 4])
    with pytest.raises(InvalidInput, match="missing obs/a\u2215b"):
        replay.writer(2).add(obs={"a": obs["a"]}, next_obs=obs, **step)


def test_there_is_next_obs_only_if_there_is_obs():
    replay = Replay(4, {"hidden": ((), "float32")})
    replay.writer().add(
        hidden=np.ones(1, np.float32), reward=np.ones(1), terminated=np.zeros(1, bool), truncated=np.zeros(1, bool)
    )
    assert set(replay.sample(1).data) == {"hidden", "reward", "discount", "terminated", "truncated"}


def test_a_field_may_have_any_name_that_python_takes_as_an_argument():
    replay = Replay(4, {"self": ((), "float32"), "class": ((), "int8")})
    step = {"reward": np.ones(1), "terminated": np.zeros(1, bool), "truncated": np.zeros(1, bool)}
    replay.writer().add(**step, **{"self": np.ones(1, np.float32), "class": np.ones(1, np.int8)})
    assert len(replay) == 1


def test_a_dtype_with_axes_of_its_own_adds_them_to_the_shape():
    replay = Replay(4, {"x": ((2,), np.dtype(("float32", (3,))))})
    step = {"reward": np.ones(1), "terminated": np.zeros(1, bool), "truncated": np.zeros(1, bool)}
    replay.writer().add(x=np.ones((1, 2, 3), np.float32), **step)
    assert replay.sample(1).data["x"].shape == (1, 2, 3)


def test_a_dtype_that_is_not_there_is_named_with_its_remedy(tmp_path):
    Replay(4, {"x": ((), ml_dtypes.bfloat16)}).save(tmp_path / "replay")
    code = f"""
import sys
sys.modules["ml_dtypes"] = None
from drivetrain.replay import Replay
Replay.load({str(tmp_path / "replay")!r})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "the dtype bfloat16, which NumPy alone does not have: pip install ml_dtypes" in done.stderr


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int64, np.uint8, np.bool_])
def test_rewards_of_any_real_dtype_are_kept_as_float32(dtype):
    replay = Replay(4, {"x": ((), "uint8")})
    no = np.zeros(2, bool)
    replay.writer(2).add(x=no.view(np.uint8), reward=np.array([0, 1], dtype), terminated=no, truncated=no)
    reward = all_rows(replay)["reward"]
    assert reward.dtype == np.float32
    assert reward.tolist() == [0.0, 1.0]


def test_arrays_that_are_not_contiguous_are_taken_as_they_read():
    replay = Replay(8, {"x": ((3,), "float32")})
    wide = np.arange(24, dtype=np.float32).reshape(4, 6)
    flags = np.zeros(8, bool)[::2]
    replay.writer(4).add(x=wide[:, ::2], reward=np.arange(8.0)[::2], terminated=flags, truncated=flags)
    np.testing.assert_array_equal(all_rows(replay)["x"], wide[:, ::2])


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({}, "at least one field"),
        ({"x": {}}, r"'x': expected at least one field in it, got an empty dict"),
        ({"x": ((4,), "f4"), "obs": {"a": []}}, r"'obs/a': expected at least one field in it, got an empty list"),
        ([("x", ((), "f4"))], "expected a dict"),
        (
            {"x": "float32"},
            r"\(shape, dtype\) .*, got 'float32'; write a pair of the shape, of integers, and the dtype",
        ),
        ({"x": ((4,),)}, r"\(shape, dtype\) .*; write a pair"),
        ({"x": ("float32", (4,))}, r"\(shape, dtype\) .*; write a pair"),
        (
            {"x": ((4,), object())},
            "got .*; write a pair of .* by the name that NumPy has for it",
        ),  # as PyTorch's dtypes
        ({"x": [(4,), "float32"]}, r"'x/0': .* got \(4,\)"),
        ({"x": [4, "float32"]}, r"'x/0': .* got 4; in a list, which stands for a tuple of arrays"),
        ({"x": ((4,), "flaot32")}, "a dtype of NumPy's, or of ml_dtypes' where that is installed, .* got 'flaot32'"),
        ({"x": ((4,), None)}, r"\(shape, dtype\)"),
        ({"x": ((4.5,), "float32")}, r"\(shape, dtype\)"),
        ({"x": {"shape": (4,), "dtype": "float32"}}, r"x/shape'.*, got \(4,\); write both as one pair, .* of a dict"),
        ({"x": {"dtype": np.float32}}, "x/dtype'.*float32'>; write both as one pair"),
        ({"x": ((4,), object)}, "no fixed size in bytes; use a numeric dtype"),
        ({"x": ((4,), "S0")}, "no fixed size"),
        ({"x": ((4,), str)}, "no fixed size in bytes; give the most that a text has, as U20"),
        ({"x": ((4,), [("a", "f4"), ("b", "O")])}, "no fixed size"),
        ({"x": ((0,), "float32")}, "positive"),
        ({"x": ((), np.dtype([(("title", "a"), "f4")]))}, "a dtype of NumPy's or ml_dtypes'"),
        ({"x": ((-1,), "float32")}, "positive"),
        ({"x": ((1,) * 40, "float32")}, "axes"),
        ({"x": ((2**40, 2**40), "float32")}, "row"),
        ({"x": ((2**32,), "float32")}, "row"),
        ({"reward": ((), "float32")}, "reserved"),
        ({"next_obs": ((), "float32")}, "reserved"),
        ({"discount": ((), "float32")}, "reserved"),
        ({"a/b": ((), "float32")}, "reserved"),
        ({"": ((), "float32")}, "reserved"),
        ({"x": {1: ((), "float32")}}, "'x/1': expected a str as name, got int; call it '1'"),
        ({"x": {"": ((), "float32")}}, "'x/': this name is reserved; names are not empty"),
        ({"x": {"a\u2215b": ((), "float32")}}, r"'x/a.b': this name is reserved; .* nor hold U\+2215"),
        ({3: ((), "float32")}, "expected a str"),
    ],
)
def test_a_spec_that_makes_no_rows_is_refused(spec, message):
    with pytest.raises(InvalidInput, match=message):
        Replay(4, spec)


@pytest.mark.parametrize("num_step", [1, 2])
def test_items_of_every_small_size_come_out_as_they_went_in(num_step):
    rng = np.random.default_rng(0)
    sizes = range(1, 146)
    replay = Replay(8, {f"f{n}": ((n,), "uint8") for n in sizes}, num_step=num_step, seed=1)
    fields = {f"f{n}": rng.integers(0, 256, (3, n), np.uint8) for n in sizes}
    ends = {"terminated": np.array([True, False, True]), "truncated": np.array([False, True, False])}
    replay.writer(3).add(**fields, reward=np.array([0.5, 1.5, -2.0]), **ends)
    sample = replay.sample(3, num_batches=16)
    slots = slots_of(sample.keys).reshape(16, 3)
    assert set(slots.ravel()) == {0, 1, 2}
    for name, items in {**fields, **ends}.items():
        assert np.array_equal(sample.data[name], items[slots]), name
    assert np.array_equal(sample.data["reward"], np.array([0.5, 1.5, -2.0], np.float32)[slots])


@pytest.mark.parametrize("integer", [np.int64, np.uint8])
def test_integers_of_numpy_are_settings_that_files_and_other_processes_can_hold(tmp_path, integer):
    stacked = {"obs": ((4, 2), "uint8")}
    windows = Sequences(length=integer(4), burn_in=integer(1), period=integer(2), initial=["state"])
    for make in (
        lambda **where: Replay(integer(20), stacked, frame_stack=integer(4), num_step=integer(2), **where),
        lambda **where: Replay(20, {"obs": ((2,), "f4"), "state": ((), "f4")}, sequence=windows, **where),
    ):
        make().save(tmp_path / "replay")
        with Replay.load(tmp_path / "replay") as loaded, make(shared=True) as shared:
            assert repr(loaded) == repr(shared)
    assert windows == Sequences(length=4, burn_in=1, period=2, initial=("state",))
