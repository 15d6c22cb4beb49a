"""The programs of docs/sim.md run as they are written."""

import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "sim.md"
PROGRAMS = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)


PRINTED = {
    "compile": r"\(64, 1024, 4\)",
    "params": r"\(50, 256\)",
    "policies": r"\(16, 256\)",
    "gymnasium": r"\(1024, 4\)",
    "inside jit": r"\d+ steps in an episode, from \d+",
    "write an environment": r"\d+ .*",
    "other libraries": r"",
}
"""What each of them prints."""


@pytest.mark.release
@pytest.mark.parametrize(("program", "printed"), list(zip(PROGRAMS, PRINTED.values(), strict=True)), ids=PRINTED)
def test_a_program_of_the_guide_runs_and_prints_what_it_computes(program, printed, capsys):
    exec(compile(program, str(GUIDE), "exec"), {"__name__": "guide"})
    said = capsys.readouterr().out
    assert re.fullmatch(printed, said.strip())
    if said[:1].isdigit():
        assert int(said.split()[0]) > 64
