"""Samples in memory of the caller's: one slab, aligned, as good as what sample() makes; page-locked if wanted."""

import itertools
import sys
import types

import numpy as np
import pytest
from filled import filled_replay

from drivetrain.core.errors import InvalidInput, MissingExtra, SegmentError
from drivetrain.replay import Replay

SPEC = {
    "obs": {"a": ((3,), "float16"), "b": [((), "bool"), ((2, 2), "uint8")]},
    "action": ((5,), ">i4"),
    "s": ((), "S3"),
}


def addresses(sample):
    found = []
    sample.map(lambda array: found.append((array.ctypes.data, array.nbytes)))
    return found


@pytest.mark.parametrize("num_batches", [None, 4])
def test_a_new_batch_has_the_form_of_a_sample_and_takes_one(num_batches):
    replay, twin = (Replay(8, SPEC, seed=1) for _ in range(2))
    rng = np.random.default_rng(0)
    obs = {"a": rng.random((8, 3)).astype("f2"), "b": (rng.random(8) < 0.5, rng.integers(0, 9, (8, 2, 2), np.uint8))}
    flags = np.ones(8, bool)
    for one in (replay, twin):
        one.writer(8).add(
            obs=obs,
            next_obs=obs,
            action=np.arange(40).reshape(8, 5).astype(">i4"),
            s=np.full(8, b"abc"),
            reward=np.arange(8.0),
            terminated=flags,
            truncated=flags,
        )
    batch = replay.new_batch(6, num_batches=num_batches)
    assert replay.sample(6, num_batches=num_batches, out=batch) is batch
    expected = twin.sample(6, num_batches=num_batches)
    ours, theirs = [], []
    batch.map(ours.append)
    expected.map(theirs.append)
    assert len(ours) == len(replay._schema.fields) + 2
    for one, other in zip(ours, theirs, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def test_its_arrays_are_aligned_apart_and_in_one_piece():
    batch = Replay(64, SPEC).new_batch(7, num_batches=3)
    places = sorted(addresses(batch))
    assert all(start % 64 == 0 for start, _ in places)
    assert all(start + size <= following for (start, size), (following, _) in itertools.pairwise(places))
    assert places[-1][0] + places[-1][1] - places[0][0] < sum(size + 64 for _, size in places)


def test_a_batch_outlives_its_replay():
    replay = filled_replay(16)
    batch = replay.sample(4, out=replay.new_batch(4))
    replay.close()
    assert batch.weights.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("sizes", [(0, None), (4, 0), (2.5, None), (2**20, 2**20)])
def test_sizes_that_make_no_batch_are_refused(sizes):
    with pytest.raises(InvalidInput, match=r"(batch_size|num_batches): expected an integer"):
        filled_replay(4).new_batch(sizes[0], num_batches=sizes[1])


def test_page_locked_memory_without_pytorch_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # as if it were not installed
    with pytest.raises(MissingExtra, match=r'torch.* not installed: pip install "drivetrain\[torch\]"'):
        filled_replay(4).new_batch(2, pinned=True)


def test_page_locked_memory_without_a_gpu_is_refused(monkeypatch):
    torch = types.SimpleNamespace(cuda=types.SimpleNamespace(is_available=lambda: False))
    monkeypatch.setitem(sys.modules, "torch", torch)
    with pytest.raises(InvalidInput, match=r"finds no CUDA device.*use pinned=False"):
        filled_replay(4).new_batch(2, pinned=True)


@pytest.mark.gpu
@pytest.mark.torch
def test_a_gpu_copies_from_page_locked_batches():
    torch = pytest.importorskip("torch", reason='needs torch: pip install "drivetrain[torch]"')
    if not torch.cuda.is_available():
        pytest.skip("needs an NVIDIA GPU")
    replay = filled_replay(4096)
    batch = replay.new_batch(256, num_batches=4, pinned=True)
    assert replay.sample(256, num_batches=4, out=batch) is batch
    tensors = batch.map(torch.from_dlpack)
    assert tensors.data["x"].is_pinned()
    on_gpu = tensors.map(lambda tensor: tensor.to("cuda", non_blocking=True))
    torch.cuda.synchronize()
    assert torch.equal(on_gpu.weights.cpu(), tensors.weights)
    assert torch.equal(on_gpu.data["reward"].cpu(), tensors.data["reward"])


def test_a_batch_beyond_memory_is_refused_with_what_it_would_need(monkeypatch):
    monkeypatch.setattr("drivetrain.core.segments.available_memory", lambda: 2**20)
    with pytest.raises(SegmentError, match=r"a batch of 131,072 rows needs 2\.88 MiB, but 1\.00 MiB .*; take fewer"):
        filled_replay(8).new_batch(2**16, num_batches=2)


def test_a_batch_is_pinned_or_not():
    with pytest.raises(InvalidInput, match="pinned: expected True or False, got 'no'"):
        filled_replay(4).new_batch(2, pinned="no")
