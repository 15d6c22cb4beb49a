"""The replay at PyTorch's edge: samples become tensors without a copy, tensors become priorities."""

import gc

import numpy as np
import pytest

from drivetrain.core.errors import InvalidInput
from drivetrain.replay import Replay

torch = pytest.importorskip("torch", reason='needs torch: pip install "drivetrain[torch]"')
pytestmark = pytest.mark.torch


@pytest.fixture
def replay():
    with Replay(64, spec={"obs": ((3,), "float32"), "action": ((), "int64")}, prioritized=True, seed=0) as replay:
        obs = np.arange(24, dtype=np.float32).reshape(8, 3)
        replay.writer(num_envs=8).add(
            obs=obs,
            action=np.arange(8),
            reward=np.ones(8, np.float32),
            next_obs=obs + 100,
            terminated=np.ones(8, bool),
            truncated=np.zeros(8, bool),
        )
        yield replay


def test_a_sample_becomes_tensors_that_share_its_memory(replay):
    sample = replay.sample(8, beta=0.4)
    tensors = {name: torch.from_numpy(array) for name, array in sample.data.items()}
    assert tensors["obs"].shape == (8, 3)
    assert tensors["action"].dtype == torch.int64
    assert torch.equal(tensors["next_obs"], tensors["obs"] + 100)
    assert torch.equal(tensors["obs"][:, 0], 3.0 * tensors["action"])
    sample.data["obs"][0, 0] = -1.0
    assert tensors["obs"][0, 0] == -1.0


def test_a_sample_crosses_by_dlpack(replay):
    sample = replay.sample(8, beta=0.4)
    assert torch.equal(torch.from_dlpack(sample.data["obs"]), torch.from_numpy(sample.data["obs"]))


def test_tensors_keep_what_they_show_when_the_replay_goes_on(replay):
    held = []
    for _ in range(6):
        sample = replay.sample(8, beta=0.4)
        pairs = [(torch.from_numpy(sample.data["obs"]), torch.from_dlpack(sample.data["action"]))]
        held += [(ours, theirs, ours.clone(), theirs.clone()) for ours, theirs in pairs]
        del sample, pairs
    for ours, theirs, obs, action in held:
        assert torch.equal(ours, obs)
        assert torch.equal(theirs, action)


def test_priorities_computed_by_torch_go_back(replay):
    sample = replay.sample(8, beta=0.4)
    td_errors = torch.from_numpy(sample.data["reward"]) - 0.5
    assert replay.update_priorities(sample.keys, td_errors.abs().numpy()) == 0


def test_a_mapped_sample_shares_all_its_memory_in_both_directions(replay):
    for sample in (replay.sample(4, num_batches=2), replay.sample(4, out=replay.new_batch(4))):
        tensors = sample.map(torch.from_dlpack)
        for name, tensor in tensors.data.items():
            assert tensor.data_ptr() == sample.data[name].ctypes.data
        assert tensors.keys.data_ptr() == sample.keys.ctypes.data
        assert tensors.keys.dtype == torch.uint64
        tensors.weights[...] = 7.0
        assert (sample.weights == 7.0).all()
        sample.data["terminated"][...] = False
        assert tensors.data["terminated"].dtype == torch.bool
        assert not tensors.data["terminated"].any()
        assert replay.update_priorities(tensors.keys.numpy(), tensors.weights.numpy()) == 0


@pytest.mark.parametrize("dtype", ["float16", "uint8", "bool", "uint64", "complex64"])
def test_every_dtype_that_dlpack_knows_crosses_as_it_is(dtype):
    with Replay(8, {"obs": [((3,), dtype), {"x": ((), dtype)}]}) as replay:
        obs = (np.ones((8, 3), dtype), {"x": np.arange(8).astype(dtype)})
        yes = np.ones(8, bool)
        replay.writer(8).add(obs=obs, next_obs=obs, reward=np.ones(8), terminated=yes, truncated=yes)
        sample = replay.sample(8)
        first, inner = sample.map(torch.from_dlpack).data["next_obs"]
    assert first.dtype == getattr(torch, dtype)
    assert first.data_ptr() == sample.data["next_obs"][0].ctypes.data
    np.testing.assert_array_equal(inner["x"].numpy(), sample.data["next_obs"][1]["x"])


def test_tensors_outlive_the_sample_and_the_replay(replay):
    sample = replay.sample(8)
    expected = sample.map(np.copy)
    tensors = sample.map(torch.from_dlpack)
    del sample
    replay.close()
    gc.collect()
    [np.full(1000, 7.0) for _ in range(100)]  # something else would take freed memory
    np.testing.assert_array_equal(tensors.data["obs"].numpy(), expected.data["obs"])
    np.testing.assert_array_equal(tensors.keys.numpy(), expected.keys)


def test_a_dtype_that_dlpack_does_not_know_is_refused_and_its_field_named():
    with Replay(4, {"x": ((), ">f4")}) as replay:
        one = np.ones(1, bool)
        replay.writer().add(x=np.ones(1, ">f4"), reward=np.ones(1), terminated=one, truncated=one)
        with pytest.raises(BufferError, match="native byte order") as caught:
            replay.sample(1).map(torch.from_dlpack)
    assert caught.value.__notes__ == ['in field "x"']


def test_page_locked_memory_needs_a_gpu(replay):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU; test_new_batch.py has the test for it")
    with pytest.raises(InvalidInput, match="finds no CUDA device"):
        replay.new_batch(4, pinned=True)
