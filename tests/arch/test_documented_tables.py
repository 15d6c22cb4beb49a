"""Tables of the documentation that the code makes say what the code says."""

import pytest

pytest.importorskip("gymnasium", reason="needs the train extra")

from drivetrain.train.config import presets
from drivetrain.train.environments import spaces


@pytest.mark.parametrize("table", [presets.table, spaces.table], ids=["presets", "spaces"])
def test_the_training_guide_shows_the_table_that_the_code_makes(root, table):
    assert table() in (root / "docs" / "training.md").read_text(), f"put this into docs/training.md:\n{table()}"
