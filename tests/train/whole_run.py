"""A run in a process of its own, watched from outside; for the tests of whole runs."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from drivetrain.train.config import TrainConfig
from drivetrain.train.experience.experience import make_experience
from drivetrain.train.run_dir.checkpoint import load_checkpoint, save_checkpoint
from drivetrain.train.runs.requirements import describe
from live_processes import is_running, wait_until_dead

COMMAND = [sys.executable, "-m", "drivetrain.cli.main"]
SMALL = {
    "warmup_steps": 200, "hidden": (16,), "batch_size": 16, "envs_per_actor": 4, "eval_interval_steps": 500,
    "eval_episodes": 2, "final_eval_episodes": 3, "log_interval_steps": 500,
}  # fmt: skip
FLAGS = [
    "--warmup-steps", "200", "--hidden", "16", "--batch-size", "16", "--envs-per-actor", "4",
    "--eval-episodes", "2", "--final-eval-episodes", "3", "--num-actors", "2",
]  # fmt: skip
ENDLESS = [*FLAGS, "--total-steps", "100000000"]
ONE_ACTOR = ["--num-actors", "1"]
TIMES = {"wall_s", "steps_per_s", "updates_per_s", "checkpoint_s"}


class Run:
    """A `drivetrain train` or `drivetrain resume` in a process of its own, with a group of its own."""

    def __init__(self, run_dir, *flags, what=("dqn", "CartPole-v1"), resume=False):
        self.run_dir = run_dir
        verb = ["resume", str(run_dir)] if resume else ["train", *what, "--run-dir", str(run_dir)]
        self.process = subprocess.Popen(
            [*COMMAND, *verb, *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.pids = []

    def children(self, role=""):
        """(pid, role-index) of the live children, told apart by the log they write to, and "fork-server"."""
        pids = [pid for server in children_of(self.process.pid) for pid in [server, *children_of(server)]]
        logs = {}
        for pid in pids:
            with contextlib.suppress(OSError):  # it ends now
                logs[int(pid)] = Path(os.readlink(f"/proc/{pid}/fd/1")).stem
        self.pids = sorted({*self.pids, *logs})
        return {pid: log for pid, log in logs.items() if log.startswith(role)}

    def wait_until_learning(self):
        """Wait for metrics with updates in them."""
        self.wait_until(lambda: '"loss"' in read(self.run_dir / "metrics.jsonl"))

    def wait_until(self, holds):
        """Wait until something holds while the run goes on."""
        deadline = time.monotonic() + 180
        while not holds():
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline, "it did not happen within 180 s"
            time.sleep(0.02)
        self.children()

    def kill_all(self):
        """Kill the supervisor and every child, and wait until they are gone."""
        for pid in [self.process.pid, *self.children()]:
            os.kill(pid, signal.SIGKILL)
        self.process.communicate()
        wait_until_dead(self.pids)

    def end(self):
        """(exit code, stdout, stderr), after making sure that nothing is left."""
        out, err = self.process.communicate(timeout=180)
        assert not [pid for pid in self.pids if is_running(pid)], "processes are left"
        return self.process.returncode, out, err


def children_of(pid):
    """The processes that the main thread of a process has begun, and that nobody has taken off the list."""
    with contextlib.suppress(OSError):  # it has ended
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return []


def read(path):
    """The text of a file, empty if there is none."""
    return path.read_text() if path.exists() else ""


def rows_of(run_dir):
    """All rows of a run's metrics."""
    return [json.loads(line) for line in read(run_dir / "metrics.jsonl").splitlines()]


def rows_without_times(run_dir):
    """The same, without what differs between runs of the same bits."""
    return [{name: value for name, value in row.items() if name not in TIMES} for row in rows_of(run_dir)]


def same(left, right):
    """Whether two sets of named arrays are equal to the last bit."""
    return left.keys() == right.keys() and all(np.array_equal(left[name], right[name]) for name in left)


def lose_all_rows(run_dir):
    """Leave an empty replay in the checkpoint, as where the windows of all environments were open."""
    arrays, meta = load_checkpoint(run_dir)
    config = TrainConfig.from_dict(meta["config"])
    with make_experience(config, describe(config), shared=False) as empty:
        save_checkpoint(run_dir, arrays, meta, replay=empty)
