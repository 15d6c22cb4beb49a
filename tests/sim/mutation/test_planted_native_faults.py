"""Faults planted in the generation of C++ are caught by comparing what kernels give with what their programs mean."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from mutants import planted
from native_mutants import MUTANTS, SURVIVORS

CHECKS = Path(__file__).with_name("native_checks.py")


def test_every_fault_has_a_place_in_the_source():
    for mutant in MUTANTS:
        with planted(mutant):
            pass
    assert set(SURVIVORS) <= {mutant.name for mutant in MUTANTS}


@pytest.mark.slow  # a kernel or more for each of a hundred faults
@pytest.mark.timeout(3600)
def test_every_fault_is_caught_but_those_that_change_no_result():
    command = [sys.executable, "-W", "ignore", str(CHECKS), *map(str, range(len(MUTANTS)))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    caught = {int(number): by for number, by in (line.split("\t") for line in done.stdout.splitlines())}
    survivors = {MUTANTS[number].name for number, by in caught.items() if not by}
    assert survivors <= set(SURVIVORS), "\n".join(f"{MUTANTS[k].name}\t{by}" for k, by in sorted(caught.items()))
