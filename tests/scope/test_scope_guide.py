"""The guide to scope does what it says."""

import re
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "scope.md"


def test_the_blocks_of_the_guide_run_in_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert len(blocks) >= 2
    namespace = {"__name__": "guide"}
    for block in blocks:
        exec(compile(block, GUIDE.name, "exec"), namespace)
    printed = capsys.readouterr().out
    assert "replay python" in printed
    assert "ns were added by recording" in printed
