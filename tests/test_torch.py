"""The replay at PyTorch's edge: samples become tensors without a copy, tensors become priorities."""

import numpy as np
import pytest

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
