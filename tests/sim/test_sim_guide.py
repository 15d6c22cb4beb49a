"""The programs of docs/sim.md run as they are written."""

import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "sim.md"
PROGRAMS = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)


@pytest.mark.parametrize(
    "program", PROGRAMS, ids=["compile", "params", "policies", "gymnasium", "inside jit", "write an environment"]
)
def test_a_program_of_the_guide_runs(program, capsys):
    exec(compile(program, str(GUIDE), "exec"), {"__name__": "guide"})
    said = capsys.readouterr().out
    assert said.strip() in ("(64, 1024, 4)", "(50, 256)", "(16, 256)", "(1024, 4)") or int(said.split()[0]) > 64
