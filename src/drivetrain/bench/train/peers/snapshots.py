"""Policies of a run in progress, with the time each was found: read from the checkpoints it writes.

A thread looks for a new checkpoint every few milliseconds and keeps its parameters. They are
evaluated after the run, so training is neither paused nor disturbed, and evaluation is off the
clock. A policy counts from when it was found on disk, a little later than it was learned.
"""

import threading
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from drivetrain.bench.train.stopwatch import Stopwatch
from drivetrain.core.errors import FileFormatError
from drivetrain.train.run_dir.checkpoint import load_saved_policy

_POLL_S = 0.01


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A policy, and the CPU and wall seconds that were spent when it was there."""

    vector: NDArray[np.float32]
    num_steps: int
    num_updates: int
    cpu_s: float
    wall_s: float


class Snapshots:
    """Collects the checkpoints of one run folder, between `start` and `stop`."""

    def __init__(self, run_dir: Path, watch: Stopwatch) -> None:
        self.found: list[Snapshot] = []
        self._run_dir = run_dir
        self._watch = watch
        self._seen: list[tuple[str, int, int]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._collect, daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look a last time, and end the thread."""
        self._ended.set()
        self._thread.join()
        self._look()

    def _collect(self) -> None:
        while not self._ended.wait(_POLL_S):
            self._look()

    def _look(self) -> None:
        """Keep the checkpoint that is there now, unless it was kept before."""
        folder = self._run_dir / "checkpoint"
        try:
            # The inodes, too: two checkpoints may fall into one tick of the file system's clock.
            files = [(path.name, path.stat()) for path in sorted(folder.iterdir())]
            changed = [(name, stat.st_mtime_ns, stat.st_ino) for name, stat in files]
            if not changed or changed == self._seen:
                return
            cpu_s, wall_s = self._watch.read()
            policy = load_saved_policy(self._run_dir, "last")
        except (OSError, ValueError, FileFormatError):  # none yet, or replaced this very moment
            return
        self._seen = changed
        if self.found and self.found[-1].num_updates == policy.num_updates:
            return
        self.found.append(
            Snapshot(
                vector=policy.vector,
                num_steps=policy.num_steps,
                num_updates=policy.num_updates,
                cpu_s=cpu_s,
                wall_s=wall_s,
            )
        )
