"""A file takes the place of a file, never of anything else, and errors name what was to be written."""

import contextlib
import errno
import io
import os
import stat

import pytest

from drivetrain.core.aside import save_text, text_aside, written_aside


def write(path, content=b"new"):
    with written_aside(path) as file:
        file.write(content)


def test_what_a_link_leads_to_is_replaced_and_the_link_stays(tmp_path):
    folder, link = tmp_path / "folder", tmp_path / "link"
    folder.mkdir()
    (folder / "file").write_bytes(b"old")
    link.symlink_to(folder / "file")
    write(link)
    assert link.is_symlink()
    assert (folder / "file").read_bytes() == b"new"
    assert sorted(os.listdir(folder)) == ["file"]
    (tmp_path / "dangling").symlink_to(folder / "other")
    write(tmp_path / "dangling")
    assert (folder / "other").read_bytes() == b"new"


def test_a_file_that_takes_the_place_of_another_keeps_its_permissions(tmp_path):
    path = tmp_path / "file"
    write(path)
    usual = path.stat().st_mode
    for mode in (0o600, 0o664, 0o640):
        path.chmod(mode)
        write(path)
        assert stat.S_IMODE(path.stat().st_mode) == mode
    path.unlink()
    write(path)
    assert path.stat().st_mode == usual


@pytest.fixture
def terminal():
    """A device of the test's own: one that all use would be gone, if a fault let whoever may do anything replace it."""
    ends = os.openpty()
    yield os.ttyname(ends[1])
    for end in ends:
        os.close(end)


@pytest.mark.parametrize("kind", ["device", "pipe", "folder"])
def test_what_is_no_file_is_left_as_it_is(tmp_path, kind, terminal):
    path = tmp_path / kind
    if kind == "device":
        path.symlink_to(terminal)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    mode = path.stat().st_mode
    with pytest.raises(OSError, match="directory" if kind == "folder" else "Not a regular file") as raised:
        write(path)
    assert path.stat().st_mode == mode
    assert raised.value.filename in (str(path), terminal)
    assert os.listdir(tmp_path) == [kind]


@pytest.mark.parametrize("name", ["absent/file", "file/file", "n" * 250])
def test_an_error_names_what_was_to_be_written(tmp_path, name):
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(OSError, match=name) as raised:
        write(tmp_path / name)
    assert raised.value.filename == str(tmp_path / name)
    assert os.listdir(tmp_path) == ["file"]


def test_a_text_that_cannot_take_its_place_leaves_the_old_one_and_nothing_aside(tmp_path, monkeypatch):
    path = tmp_path / "report.json"
    path.write_text("old")

    def fail(*_):
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no space"):
        save_text(path, "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["report.json"]


def test_a_text_written_bit_by_bit_is_there_when_it_is_whole(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("old")
    with text_aside(path, newline="", errors="backslashreplace") as out:
        for row in range(10_000):
            out.write(f"{row},\udc80\r\n")
        assert path.read_text() == "old"
    assert path.read_bytes() == b"".join(b"%d,\\udc80\r\n" % row for row in range(10_000))
    with contextlib.suppress(ZeroDivisionError), text_aside(path) as out:
        out.write("half")
        out.write(str(1 / 0))
    assert path.read_bytes().startswith(b"0,")
    assert os.listdir(tmp_path) == ["rows.csv"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_what_the_disk_does_not_take_is_an_error_and_no_half_of_it(tmp_path, monkeypatch):
    monkeypatch.setattr("builtins.open", lambda path, *rest, **more: io.FileIO("/dev/full", "wb"))
    with pytest.raises(OSError, match="No space left"), text_aside(tmp_path / "rows.csv") as out:
        out.write("row\n" * 10_000)
    assert os.listdir(tmp_path) == []
