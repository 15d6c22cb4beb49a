"""The guide to scope does what it says."""

import re
from pathlib import Path
from types import ModuleType

from drivetrain import scope

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


def test_the_hook_of_the_guide_finds_what_it_says(tmp_path):
    (block,) = re.findall(r"```python\n(.*?)```", (GUIDE.parent / "scope-hooks.md").read_text(), re.DOTALL)
    namespace = {}
    exec(compile(block, "scope-hooks.md", "exec"), namespace)
    climbing = ModuleType("climbing")
    exec(
        "class Wall:\n    def step(self): return 1\n"
        "class Memory:\n    def recall(self, depth): return depth and self.recall(depth - 1)\n",
        climbing.__dict__,
    )
    namespace["install"](climbing)

    class Overhang(climbing.Wall):
        def step(self):
            return super().step() + 1

    with scope.session(tmp_path / "run.scope"):
        assert Overhang().step() == 2
        assert climbing.Memory().recall(3) == 0
    profile = scope.load(tmp_path / "run.scope")
    assert profile.num_steps() == 1
    rows = {(row.operation, row.time_class) for row in profile.breakdown()}
    assert {("simulation", "simulator"), ("replay", "python")} <= rows


def test_every_key_of_the_json_document_is_explained(tmp_path):
    with scope.session(tmp_path / "run"), scope.operation("simulation"):
        pass
    document = scope.load(tmp_path / "run").as_json()
    parts = (document, document["overhead"], document["overhead"]["costs"][0], document["rows"][0])
    explained = GUIDE.read_text().partition("### The JSON document")[2].partition("\n## ")[0]
    keys = {key for part in parts for key in part if not key.endswith("_se_ns")}
    assert not [key for key in keys if f"`{key}`" not in explained]
