"""docs/training.md: an algorithm's updates in a loop of one's own, as the guide has them."""

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="needs the train extra")
pytest.importorskip("jax", reason="needs the train extra")

GUIDE = (Path(__file__).parents[2] / "docs/training.md").read_text()


@pytest.mark.whole
def test_the_loop_of_the_guide_learns_from_recorded_steps(capsys):
    (text,) = re.findall(
        r"^## Updates in a loop of your own\n.*?^```python\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE
    )
    shorter = text.replace("range(5_000)", "range(500)").replace("range(3_000)", "range(40)")
    assert shorter.count("range(500)") == shorter.count("range(40)") == 1
    names = {}
    exec(compile(shorter, "docs/training.md", "exec"), names)
    assert names["state"].num_updates == 40
    assert all(np.isfinite(float(value)) for value in names["metrics"].values())
    algorithm, first = names["algorithm"], names["algorithm"].init(np.random.default_rng(0))
    before, after = (np.asarray(algorithm.policy(state)) for state in (first, names["state"]))
    assert not np.array_equal(before, after)
    assert names["total"] >= 8, "the pole does not fall before"
    assert "'loss'" in capsys.readouterr().out
