"""Whether processes that are not a test's own to reap have gone."""

import time
from pathlib import Path


def is_running(pid):
    """Whether a process lives; an unreaped corpse does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until_dead(pids, within_s=60):
    """Wait until processes are gone, or corpses that their reaper has not come to."""
    deadline = time.monotonic() + within_s
    while left := [pid for pid in pids if is_running(pid)]:
        assert time.monotonic() < deadline, f"processes are left: {left}"
        time.sleep(0.01)
