"""One setting of a drawn case: a training run that is ended after some seconds, and its rates."""

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from drivetrain.bench import tied
from drivetrain.bench.process import kill
from drivetrain.bench.sizing.environment import VARIABLE
from drivetrain.core.errors import RunError
from drivetrain.core.processes import import_path

_START_S = 120.0  # at most, to the first update
_POLL_S = 0.1


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """An environment, and what is learned from it."""

    kind: str
    """"computes" or "sleeps"."""
    step_s: float
    """Seconds of a step."""
    width: int
    """Units of each of the two hidden layers."""
    batch_size: int
    """Rows of a batch; 1 update for 4 steps."""

    @property
    def name(self) -> str:
        """For the tables."""
        return f"{self.kind} {self.step_s * 1e3:.2f} ms, 2 x {self.width} units, batch {self.batch_size}"

    def command(self, run_dir: Path, *flags: str) -> list[str]:
        """A command line that trains on it for as long as this process lives, without evaluations."""
        return [
            *(sys.executable, "-P", "-m", "drivetrain.bench.tied"),
            *("-P", "-m", "drivetrain.cli.main", "train", "dqn"),
            "drivetrain.bench.sizing.environment:timed",
            *("--run-dir", str(run_dir), "--total-steps", "100000000", "--eval-interval-steps", "100000000"),
            *("--hidden", str(self.width), str(self.width), "--batch-size", str(self.batch_size)),
            *("--update-ratio", "1/4", "--warmup-steps", "600", "--log-interval-steps", "32"),
            *flags,
        ]

    def environ(self) -> dict[str, str]:
        """The variables of such a run."""
        return {
            **os.environ,
            **import_path(),
            VARIABLE: f"{self.kind} {self.step_s}",
            tied.VARIABLE: str(os.getpid()),
        }


def chosen(drawn: Drawn) -> dict[str, Any]:
    """What automatic sizing settles on: `num_actors`, `num_learners`, and the reason under "sized"."""
    command = drawn.command(Path("unused"), "--num-actors", "auto", "--num-learners", "auto", "--show-config")
    done = subprocess.run(command, env=drawn.environ(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RunError(f"automatic sizing ended with code {done.returncode}: {done.stderr.strip()}")
    shown = json.loads(done.stdout)
    return {"sized": shown["sized"], **{name: shown["run"][name] for name in ("num_actors", "num_learners")}}


class Rates(NamedTuple):
    """What a run does in a second."""

    steps_per_s: float
    """Environment steps."""
    updates_per_s: float
    """Updates."""


def rates(drawn: Drawn, num_actors: int, num_learners: int, seconds: float) -> Rates:
    """What a run does, over some seconds after its first updates.

    Raises:
        RunError: The run ended by itself, or did not come so far.
    """
    with tempfile.TemporaryDirectory() as folder:
        run_dir = Path(folder) / "run"
        flags = ["--num-actors", str(num_actors), "--num-learners", str(num_learners), "--oversubscribe"]
        log = Path(folder) / "log.txt"
        with log.open("w") as file:
            process = subprocess.Popen(
                drawn.command(run_dir, *flags), env=drawn.environ(), stdout=file, stderr=file, start_new_session=True
            )
        try:
            rows = _rows_until(process, run_dir / "metrics.jsonl", seconds)
        finally:
            kill(process)
        if len(rows) < 2:
            raise RunError(f"{drawn.name}, {num_actors} actors: too few steps were measured: {log.read_text()[-500:]}")
        first, last = rows[0], rows[-1]
        passed_s = last["wall_s"] - first["wall_s"]
        if passed_s < seconds:
            how = f"{passed_s:.1f} of {seconds:g} s were measured"
            raise RunError(f"{drawn.name}, {num_actors} actors: {how} when it ended: {log.read_text()[-500:]}")
        return Rates(*((last[count] - first[count]) / passed_s for count in ("num_steps", "num_updates")))


def _rows_until(process: "subprocess.Popen[bytes]", path: Path, seconds: float) -> list[dict[str, Any]]:
    """The rows with updates in them that a run writes in so many seconds after the first of them."""
    deadline_s, rows = time.monotonic() + _START_S, list[dict[str, Any]]()
    while process.poll() is None and time.monotonic() < deadline_s + (seconds if rows else 0.0):
        time.sleep(_POLL_S)
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        rows = [row for row in map(json.loads, lines) if "steps_per_s" in row and row["num_updates"] > 32]
        if rows and rows[-1]["wall_s"] - rows[0]["wall_s"] > seconds:
            break
    return rows
