"""Where compiled updates are kept between runs."""

import subprocess
import sys

import pytest

pytest.importorskip("jax", reason="needs the train extra")

_SHOW = """
from drivetrain.train.learner.compilation import use_compilation_cache
import jax
use_compilation_cache()
print(jax.config.jax_compilation_cache_dir)
"""


def cache_dir(monkeypatch, tmp_path, **environ):
    for name in ("JAX_COMPILATION_CACHE_DIR", "PJRT_NPROC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    return subprocess.run([sys.executable, "-c", _SHOW], capture_output=True, text=True, check=True).stdout.strip()


def test_programs_compiled_for_different_numbers_of_threads_are_kept_apart(monkeypatch, tmp_path):
    one = cache_dir(monkeypatch, tmp_path, PJRT_NPROC="1")
    two = cache_dir(monkeypatch, tmp_path, PJRT_NPROC="2")
    assert all(path.startswith(str(tmp_path)) for path in (one, two))
    assert one != two


def test_a_folder_that_the_user_chose_is_left_alone(monkeypatch, tmp_path):
    chosen = str(tmp_path / "mine")
    assert cache_dir(monkeypatch, tmp_path, JAX_COMPILATION_CACHE_DIR=chosen) == chosen
