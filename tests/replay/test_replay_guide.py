"""docs/replay.md: every Python block runs, in order, and prints what it says; tests it names exist."""

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

from children import ROOT

GUIDE = (ROOT / "docs/replay.md").read_text()
BLOCKS = re.findall(r"^```python(?: file=(\S+))?\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)


def test_the_blocks_of_the_guide_run_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names, printed = {}, io.StringIO()
    with contextlib.redirect_stdout(printed):
        for file, code in BLOCKS:
            if not file:
                exec(compile(code, "docs/replay.md", "exec"), names)
    assert len(BLOCKS) >= 7
    assert names["num_stale"] == 0
    lines = [line for line in printed.getvalue().splitlines() if line.strip()]
    assert lines
    assert [line for line in lines if f"# {line}" not in GUIDE] == []  # each print is followed by what it prints


def test_the_script_of_the_guide_runs_and_prints_what_it_says(tmp_path):
    ((file, code),) = [block for block in BLOCKS if block[0]]
    (tmp_path / file).write_text(code)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-W", "error", file],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "2000 (64, 3)"
    assert "# 2000 (64, 3)" in code


def test_the_tests_that_the_guide_names_exist():
    named = set(re.findall(r"\btest_[a-z0-9_]+\b", GUIDE))
    here = Path(__file__).parent
    exist = {path.stem for path in here.glob("test_*.py")}
    for path in here.glob("test_*.py"):
        exist |= set(re.findall(r"def (test_\w+)", path.read_text()))
    assert named <= exist
