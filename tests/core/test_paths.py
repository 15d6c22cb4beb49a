"""Paths as callers give them, and the folder that a process is in."""

import enum
import os
from pathlib import Path

import pytest

from drivetrain.core.errors import InvalidInput
from drivetrain.core.paths import back_here, folder_here, given_path, resolved


def test_text_and_paths_are_taken_and_a_tilde_is_a_users_folder_unless_it_is_in_a_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    for value in ("~/run", Path("~/run"), tmp_path / "run"):
        assert given_path("run_dir", value) == tmp_path / "run"
    assert given_path("run_dir", "a/~b") == Path("a/~b")
    assert given_path("run_dir", "./~b") == Path.cwd() / "~b"


def test_a_dash_is_no_path_for_it_means_a_standard_stream_elsewhere_and_one_in_a_folder_is(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match=r"^json: expected a path, got '-'; - stands for no standard stream here"):
        given_path("json", "-")
    assert given_path("json", "./-") == tmp_path / "-"


class Folder(str, enum.Enum):  # noqa: UP042 - StrEnum says its text also to Path
    RUNS = "runs"


def test_a_member_of_an_enumeration_that_is_a_text_is_the_path_that_it_says():
    assert given_path("run_dir", Folder.RUNS) == Path("runs")


class OfBytes:
    def __fspath__(self):
        return b"run"

    def __repr__(self):
        return "OfBytes()"


@pytest.mark.parametrize("value", [None, 3, b"run", OfBytes(), "", "a\0b"], ids=repr)
def test_what_is_no_path_is_refused_by_the_name_of_the_argument(value):
    with pytest.raises(InvalidInput, match=r"^run_dir: expected a folder, got "):
        given_path("run_dir", value, expected="a folder")


def test_who_went_elsewhere_is_back_even_in_a_folder_that_was_removed_and_is_told_so(monkeypatch, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    assert folder_here() == gone

    @back_here()
    def go_elsewhere():
        os.chdir("/")
        gone.rmdir()
        raise RuntimeError("on the way")

    with pytest.raises(RuntimeError, match="on the way"):
        go_elsewhere()
    with pytest.raises(InvalidInput, match="does not exist any more; `cd` to one that does"):
        folder_here()


def test_links_that_lead_in_a_circle_are_refused_and_others_followed(tmp_path):
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "link").symlink_to("absent")
    assert resolved(tmp_path / "link" / "file") == tmp_path.resolve() / "absent" / "file"
    for path in (tmp_path / "circle", tmp_path / "circle" / "file"):
        with pytest.raises(InvalidInput, match="got links that lead in a circle; choose another"):
            resolved(path)
