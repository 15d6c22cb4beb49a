"""Tables of the documentation that the code makes say what the code says."""

import re

import pytest

pytest.importorskip("gymnasium", reason="needs the train extra")

from drivetrain.train.config import presets
from drivetrain.train.environments import spaces


@pytest.mark.parametrize("table", [presets.table, spaces.table], ids=["presets", "spaces"])
def test_the_training_guide_shows_the_table_that_the_code_makes(root, table):
    assert table() in (root / "docs" / "training.md").read_text(), f"put this into docs/training.md:\n{table()}"


def test_a_return_of_one_seed_is_told_with_the_command_that_has_that_seed():
    told = [known.verified for known in presets.PRESETS.values()]
    for sentence in told:
        for seed in re.findall(r"\(seed (\d+)\): train ", sentence):
            assert f" --seed {seed}" in sentence
    assert sum("(seed " in sentence for sentence in told) > 10
