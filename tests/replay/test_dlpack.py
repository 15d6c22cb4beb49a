"""Samples at JAX's edge, by DLPack: shared where they are aligned, alive as long as needed, refused by name."""

import gc
import subprocess
import sys

import jax
import jax.experimental
import numpy as np
import pytest

from drivetrain.core.errors import InvalidInput
from drivetrain.replay import Replay, Sample

DTYPES = ["float32", "float16", "bool", "uint8", "int16", "uint32", "complex64"]
SPEC = {"obs": {dtype: ((3,), dtype) for dtype in DTYPES}, "pair": [((), "int32"), ((), "float32")]}


@pytest.fixture
def replay():
    with Replay(64, SPEC, seed=0) as replay:
        obs = {dtype: (np.arange(24).reshape(8, 3) % 5).astype(dtype) for dtype in DTYPES}
        pair = (np.arange(8, dtype=np.int32), np.arange(8, dtype=np.float32) / 2)
        yes = np.ones(8, bool)
        replay.writer(8).add(obs=obs, next_obs=obs, pair=pair, reward=np.ones(8), terminated=yes, truncated=yes)
        yield replay


def each(sample, mapped):
    """Pairs of an array and what became of it, without keys."""
    ours, theirs = [], []
    sample._replace(keys=sample.weights).map(ours.append)
    mapped._replace(keys=mapped.weights).map(theirs.append)
    return zip(ours, theirs, strict=True)


def test_map_keeps_the_nesting_and_is_applied_to_every_array(replay):
    sample = replay.sample(4, num_batches=2)
    shapes = sample.map(lambda array: (array.dtype.name, array.shape))
    assert isinstance(shapes, Sample)
    assert shapes.data["obs"]["float16"] == ("float16", (2, 4, 3))
    assert shapes.data["pair"] == (("int32", (2, 4)), ("float32", (2, 4)))
    assert (shapes.weights, shapes.keys) == (("float32", (2, 4)), ("uint64", (2, 4)))


def test_jax_arrays_share_the_memory_of_a_new_batch(replay):
    batch = replay.sample(4, num_batches=2, out=replay.new_batch(4, num_batches=2))
    for array, shared in each(batch, batch.map(jax.dlpack.from_dlpack)):
        assert shared.unsafe_buffer_pointer() == array.ctypes.data
        assert shared.dtype == array.dtype
        np.testing.assert_array_equal(shared, array)


def test_jax_arrays_share_the_memory_of_any_sample(replay):
    for _ in range(20):
        sample = replay.sample(4, num_batches=2)
        for array, shared in each(sample, sample.map(jax.dlpack.from_dlpack)):
            assert shared.unsafe_buffer_pointer() == array.ctypes.data


def test_jax_arrays_of_a_sample_hold_its_values_wherever_they_lie(replay):
    sample = replay.sample(7)
    for array, other in each(sample, sample.map(jax.dlpack.from_dlpack)):
        np.testing.assert_array_equal(other, array)


def test_jax_arrays_outlive_the_sample_and_the_replay(replay):
    batch = replay.sample(4, out=replay.new_batch(4))
    expected = batch.map(np.copy)
    shared = batch.map(jax.dlpack.from_dlpack)
    del batch
    replay.close()
    gc.collect()
    [np.full(1000, 7.0) for _ in range(100)]  # something else would take freed memory
    for array, other in each(expected, shared):
        np.testing.assert_array_equal(other, array)


def test_keys_that_jax_made_smaller_are_refused(replay):
    sample = replay.sample(4)
    keys = np.asarray(jax.dlpack.from_dlpack(sample.keys))
    assert keys.dtype == np.uint32
    with pytest.raises(InvalidInput, match=r"keys: expected uint64 as in sample\.keys, got uint32"):
        replay.update_priorities(keys, np.ones(4))
    assert replay.update_priorities(sample.keys, jax.numpy.ones(4)) == 0  # priorities may be JAX's


@pytest.mark.whole
def test_with_64_bits_enabled_keys_cross_as_they_are():
    text = "import jax, numpy as np; jax.config.update('jax_enable_x64', True)\n"
    text += "from drivetrain.replay import Replay\nreplay = Replay(8, {'x': ((), 'int64')})\nno = np.zeros(8, bool)\n"
    text += "replay.writer(8).add(x=np.arange(8), reward=np.ones(8), terminated=no, truncated=no)\n"
    text += "batch = replay.sample(8, out=replay.new_batch(8)); mapped = batch.map(jax.dlpack.from_dlpack)\n"
    text += (
        "assert mapped.keys.unsafe_buffer_pointer() == batch.keys.ctypes.data and mapped.data['x'].dtype == 'int64'\n"
    )
    text += "assert replay.update_priorities(np.asarray(mapped.keys), np.asarray(mapped.weights)) == 0"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("dtype", [">f4", "S3", "datetime64[s]", [("a", "f4")]])
def test_a_dtype_that_dlpack_does_not_know_is_refused_and_its_field_named(dtype):
    replay = Replay(4, {"obs": [((), "float32"), ((), dtype)]})
    obs = (np.zeros(1, "f4"), np.zeros(1, dtype))
    one = np.ones(1, bool)
    replay.writer().add(obs=obs, next_obs=obs, reward=np.ones(1), terminated=one, truncated=one)
    with pytest.raises(BufferError, match="DLPack only supports") as caught:
        replay.sample(1).map(jax.dlpack.from_dlpack)
    assert caught.value.__notes__ == ['in field "obs/1"']


def test_compiled_code_scans_the_batches_of_one_draw_and_draws_by_a_callback_each_time(replay):
    batches = replay.sample(4, num_batches=8)
    _, sums = jax.lax.scan(lambda carry, batch: (carry, batch.data["reward"].sum()), 0, batches)
    np.testing.assert_array_equal(sums, batches.data["reward"].sum(axis=1))

    def draw():
        keys.append(replay.sample(4).keys)
        return np.float32(len(keys))

    def drawn(carry, _):
        return carry, jax.experimental.io_callback(draw, jax.ShapeDtypeStruct((), np.float32), ordered=True)

    keys = []
    scan = jax.jit(lambda: jax.lax.scan(drawn, 0, length=5)[1])
    assert [scan().tolist(), scan().tolist()] == [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]
    assert len({tuple(some.tolist()) for some in keys}) > 1
    keys.clear()
    constant = jax.jit(lambda number: number + draw())
    assert [float(constant(0.0)), float(constant(0.0))] == [1, 1]


@pytest.mark.parametrize("num_batches", [None, 3])
def test_keys_go_through_compiled_code_as_twice_as_many_halves(replay, num_batches):
    def draw():
        drawn.append(replay.sample(4, num_batches=num_batches).keys)
        return drawn[-1].view(np.uint32)

    def update(halves):
        keys = np.asarray(halves).view(np.uint64)
        np.testing.assert_array_equal(keys, drawn[-1])
        assert replay.update_priorities(keys, np.full(keys.shape, 5.0)) == 0

    @jax.jit
    def learn():
        halves = jax.experimental.io_callback(draw, like, ordered=True)
        jax.experimental.io_callback(update, None, halves, ordered=True)

    drawn, like = [], jax.ShapeDtypeStruct((8,) if num_batches is None else (num_batches, 8), np.uint32)
    learn()
    jax.effects_barrier()
    np.testing.assert_allclose(replay.priorities(drawn[0]), 5.0, rtol=1e-5)
