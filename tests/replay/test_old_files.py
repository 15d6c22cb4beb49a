"""Files that older versions of drivetrain wrote are read, and written anew by the next save."""

import numpy as np
import pytest
from children import write_rows
from old_files import write_old_file

from drivetrain.core.errors import FileFormatError
from drivetrain.replay import Replay
from drivetrain.replay.inspection import inspect
from drivetrain.replay.testing import TaggedRows, TaggedStacks, check_consistent

TAGGED = TaggedRows(16)


def old_replay(num_rows=560):
    replay = Replay(400, TAGGED.spec, alpha=0.5, seed=3)
    write_rows(replay, num_rows, num_bytes=16)
    replay.update_priorities(replay.sample(50).keys, np.linspace(0, 1e5, 50))
    return replay


@pytest.mark.parametrize("version", [1, 2])
def test_a_file_of_an_older_version_is_read(tmp_path, version):
    replay, path = old_replay(), tmp_path / "replay"
    write_old_file(path, replay, version)
    loaded = Replay.load(path)
    assert (len(loaded), loaded.num_inserted, loaded.alpha) == (400, 560, 0.5)
    check_consistent(loaded)
    np.testing.assert_allclose(loaded.priorities(loaded.all_keys()), replay.priorities(replay.all_keys()), rtol=1e-6)
    sample = loaded.sample(400, mode="iid")
    TAGGED.check(sample)
    assert set(sample.data["tag"].tolist()) <= set(range(160, 560))
    assert inspect(path).version == version
    assert len(Replay.load(path, capacity=100)) == 100
    assert loaded.save(path, incremental=True) == path.stat().st_size
    assert inspect(path).version == 3


def test_an_older_file_with_shared_observations_is_read(tmp_path):
    tagged, path = TaggedStacks(16, stack=3), tmp_path / "replay"
    replay = Replay(400, tagged.spec, share_next_obs=True, frame_stack=3)
    write_rows(replay, 560, num_bytes=16)
    write_old_file(path, replay, 2)
    loaded = Replay.load(path)
    check_consistent(loaded)
    tagged.check(loaded.sample(400))
    assert sorted(loaded.sample(400).data["tag"]) == sorted(replay.sample(400).data["tag"])


@pytest.mark.whole
@pytest.mark.parametrize("version", [1, 2])
def test_a_damaged_file_of_an_older_version_is_refused(tmp_path, version):
    path = tmp_path / "replay"
    write_old_file(path, old_replay(400), version)
    good, rng = path.read_bytes(), np.random.default_rng(0)
    for nbytes in rng.integers(0, len(good), 100):
        path.write_bytes(good[:nbytes])
        with pytest.raises(FileFormatError):
            Replay.load(path)
    for at in rng.integers(0, len(good), 300):
        damaged = bytearray(good)
        damaged[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        with pytest.raises(FileFormatError):
            Replay.load(path)
    path.write_bytes(good + b"\0")
    with pytest.raises(FileFormatError, match="goes on"):
        Replay.load(path)
