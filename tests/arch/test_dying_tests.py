"""A process of the tests that dies ends their run, with a message: it is not waited for."""

import os
import subprocess
import sys

import pytest

DIES = """
import os, signal, time
import pytest

@pytest.mark.parametrize("number", range(8))
def test_number(number):
    time.sleep(0.02)
    if "{name}" == "last" and number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.release
def test_a_test_that_kills_its_process_ends_the_run_and_is_named(root, tmp_path):
    for name in ("first", "second", "third", "last"):
        (tmp_path / f"test_{name}.py").write_text(DIES.format(name=name))
    arguments = ["-c", root / "pyproject.toml", "--rootdir", tmp_path, "-n", "2", tmp_path]
    command = [sys.executable, "-m", "pytest", "-p", "xdist", "-p", "pytest_timeout", *arguments]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # others are imported for a second and more
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 1, ended.stdout
    assert "crashed while running 'test_last.py::test_number[3]'" in ended.stdout
