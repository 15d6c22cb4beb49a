"""A process of a run that cannot be begun leaves nothing behind."""

import os
from types import SimpleNamespace

import pytest

from drivetrain.core.errors import RunError
from drivetrain.train.processes.launch import Child


class Gone:
    def begin(self, *told, **how):
        raise RunError("the process that begins the others was killed by SIGTERM")


def test_a_child_that_cannot_be_begun_leaves_no_pipe_open(tmp_path):
    (tmp_path / "logs").mkdir()
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(RunError, match="killed by SIGTERM"):
        Child(Gone(), SimpleNamespace(role="actor", index=0, run_dir=tmp_path))
    assert len(os.listdir("/proc/self/fd")) == before
