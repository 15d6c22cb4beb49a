"""Where what can be made again is kept."""

from pathlib import Path

import pytest

from drivetrain.core.caches import kernel_cache, user_cache
from drivetrain.core.errors import InvalidInput


def test_the_folder_is_chosen_by_the_variables_of_the_user(monkeypatch):
    monkeypatch.delenv("DRIVETRAIN_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert (user_cache("x"), kernel_cache()) == (Path("/caches/drivetrain/x"), Path("/caches/drivetrain/kernels"))
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert user_cache("x") == Path("/home/somebody/.cache/drivetrain/x")
    monkeypatch.setenv("DRIVETRAIN_CACHE", "/kernels")
    assert kernel_cache() == Path("/kernels")


def test_a_user_without_a_home_is_told_which_variable_to_set(monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("DRIVETRAIN_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(InvalidInput, match=r"HOME is not set, .* set HOME, or XDG_CACHE_HOME"):
        kernel_cache()
