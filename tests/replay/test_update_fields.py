"""Fields of rows written anew: the row keeps everything else, and has another key."""

import numpy as np
import pytest
from filled import filled_replay

from drivetrain.core.errors import Closed, InvalidInput
from drivetrain.replay import Replay, Sequences

SPEC = {
    "obs": ((2,), "float32"),
    "state": {"h": ((3,), "float32"), "c": ((), "int8")},
    "pair": [((), "int64"), ((2,), "bool")],
    "extra": {"a/b": ((), "float64")},
    "next_value": ((), "float32"),
}


def filled(num_steps=6, capacity=16, spec=SPEC, **settings):
    """Two environments whose every number is that of the step; the fields of `spec`."""
    replay = Replay(capacity, spec, **settings)
    writer = replay.writer(2)

    def full(value, t):
        if isinstance(value, dict):
            return {name: full(inner, t) for name, inner in value.items()}
        if isinstance(value, list):
            return tuple(full(inner, t) for inner in value)
        return np.full((2, *value[0]), t).astype(value[1])

    for t in range(num_steps):
        step = {name: full(value, t) for name, value in spec.items()}
        no = np.zeros(2, bool)
        writer.add(**step, reward=np.full(2, float(t)), next_obs=step["obs"], terminated=no, truncated=no)
    return replay


def rows_of(replay, keys):
    return replay._schema.flatten(replay.read(keys).data)


def test_a_row_has_what_was_written_and_keeps_its_place_its_priority_and_its_other_fields():
    replay = filled()
    keys = replay.all_keys()
    replay.update_priorities(keys, np.arange(1.0, 13.0))
    before, priorities = rows_of(replay, keys), replay.priorities(keys)
    changed = keys[2:8].reshape(3, 2)
    new = {
        "state": {
            "h": np.arange(18, dtype=np.float32).reshape(3, 2, 3),
            "c": np.arange(6, dtype=np.int8).reshape(3, 2),
        },
        "pair": (np.arange(6).reshape(3, 2), np.ones((3, 2, 2), bool)),
        "next_value": np.full((3, 2), 9, np.float32),
        "reward": np.arange(6).reshape(3, 2),  # of any real dtype, as in `add`
    }
    renewed = replay.update_fields(changed, **new)
    expected = {name: value.copy() for name, value in before.items()}
    for name, value in replay._schema.flatten(new).items():
        expected[name][2:8] = value.reshape(6, *value.shape[2:])
    keys = replay.all_keys()
    np.testing.assert_array_equal(keys[2:8], renewed.ravel())
    for name, value in rows_of(replay, keys).items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)
        assert value.dtype == expected[name].dtype
    np.testing.assert_array_equal(replay.priorities(keys), priorities)
    assert replay.num_inserted == len(replay) == 12
    drawn = replay.sample(8, num_batches=32)
    assert set(drawn.data["next_value"][np.isin(drawn.keys, renewed)].tolist()) == {9.0}


def test_keys_from_before_are_stale_and_those_of_rows_overwritten_come_back_as_they_were():
    replay = filled(num_steps=8)
    old = replay.all_keys()
    writer_again = filled(num_steps=1)  # of the same shapes
    replay.update_fields(old[:0], reward=np.zeros(0))
    step = writer_again.read(writer_again.all_keys()).data
    no = np.zeros(2, bool)
    fields = {name: step[name] for name in ("obs", "state", "pair", "extra", "next_value", "reward", "next_obs")}
    replay.writer(2).add(**fields, terminated=no, truncated=no)
    renewed = replay.update_fields(old, reward=np.full(16, 7.0))
    np.testing.assert_array_equal(renewed == old, [True] * 2 + [False] * 14)
    assert replay.update_priorities(old, np.ones(16)) == 16
    assert replay.update_priorities(renewed, np.ones(16)) == 2
    assert rows_of(replay, replay.all_keys())["reward"].tolist() == [7.0] * 14 + [0.0] * 2


def test_of_a_key_that_occurs_twice_the_last_row_counts():
    replay = filled()
    key = replay.all_keys()[3]
    renewed = replay.update_fields(np.array([key, key, key]), reward=np.array([1.0, 2.0, 3.0]))
    assert len(set(renewed.tolist())) == 1
    assert rows_of(replay, renewed)["reward"].tolist() == [3.0] * 3
    assert replay.update_fields(renewed[0], reward=np.float32(5)).shape == ()  # one key alone


@pytest.mark.parametrize(
    "settings", [{}, {"prioritized": False}, {"share_next_obs": True}, {"num_step": 3, "share_next_obs": True}], ids=str
)
def test_rows_are_saved_as_they_were_written_anew(tmp_path, settings):
    replay = filled(**settings)
    replay.save(tmp_path / "replay", incremental=True)
    keys = replay.all_keys()[1:4]
    renewed = replay.update_fields(keys, reward=np.array([50.0, 51.0, 52.0]))
    nbytes = replay.save(tmp_path / "replay", incremental=True)
    assert nbytes < (tmp_path / "replay").stat().st_size
    with Replay.load(tmp_path / "replay") as loaded:
        assert rows_of(loaded, loaded.all_keys())["reward"][1:4].tolist() == [50.0, 51.0, 52.0]
        expected = rows_of(replay, replay.all_keys())
        for name, value in rows_of(loaded, loaded.all_keys()).items():
            np.testing.assert_array_equal(value, expected[name])
    assert renewed[0] in replay.all_keys()


def test_steps_and_initial_fields_of_sequences_are_written_as_they_are_sampled():
    spec = {"obs": ((2,), "float32"), "h": ((3,), "float32"), "value": ((), "float32")}
    replay = filled(spec=spec, num_steps=9, sequence=Sequences(length=4, period=2, initial=("h",)))
    keys = replay.all_keys()[:3]
    h, value = np.full((3, 3), 8, np.float32), np.arange(12, dtype=np.float32).reshape(3, 4)
    renewed = replay.update_fields(keys, h=h, value=value)
    rows = replay.read(renewed).data
    np.testing.assert_array_equal(rows["h"], h)
    np.testing.assert_array_equal(rows["value"], value)
    with pytest.raises(InvalidInput, match=r"expected fields among h, value, reward, got \"mask\": how an episode"):
        replay.update_fields(renewed, mask=np.ones((3, 4), bool))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "expected new contents of a field, such as obs=..., got none"),
        (
            {"speed": np.zeros(3)},
            r"extra/a\u2215b, next_value, next_obs, reward, got \"speed\": there is no",
        ),
        ({"truncated": np.zeros(3, bool)}, r"got \"truncated\": how an episode ended stays"),
        ({"reward": np.zeros(2)}, r"field \"reward\": expected float32\[3\], got float64\[2\]; give one row per key"),
        (
            {"reward": np.zeros((3, 1))},
            r"field \"reward\": expected float32\[3\], got float64\[3, 1\]; take the last",
        ),
        ({"reward": np.array([0, np.inf, 0])}, r"field \"reward\"\[1\]: expected finite numbers"),
        ({"obs": np.zeros((3, 2))}, r"field \"obs\": expected float32\[3, 2\], got float64\[3, 2\]; cast it"),
        ({"obs": [[0, 0]] * 3}, r"field \"obs\": expected a NumPy array float32\[3, 2\], got list; use np.asarray"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_changes(fields, message):
    replay = filled()
    keys = replay.all_keys()
    with pytest.raises(InvalidInput, match=message):
        replay.update_fields(keys[:3], **{"next_value": np.ones(3, np.float32), **fields} if fields else {})
    np.testing.assert_array_equal(replay.all_keys(), keys)


def test_observations_that_rows_share_foreign_keys_and_closed_replays_are_refused():
    replay = filled(share_next_obs=True)
    keys = replay.all_keys()
    for name in ("obs", "next_obs"):
        with pytest.raises(InvalidInput, match=f'got "{name}": rows share their observations'):
            replay.update_fields(keys, **{name: np.zeros((12, 2), np.float32)})
    with pytest.raises(InvalidInput, match="no key of this replay"):
        replay.update_fields(keys + np.uint64(99), reward=np.zeros(12))
    replay.close()
    with pytest.raises(Closed):
        replay.update_fields(keys, reward=np.zeros(12))


def test_many_and_large_rows_are_written_some_at_a_time():
    small = filled_replay(5000)
    small.update_fields(small.all_keys(), x=np.arange(5000).astype(np.uint8))
    np.testing.assert_array_equal(small.read(small.all_keys()).data["x"], np.arange(5000).astype(np.uint8))
    large = filled(spec={"obs": ((2,), "float32"), "image": ((100_000,), "uint8")})
    images = np.arange(12, dtype=np.uint8).repeat(100_000).reshape(12, -1)
    renewed = large.update_fields(large.all_keys(), image=images)
    np.testing.assert_array_equal(large.read(renewed).data["image"], images)
