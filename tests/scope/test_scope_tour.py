"""docs/scope-tour.md: its script and commands work, in a shorter run."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "scope-tour.md").read_text()


@pytest.mark.release
@pytest.mark.torch
def test_the_commands_of_the_tour_work_in_their_order(tmp_path):
    pytest.importorskip("stable_baselines3", reason='needs SB3: pip install "drivetrain[bench]"')
    files = dict(re.findall(r"```python (\S+)\n(.*?)```", PAGE, re.DOTALL))
    commands = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
    assert len(commands) == 4
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    for command in commands:
        words = shlex.split(command.replace("8192", "2048"))
        done = subprocess.run(
            [sys.executable, "-m", "drivetrain.cli.main", *words[1:]],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        if words[1] == "profile":
            assert done.stdout == "trained for 2048 steps\n"
            assert "backpropagation" in done.stderr
        else:
            assert "simulation" in done.stdout
    assert (tmp_path / "one.html").stat().st_size > 5000
