"""Runs one rival in a fresh process, and reads what the kernel says it cost.

    Job -> job.json -> python -m drivetrain.bench.peers.RIVAL -> outcome.json -> Outcome

Nothing of one run reaches the next: no imported framework, no compiled program, no warm cache.
"""

import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from drivetrain.bench.job import Job, Outcome
from drivetrain.bench.report import Skipped
from drivetrain.core.errors import RunError

# What pins a process to one computation thread, in every framework; read when it is imported.
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "PJRT_NPROC": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
}
# Everybody compiles in every run: a cache kept from an earlier one would hide that cost.
NO_COMPILATION_CACHE = {"JAX_ENABLE_COMPILATION_CACHE": "false"}


@dataclass(frozen=True, kw_only=True)
class Rival:
    """One contender: its name in tables, its module, and what must be installed for it."""

    name: str
    module: str
    requires: tuple[str, ...]
    install: str

    def missing(self) -> Skipped | None:
        """The reason why this rival cannot run here; None when it can."""
        absent = [name for name in self.requires if importlib.util.find_spec(name) is None]
        if not absent:
            return None
        reason = f"not installed: {', '.join(absent)}"
        return Skipped(name=self.name, reason=reason, remedy=self.install)


def environment_of(job: Job, inherited: Mapping[str, str]) -> dict[str, str]:
    """Environment variables of the rival's process: our import path, thread counts, no cache."""
    variables = {name: value for name, value in inherited.items() if name not in ONE_THREAD}
    threads = ONE_THREAD if job.threads == 1 else {}
    modules = {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    return variables | modules | NO_COMPILATION_CACHE | threads


def run_rival(rival: Rival, job: Job, *, timeout_s: float = 1_800.0) -> Outcome:
    """Run one job in a fresh process, in an empty folder that is removed afterwards.

    Raises:
        RunError: The process failed or took longer than `timeout_s`; ends with its last line.
    """
    with tempfile.TemporaryDirectory(prefix="drivetrain-bench-") as folder:
        job_path, outcome_path = Path(folder, "job.json"), Path(folder, "outcome.json")
        log_path = Path(folder, "log.txt")
        job.save(job_path)
        command = [sys.executable, "-P", "-W", "ignore", "-m", rival.module]
        with log_path.open("w") as log:
            process = subprocess.Popen(
                [*command, str(job_path), str(outcome_path)],
                cwd=folder,
                env=environment_of(job, os.environ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            process_cpu_s = wait(process, rival, timeout_s)
        if process.returncode != 0 or not outcome_path.exists():
            lines = log_path.read_text(errors="replace").strip().splitlines()
            last = lines[-1] if lines else "no output"
            raise RunError(f"{rival.name} ended with code {process.returncode}: {last}")
        return replace(Outcome.load(outcome_path), process_cpu_s=process_cpu_s)


def wait(process: subprocess.Popen[bytes], rival: Rival, timeout_s: float) -> float:
    """Wait for a rival's end; CPU-seconds of its whole life, with the children it waited for."""
    before = os.times()
    try:
        process.wait(timeout_s)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)  # its actors too
        process.wait()
        if isinstance(error, subprocess.TimeoutExpired):
            raise RunError(f"{rival.name} took longer than {timeout_s:.0f} s") from None
        raise
    after = os.times()
    return (after.children_user - before.children_user) + (after.children_system - before.children_system)
