"""Processes that go away with the bench that began them, also where that is killed.

VARIABLE in the environment -> a rival calls `end_with_bench` -> the kernel ends it with the bench

python -P -m drivetrain.bench.tied WORDS    for programs that do not: this process becomes `python WORDS`
"""

import os
import sys

from drivetrain.core.processes import die_with

VARIABLE = "DRIVETRAIN_BENCH_PID"
"""Of a process's environment: the bench that began it."""


def end_with_bench() -> None:
    """Have the kernel end this process when the bench does; without one, nothing happens."""
    pid = os.environ.get(VARIABLE)
    if pid is not None:
        die_with(int(pid))


if __name__ == "__main__":
    end_with_bench()  # what a process asked for, it has when it runs another program
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
