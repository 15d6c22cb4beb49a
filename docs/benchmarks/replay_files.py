"""What saving and loading a replay costs: `python docs/benchmarks/replay_files.py FILE.json [FOLDER]`.

2^20 rows of obs (4,) float32, prioritized. Each round saves whole, then after 0, 1 and 10 % of new rows and
as many new priorities incrementally, then loads. Ours is the incremental save; the reference is the whole
one of the same round.
"""

import shlex
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from drivetrain.bench.machine import origin_of
from drivetrain.bench.report import Case, Report, write_json
from drivetrain.replay import Replay

CAPACITY, NUM_ROUNDS, NUM_ENVS = 2**20, 5, 256


def add(replay: Replay, num_rows: int) -> None:
    """Add rows of random observations."""
    writer, rng = replay.writer(NUM_ENVS), np.random.default_rng(0)
    no = np.zeros(NUM_ENVS, bool)
    for _ in range(-(-num_rows // NUM_ENVS)):
        obs = rng.random((2, NUM_ENVS, 4), np.float32)
        action = np.zeros(NUM_ENVS, np.int64)
        writer.add(obs=obs[0], action=action, reward=obs[0, :, 0], next_obs=obs[1], terminated=no, truncated=no)


def change(replay: Replay, share: float) -> None:
    """This share of all rows new, and as many priorities."""
    add(replay, int(share * CAPACITY))
    rng = np.random.default_rng(1)
    for _ in range(int(share * CAPACITY) // 1024):
        sample = replay.sample(1024)
        replay.update_priorities(sample.keys, rng.random(1024))


def seconds(action) -> float:
    """How long a call takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def main(out: Path, folder: str | None) -> None:
    """Measure, and write the report."""
    replay = Replay(CAPACITY, {"obs": ((4,), "float32"), "action": ((), "int64")})
    add(replay, CAPACITY)
    shares, times, sizes = (0.0, 0.01, 0.1), {}, {}
    with tempfile.TemporaryDirectory(dir=folder) as place:
        path = Path(place) / "replay"
        for _ in range(NUM_ROUNDS):
            times.setdefault("whole", []).append(seconds(lambda: sizes.update(whole=replay.save(path))))
            for share in shares:
                change(replay, share)
                took = seconds(lambda share=share: sizes.update({share: replay.save(path, incremental=True)}))
                times.setdefault(share, []).append(took)
            times.setdefault("load", []).append(seconds(lambda: Replay.load(path).close()))
    cases = [
        Case(
            name=f"save after {share:.0%} of new rows and priorities",
            unit="s",
            better="lower",
            samples={"ours": times[share]},
            references={"whole save": times["whole"]},
            details={"ours": {"nbytes": sizes[share]}, "whole save": {"nbytes": sizes["whole"]}},
        )
        for share in shares
    ]
    cases += [Case(name="load after all of them", unit="s", better="lower", samples={"ours": times["load"]})]
    report = Report(
        title="Saving and loading a replay of 2^20 rows, obs (4,)",
        origin=replace(
            origin_of((), ["numpy"]), command="python " + shlex.join(["docs/benchmarks/replay_files.py", out.name])
        ),
        weaknesses=["Saves end on the disk of one machine, shared with others; only ratios carry over."],
        cases=cases,
    )
    write_json(out, report.as_json())


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None)
