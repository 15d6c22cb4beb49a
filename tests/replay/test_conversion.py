"""A replay filled from another with other observations: the same rows are drawn, and shown otherwise."""

import numpy as np
import pytest

from drivetrain.core.errors import InvalidInput
from drivetrain.replay import Replay, Sequences

ENVS, STACK, SIDE = 2, 3, 4
ACTION = ((), "int64")


def framed(capacity, **settings):
    spec = {"obs": {"camera": ((STACK, SIDE, SIDE), "uint8"), "speed": ((STACK, 2), "float32")}, "action": ACTION}
    return Replay(capacity, spec, frame_stack=STACK, num_step=2, seed=5, **settings)


def embedded(capacity, **settings):
    spec = {"obs": {"actor": ((3,), "float32"), "critic": ((1,), "float32")}, "action": ACTION}
    return Replay(capacity, spec, **{"share_next_obs": True, "num_step": 2, "seed": 5, **settings})


def change(obs):
    """Something that depends on the order of the frames."""
    sums = obs["camera"].astype(np.float32).sum((2, 3))
    return {"actor": sums, "critic": obs["speed"][:, -1, :1] - obs["speed"][:, 0, 1:]}


class Stream:
    """Stacked observations of two environments with episodes of different lengths."""

    def __init__(self):
        self.rng = np.random.default_rng(0)
        self.lengths = np.zeros(ENVS, int)
        self.obs = {"camera": self._first("camera"), "speed": self._first("speed")}

    def _frame(self, name):
        if name == "camera":
            return self.rng.integers(0, 256, (SIDE, SIDE), np.uint8)
        return self.rng.normal(size=2).astype(np.float32)

    def _first(self, name):
        return np.stack([np.stack([self._frame(name)] * STACK) for _ in range(ENVS)])

    def write(self, writer, num_steps):
        for _ in range(num_steps):
            after = {name: np.concatenate([x[:, 1:], x[:, :1]], 1) for name, x in self.obs.items()}
            for name, x in after.items():
                for env in range(ENVS):
                    x[env, -1] = self._frame(name)
            self.lengths += 1
            ends = self.lengths >= [5, 8]
            writer.add(
                obs=self.obs, next_obs=after, action=self.rng.integers(0, 9, ENVS), reward=self.rng.normal(size=ENVS),
                terminated=ends, truncated=np.zeros(ENVS, bool),
            )  # fmt: skip
            for env in np.flatnonzero(ends):
                self.lengths[env] = 0
                for name, x in after.items():
                    x[env] = self._frame(name)
            self.obs = after


@pytest.mark.parametrize("prioritized", [True, False])
@pytest.mark.parametrize("num_steps", [20, 100], ids=["half full", "full"])
def test_the_same_rows_are_drawn_and_shown_as_the_function_makes_them(prioritized, num_steps):
    with framed(64, prioritized=prioritized) as source, embedded(64, prioritized=prioritized) as target:
        Stream().write(source.writer(num_envs=ENVS), num_steps)
        if prioritized:
            keys = source.all_keys()
            source.update_priorities(keys, np.linspace(0.1, 3, len(keys)))
        source.sample(16)
        target.take_over(source, change)
        assert (len(target), target.num_inserted) == (len(source), source.num_inserted)
        for _ in range(3):
            old, new = source.sample(32), target.sample(32)
            for name in ("obs", "next_obs"):
                expected = change(old.data[name])
                assert np.array_equal(new.data[name]["actor"], expected["actor"])
                assert np.array_equal(new.data[name]["critic"], expected["critic"])
            for name in ("action", "reward", "discount", "terminated", "truncated"):
                assert np.array_equal(old.data[name], new.data[name]), name
            assert np.array_equal(old.weights, new.weights)


def test_the_filled_replay_goes_on_like_any(tmp_path):
    with framed(64) as source, embedded(64, shared=True) as target:
        Stream().write(source.writer(num_envs=ENVS), 100)
        target.take_over(source, change)
        writer = target.writer(num_envs=ENVS)
        for step in range(100):
            one = np.full((ENVS, 1), step, np.float32)
            obs, after = ({"actor": np.repeat(x, 3, 1), "critic": x} for x in (one, one + 1))
            writer.add(
                obs=obs, next_obs=after, action=np.full(ENVS, step), reward=one[:, 0],
                terminated=np.zeros(ENVS, bool), truncated=np.zeros(ENVS, bool),
            )  # fmt: skip
        data = target.sample(64).data
        assert np.array_equal(data["obs"]["critic"][:, 0], data["action"].astype(np.float32))
        assert np.array_equal(data["next_obs"]["critic"], data["obs"]["critic"] + 2)
        target.save(tmp_path / "replay")
        with Replay.load(tmp_path / "replay") as loaded:
            assert len(loaded) == len(target)


@pytest.mark.parametrize(
    ("spoilt", "sentence"),
    [
        (lambda x: x["actor"], r"to return obs/actor, obs/critic, got obs"),
        (lambda x: {"actor": x["actor"]}, r"to return obs/actor, obs/critic, got obs/actor"),
        (lambda x: {**x, "more": x["actor"]}, r"got obs/actor, obs/critic, obs/more"),
        (lambda x: {**x, "actor": x["actor"].T.copy()}, r"obs/actor as float32\[\d+, 3\], got float32\[3, \d+\]"),
        (lambda x: {**x, "actor": x["actor"].astype(float)}, r"obs/actor as float32\[\d+, 3\], got float64"),
        (lambda x: {**x, "critic": None}, r"obs/critic as float32\[\d+, 1\], got object\[\]"),
    ],
)
def test_a_function_that_returns_something_else_is_refused_and_nothing_was_stored(spoilt, sentence):
    with framed(64) as source, embedded(64) as target:
        Stream().write(source.writer(num_envs=ENVS), 20)
        with pytest.raises(InvalidInput, match=sentence):
            target.take_over(source, lambda obs: spoilt(change(obs)))
        assert len(target) == 0
        target.take_over(source, change)
        assert len(target) == len(source)


def test_what_does_not_fit_is_refused():
    plain = Replay(8, {"obs": ((3,), "float32"), "action": ACTION}, num_step=2, seed=5)
    with framed(64) as source, embedded(32) as small, embedded(64) as used, plain:
        with pytest.raises(InvalidInput, match="expected a replay whose observations are shared"):
            embedded(8).take_over(plain, change)
        with pytest.raises(InvalidInput, match="expected a source of capacity 32, as this, got 64"):
            small.take_over(source, change)
        for name, value in {"seed": 6, "weights_by": "buffer", "initial_priority": 2.0}.items():
            with embedded(64, **{name: value}) as other, pytest.raises(InvalidInput, match=f"a source with {name}="):
                other.take_over(source, change)
        fields = {"obs": ((3,), "float32"), "action": ((7,), "int8")}
        others = Replay(64, fields, share_next_obs=True, num_step=2, seed=5)
        with (
            others,
            pytest.raises(InvalidInput, match=r"but for obs; only here are action int8\[7\], only there action"),
        ):
            others.take_over(source, change)
        Stream().write(source.writer(num_envs=ENVS), 20)
        singles = embedded(64, num_step=1)
        sequences = Replay(
            64, {"obs": ((3,), "float32"), "action": ACTION}, sequence=Sequences(length=4), share_next_obs=True, seed=5
        )
        with (
            sequences,
            singles,
            pytest.raises(InvalidInput, match=r"transitions, got one of seq.* of each sample changed"),
        ):
            singles.take_over(sequences, change)
        with pytest.raises(InvalidInput, match="expected a Replay as source, got int"):
            used.take_over(3, change)
        for settings in ({"num_step": 1}, {"gamma": 0.5}, {"prioritized": False}):
            ((name, _),) = settings.items()
            with embedded(64, **settings) as other, pytest.raises(InvalidInput, match=f"a source with {name}="):
                other.take_over(source, change)
        used.take_over(source, change)
        with pytest.raises(InvalidInput, match=r"expected this replay to be empty, got \d+ rows; make a new one"):
            used.take_over(source, change)


@pytest.mark.parametrize("was_filled", [False, True])
def test_an_empty_replay_is_taken_over_with_its_alpha(was_filled):
    source, target = framed(50), embedded(50)
    if was_filled:
        Stream().write(source.writer(ENVS), 10)
        source.clear()
    source.set_alpha(0.25)
    target.take_over(source, change)
    assert (len(target), target.alpha) == (0, 0.25)
    count = 8
    obs = {"actor": np.zeros((count, 3), np.float32), "critic": np.zeros((count, 1), np.float32)}
    ends = np.ones(count, bool)
    target.writer(count).add(
        obs=obs, next_obs=obs, action=np.arange(count), reward=np.zeros(count), terminated=ends, truncated=~ends
    )
    other = embedded(50, alpha=0.25)
    other.writer(count).add(
        obs=obs, next_obs=obs, action=np.arange(count), reward=np.zeros(count), terminated=ends, truncated=~ends
    )
    assert target.sample(8).data["action"].tolist() == other.sample(8).data["action"].tolist()
