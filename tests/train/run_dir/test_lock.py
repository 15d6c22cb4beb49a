"""A run's folder belongs to one process at a time."""

import errno
import fcntl
import os

import pytest

from drivetrain.core.errors import InvalidInput
from drivetrain.train.run_dir.folder import RunLock


def test_a_disk_without_locks_is_refused_in_a_sentence_and_nothing_stays_open(tmp_path, monkeypatch):
    def no_locks(fd, operation):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    before = os.listdir("/proc/self/fd")
    with pytest.raises(InvalidInput, match=r"whose files can be locked \(flock\).*Function not implemented"):
        RunLock(tmp_path)
    assert os.listdir("/proc/self/fd") == before
