"""Where compiled updates are kept between runs."""

import subprocess
import sys
import zlib
from pathlib import Path

import pytest

pytest.importorskip("jax", reason="needs the train extra")

import jax
from jax.experimental.compilation_cache import compilation_cache

from drivetrain.core.errors import InvalidInput
from drivetrain.train import train
from drivetrain.train.learner.compilation import using_compilation_cache

SETTINGS = (
    "jax_compilation_cache_dir",
    "jax_persistent_cache_min_compile_time_secs",
    "jax_persistent_cache_min_entry_size_bytes",
)

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


@pytest.mark.release
def test_programs_compiled_for_different_numbers_of_threads_are_kept_apart(monkeypatch, tmp_path):
    one = cache_dir(monkeypatch, tmp_path, PJRT_NPROC="1")
    two = cache_dir(monkeypatch, tmp_path, PJRT_NPROC="2")
    assert all(path.startswith(str(tmp_path)) for path in (one, two))
    assert one != two


@pytest.mark.whole
def test_a_folder_that_the_user_chose_is_left_alone(monkeypatch, tmp_path):
    chosen = str(tmp_path / "mine")
    assert cache_dir(monkeypatch, tmp_path, JAX_COMPILATION_CACHE_DIR=chosen) == chosen


_COMPILE = """
from drivetrain.train.learner.compilation import use_compilation_cache
import jax, sys
use_compilation_cache()
print(jax.jit(lambda x: x * 2)(int(sys.argv[1])))
"""


@pytest.mark.release
def test_a_program_that_was_kept_by_half_is_kept_anew(monkeypatch, tmp_path):
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def compile_it():
        return subprocess.run([sys.executable, "-c", _COMPILE, "4"], capture_output=True, text=True, check=True)

    compile_it()
    whole = {path: path.read_bytes() for path in tmp_path.rglob("*-cache")}
    assert whole
    if any(content.startswith(bytes.fromhex("28b52ffd")) for content in whole.values()):
        pytest.skip("JAX packs by Zstandard here, and only what it packs by zlib is looked at")
    for path, content in whole.items():
        path.write_bytes(content[: len(content) // 2])
    again = compile_it()
    assert (again.stdout, again.stderr) == ("8\n", "")
    for path in whole:
        assert zlib.decompress(path.read_bytes())


def set_to(values):
    for name, value in zip(SETTINGS, values, strict=True):
        jax.config.update(name, value)
    compilation_cache.reset_cache()


@pytest.fixture
def own_settings():
    """JAX's settings are the test's to change."""
    before = settings_now()
    yield
    set_to(before)


def settings_now():
    return tuple(getattr(jax.config, name) for name in SETTINGS)


@pytest.mark.usefixtures("own_settings")
@pytest.mark.parametrize("is_chosen", [True, False])
def test_a_run_in_the_callers_process_leaves_jax_with_the_callers_cache(tmp_path, monkeypatch, is_chosen):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "ours"))
    chosen = str(tmp_path / "mine")
    set_to(before := (chosen if is_chosen else None, 0.5, 7))
    inside = []
    train(
        *("dqn", "CartPole-v1"), run_dir=str(tmp_path / "run"), num_actors=0, total_steps=40, warmup_steps=36,
        batch_size=4, hidden=(8,), capacity=100, eval_max_steps=5,
        callbacks=[lambda event: inside.append(settings_now())],
    )  # fmt: skip
    assert settings_now() == before
    if is_chosen:
        assert set(inside) == {before}
        assert not (tmp_path / "ours").exists()
        return
    assert {folder.startswith(str(tmp_path / "ours")) for folder, *_ in inside[:-1]} == {True}
    for name, value in zip(SETTINGS, (chosen, 0.0, -1), strict=True):  # the caller's, from here on
        jax.config.update(name, value)
    jax.jit(lambda x: x * 3 + 1)(2.0)
    assert list((tmp_path / "mine").iterdir())


def test_runs_that_overlap_in_threads_keep_programs_to_the_last_and_leave_the_settings_as_they_were(
    monkeypatch, tmp_path
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    before = {name: getattr(jax.config, name) for name in SETTINGS}
    jax.config.update(SETTINGS[0], None)
    try:
        found = [getattr(jax.config, name) for name in SETTINGS]
        first, second = using_compilation_cache(), using_compilation_cache()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert jax.config.jax_compilation_cache_dir.startswith(str(tmp_path))
        second.__exit__(None, None, None)
        assert [getattr(jax.config, name) for name in SETTINGS] == found
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()


@pytest.mark.usefixtures("own_settings")
def test_a_block_that_could_not_begin_keeps_no_later_one_from_taking_the_settings_back(monkeypatch, tmp_path):
    set_to(before := (None, 0.5, 7))
    with monkeypatch.context() as nowhere:
        nowhere.delenv("XDG_CACHE_HOME", raising=False)
        nowhere.setattr(Path, "home", raises_runtime_error)
        with pytest.raises(InvalidInput, match="set HOME, or XDG_CACHE_HOME"), using_compilation_cache():
            pass
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with using_compilation_cache():
        assert settings_now() != before
    assert settings_now() == before


def raises_runtime_error():
    raise RuntimeError("Could not determine home directory.")
