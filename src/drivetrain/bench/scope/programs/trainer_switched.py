"""drivetrain's trainer, its record of where the time goes switched on and off from stretch to stretch of one run.

A stretch is equally many steps; of each two in a row one is recorded, at random. CPU-seconds of the process, written as
JSON: pairs of [recorded, not recorded], what a record takes once per run, beginning, end and the report, and how many
stretches a run of the preset's length has.
"""

import json
import os
import random
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Literal

from drivetrain.core.threads import one_thread_environment, prepare_computation
from drivetrain.scope import _native
from drivetrain.train import train
from drivetrain.train.callbacks import Event
from drivetrain.train.config import TrainConfig
from drivetrain.train.config.presets import preset
from drivetrain.train.telemetry.recording import METRICS, recorded

ALGO, ENV = "dqn", "CartPole-v1"
NUM_STEPS = 256
"""Four calls of 32 updates: long against the clock, short against what else goes on in the machine."""
NUM_FIRST = 16
"""Stretches before the first that counts: what is compiled, and steps without updates."""
_LIMIT_NBYTES = 2**20


class Switch:
    """Told after each stretch; ends the run after the last."""

    def __init__(self, num_pairs: int, folder: Path) -> None:
        self._folder, self._rng = folder, random.Random(0)
        order = [self._rng.sample((True, False), 2) for _ in range(num_pairs)]
        self._plan = [False] * NUM_FIRST + [records for pair in order for records in pair]
        self.took_s: list[tuple[bool, float]] = []
        self._begin_s = 0.0

    def __call__(self, event: Event) -> Literal["stop"] | None:
        """Note what the stretch took, and begin the next."""
        if event.kind != "record":
            return None
        took_s = time.process_time() - self._begin_s
        _native.stop()
        at = len(self.took_s)
        if at < len(self._plan):
            self.took_s.append((self._plan[at], took_s))
        if at + 1 >= len(self._plan):
            return "stop"
        # Once per run, and so before every stretch, recorded or not: files are made when a thread enters its next site.
        part = self._folder / str(at)
        part.mkdir()
        _native.start_totals(os.fsencode(part), _LIMIT_NBYTES)
        with METRICS:
            pass
        if not self._plan[at + 1]:
            _native.stop()
            with METRICS:
                pass
        self._begin_s = time.process_time()
        return None

    def pairs(self) -> list[tuple[float, float]]:
        """(recorded, not recorded)."""
        kept = self.took_s[NUM_FIRST:]
        twos = (dict(kept[i : i + 2]) for i in range(0, len(kept) - 1, 2))
        return [(two[True], two[False]) for two in twos]


def once_s(run_dir: Path) -> float:
    """CPU-seconds that a record begins and ends with, its report included, in a process that has trained."""
    config = TrainConfig.load(run_dir / "config.json")
    config = replace(config, run=replace(config.run, time_report=True))
    before_s = time.process_time()
    with recorded(config, run_dir):
        pass
    return time.process_time() - before_s


def main(num_pairs: int, file: str) -> None:
    """Train until all pairs are there."""
    os.environ.update(one_thread_environment(os.environ))
    prepare_computation()
    with tempfile.TemporaryDirectory() as folder:
        switch = Switch(num_pairs, Path(folder))
        never = 10**9
        train(ALGO, ENV, total_steps=(2 * num_pairs + NUM_FIRST + 4) * NUM_STEPS, num_actors=0, seed=1,
              run_dir=f"{folder}/run", time_report=False, log_interval_steps=NUM_STEPS, eval_interval_steps=never,
              checkpoint_interval_s=1e9, eval_episodes=1, final_eval_episodes=1, callbacks=[switch])  # fmt: skip
        found = {
            "pairs": switch.pairs(),
            "once_s": once_s(Path(folder) / "run"),
            "num_stretches": preset(ALGO, ENV).run.total_steps / NUM_STEPS,
        }
    Path(file).write_text(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
