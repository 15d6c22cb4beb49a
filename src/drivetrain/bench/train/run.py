"""Runs one rival's training in a fresh process, and reads what the kernel says it cost.

Job -> job.json -> python -m drivetrain.bench.train.peers.RIVAL -> answer.json -> Outcome
"""

import os
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from drivetrain.bench.process import Rival, kill, last_words, launch
from drivetrain.bench.train.job import Job, Outcome
from drivetrain.core.errors import RunError

Answer = TypeVar("Answer")


def run_rival(rival: Rival, job: Job, *, timeout_s: float | None = None) -> Outcome:
    """Run one job in a fresh process, in an empty folder that is removed afterwards.

    Args:
        rival: Who.
        job: What it trains.
        timeout_s: Seconds that it may take; None: half an hour, or a tenth of a second for each step, if that is more.

    Raises:
        RunError: The process failed or took longer than `timeout_s`; ends with its last line.
    """
    timeout_s = max(1_800.0, 0.1 * job.total_steps) if timeout_s is None else timeout_s
    load = os.getloadavg()[0]
    outcome, process_cpu_s = answer_of(rival, job.save, Outcome.load, timeout_s=timeout_s, threads=job.threads)
    return replace(outcome, process_cpu_s=process_cpu_s, details={**outcome.details, "load_1min_before": load})


def answer_of(
    rival: Rival,
    save: Callable[[Path], None],
    load: Callable[[Path], Answer],
    *,
    timeout_s: float,
    threads: int | None = 1,
) -> tuple[Answer, float]:
    """What a rival answers in a fresh process to a job that `save` writes, and the CPU-seconds of that.

    Raises:
        RunError: The process failed or took longer than `timeout_s`; ends with its last line.
    """
    with tempfile.TemporaryDirectory(prefix="drivetrain-bench-") as name:
        folder = Path(name)
        job_path, answer_path = folder / "job.json", folder / "answer.json"
        save(job_path)
        process = launch(rival, [str(job_path), str(answer_path)], folder=folder, threads=threads)
        cpu_s = wait(process, rival, timeout_s)
        if process.returncode != 0 or not answer_path.exists():
            raise RunError(f"{rival.name} ended with code {process.returncode}: {last_words(folder)}")
        return load(answer_path), cpu_s


def wait(process: subprocess.Popen[bytes], rival: Rival, timeout_s: float) -> float:
    """Wait for a rival's end; CPU-seconds of its whole life, with the children it waited for."""
    before = os.times()
    try:
        process.wait(timeout_s)
    except BaseException as error:
        kill(process)  # its actors too
        if isinstance(error, subprocess.TimeoutExpired):
            raise RunError(f"{rival.name} took longer than {timeout_s:.0f} s") from None
        raise
    after = os.times()
    return (after.children_user - before.children_user) + (after.children_system - before.children_system)
