"""Every contender does what its rivals do: brings inserted rows, and more often those of high priority.

Peers that are not installed are skipped; `pip install ".[bench]"` brings them.
"""

import importlib

import numpy as np
import pytest

from drivetrain.bench.replay.layouts import LAYOUTS, make_steps
from drivetrain.bench.serving import NotOffered

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(600)]

PAIRS, SHARED = LAYOUTS["obs 4"], LAYOUTS["84x84x4 shared"]
NUM_ENVS, NUM_STEPS = 64, 16
CAPACITY = NUM_ENVS * NUM_STEPS


def stacked_first(obs):
    return np.moveaxis(np.asarray(obs), -1, 1)


# contender -> its module, its library, how a store is made, a sample as (obs, next_obs, reward)
CONTENDERS = {
    "ours": ("ours", None, "make_store", lambda s: (s.data["obs"], s.data["next_obs"], s.data["reward"])),
    "NumPy": ("numpy_per", None, "NumpyStore", lambda s: (s[0]["obs"], s[0]["next_obs"], s[0]["reward"])),
    "cpprb": ("cpprb_per", "cpprb", "make_store", lambda s: (s["obs"], s["next_obs"], s["rew"])),
    "Tianshou": ("tianshou_per", "tianshou", "TianshouStore", lambda s: (s[0].obs, s[0].obs_next, s[0].rew)),
    "TorchRL": ("torchrl_per", "torchrl", "TorchrlStore", lambda s: (s[0]["obs"], s[0]["next_obs"], s[0]["reward"])),
    "SB3": ("sb3_uniform", "stable_baselines3", "Sb3Store", lambda s: (s.observations, s.next_observations, s.rewards)),
    "Flashbax": ("flashbax_per", "flashbax", "FlashbaxStore", lambda s: flashbax_fields(s[0].experience)),
}
PRIORITIZED = [name for name in CONTENDERS if name != "SB3"]


def flashbax_fields(experience):
    if isinstance(experience, dict):
        return experience["obs"], experience["next_obs"], experience["reward"]
    return experience.first["obs"], experience.second["obs"], experience.first["reward"]


def make(name, layout):
    module, library, maker, fields = CONTENDERS[name]
    if library is not None:
        pytest.importorskip(library)
    rival = importlib.import_module(f"drivetrain.bench.replay.peers.{module}")
    return getattr(rival, maker)(layout, CAPACITY), fields


def filled(name, layout, num_envs=NUM_ENVS):
    """A full store, a way to read its samples, and reward -> (obs, next_obs) of what was inserted."""
    store, fields = make(name, layout)
    inserter = store.inserter(num_envs)
    steps = make_steps(layout, num_envs, seed=3, num_steps=CAPACITY // num_envs)
    for step in steps:
        inserter.insert(inserter.prepare(step))
    rows = {}
    for step in steps:
        for env in range(num_envs):
            ended = bool(step["truncated"][env])
            rows[float(step["reward"][env])] = step["obs"][env], step["next_obs"][env], ended
    return store, fields, rows


@pytest.mark.release
@pytest.mark.parametrize("name", CONTENDERS)
def test_a_sample_brings_whole_rows_that_were_inserted(name):
    store, fields, rows = filled(name, PAIRS)
    seen = set()
    for _ in range(4):
        obs, next_obs, reward = map(np.asarray, fields(store.sampler(256)()))
        assert obs.shape == next_obs.shape == (256, 4)
        for i, key in enumerate(reward.ravel().tolist()):
            np.testing.assert_array_equal(obs[i], rows[key][0])
            np.testing.assert_array_equal(next_obs[i], rows[key][1])
            seen.add(key)
    assert len(seen) > 256


@pytest.mark.release
@pytest.mark.parametrize("name", CONTENDERS)
def test_shared_frames_come_back_as_the_stacks_that_were_inserted(name):
    num_envs = 1 if name == "cpprb" else NUM_ENVS
    try:
        store, fields, rows = filled(name, SHARED, num_envs)
    except NotOffered as reason:
        pytest.skip(str(reason))
    obs, next_obs, reward = map(np.asarray, fields(store.sampler(256)()))
    if obs.shape[1] != 4:
        obs, next_obs = stacked_first(obs), stacked_first(next_obs)
    checked = 0
    for i, key in enumerate(reward.ravel().tolist()):
        expected_obs, expected_next, ended = rows[key]
        if name == "Tianshou" and not np.array_equal(obs[i], expected_obs):
            continue  # at the beginning of an episode it repeats a frame, by design
        np.testing.assert_array_equal(obs[i], expected_obs)
        if not ended:  # by design, what follows the last step is not kept by those who share
            np.testing.assert_array_equal(next_obs[i], expected_next)
            checked += 1
    assert checked > 128


@pytest.mark.whole
@pytest.mark.parametrize("name", PRIORITIZED)
def test_rows_of_high_priority_are_drawn_more_often(name):
    store, fields, _ = filled(name, PAIRS)
    sample, updater = store.sampler(256), store.updater(256)
    for _ in range(40):
        drawn = sample()
        reward = np.asarray(fields(drawn)[2]).ravel()
        updater.update(drawn, updater.prepare(np.where(reward > 0, 8.0, 1.0).astype(np.float32)))
    share = np.mean([(np.asarray(fields(sample())[2]) > 0).mean() for _ in range(40)])
    rewards = np.concatenate([step["reward"] for step in make_steps(PAIRS, NUM_ENVS, seed=3, num_steps=NUM_STEPS)])
    odds = (rewards > 0).mean() * 8**0.6 / (1 - (rewards > 0).mean())
    assert share == pytest.approx(odds / (1 + odds), abs=0.03)


@pytest.mark.parametrize("name", CONTENDERS)
def test_one_environment_can_insert_on_its_own(name):
    store, fields, rows = filled(name, PAIRS)
    inserter = store.inserter(1)
    for step in make_steps(PAIRS, 1, seed=9, num_steps=8):
        inserter.insert(inserter.prepare(step))
    assert len(np.asarray(fields(store.sampler(32)())[2])) == 32
    assert rows
