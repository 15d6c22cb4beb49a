"""The files of policies: what is in them is a policy, or refused with what it is instead."""

import re

import numpy as np
import pytest

from drivetrain.core.errors import FileFormatError
from drivetrain.train.run_dir.archives import save_archive
from drivetrain.train.run_dir.checkpoint import load_saved_policy


@pytest.mark.parametrize(
    ("arrays", "meta", "sentence"),
    [
        ({}, {}, "expected an entry 'params' in the best policy, found none"),
        ({"params": np.ones(5)}, {}, "got float64, [8, 3] and 1.0"),
        ({"params": np.array(["a"])}, {}, "got <U1, [8, 3] and 1.0"),
        ({"params": np.ones(5, np.float32)}, {"num_steps": "8"}, "got float32, ['8', 3] and 1.0"),
        ({"params": np.ones(5, np.float32)}, {"mean_return": None}, "got float32, [8, 3] and None"),
        ({"params": np.ones(5, np.float32)}, {"format": "1"}, "expected a whole number as its format, got '1'"),
    ],
)
def test_a_policy_of_other_content_is_refused_with_what_it_has(tmp_path, arrays, meta, sentence):
    whole = {"num_steps": 8, "num_updates": 3, "mean_return": 1.0, **meta}
    save_archive(tmp_path / "best" / "policy.npz", "policy", arrays, whole)
    with pytest.raises(FileFormatError, match=re.escape(sentence)):
        load_saved_policy(tmp_path, "best")


def test_an_archive_of_somebody_else_is_no_policy(tmp_path):
    (tmp_path / "best").mkdir()
    np.savez(tmp_path / "best" / "policy.npz", weights=np.ones(3))
    with pytest.raises(FileFormatError, match=r"no policy of drivetrain: it has no meta\.json"):
        load_saved_policy(tmp_path, "best")
