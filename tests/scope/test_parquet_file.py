"""A file of columns is what was written into it, or it is refused in one sentence."""

import numpy as np
import pytest

from drivetrain.core.errors import FileFormatError
from drivetrain.scope.trace.parquet_file import PackedFile

COUNTS = PackedFile("counts", b"counts", version=3)


def columns(num_rows):
    return {"step_ns": np.arange(num_rows) ** 2, "what": (np.arange(num_rows) % 5).astype(np.int32)}


@pytest.mark.parametrize("num_rows", [0, 1000])
def test_columns_come_back_with_their_types_and_what_describes_them(tmp_path, num_rows):
    COUNTS.write(tmp_path / "file", columns(num_rows), {"of": ["a", 1]})
    found, head = COUNTS.read(tmp_path / "file")
    assert head == {"of": ["a", 1], "version": 3}
    assert list(found) == ["step_ns", "what"]
    for name, expected in columns(num_rows).items():
        assert found[name].dtype == expected.dtype
        np.testing.assert_array_equal(found[name], expected)


@pytest.mark.parametrize(
    ("other", "got"),
    [(PackedFile("counts", b"counts", version=2), 2), (PackedFile("names", b"names", version=3), None)],
)
def test_another_kind_or_version_is_refused(tmp_path, other, got):
    other.write(tmp_path / "file", columns(3), {})
    with pytest.raises(FileFormatError, match=rf"file: expected counts of version 3, got {got}$"):
        COUNTS.read(tmp_path / "file")


def test_a_disk_that_is_full_leaves_the_old_file(tmp_path, full_disk):
    folder = tmp_path / "run"
    folder.mkdir()
    COUNTS.write(folder / "file", columns(3), {})
    with full_disk(100), pytest.raises(OSError, match="too large"):
        COUNTS.write(folder / "file", columns(100_000), {})
    assert [path.name for path in folder.iterdir()] == ["file"]
    assert len(COUNTS.read(folder / "file")[0]["what"]) == 3
