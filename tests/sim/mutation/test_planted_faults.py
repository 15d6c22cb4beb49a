"""Faults planted in passes are caught by comparing what programs give before and after the passes."""

import functools

import pytest
from functions import FUNCTIONS
from mutants import MUTANTS, planted
from small_programs import assert_same_meaning, imported, random_program

from drivetrain.sim.ir.passes import pipeline


@functools.cache
def every_program():
    """Programs and arguments: of the functions above, and at random."""
    written = [(imported(function, *(x[0] for x in batches)), batches) for function, batches in FUNCTIONS]
    return written + [random_program(seed, size=40) for seed in range(4)]


def is_caught():
    """Whether a program changes its meaning, or cannot be rewritten at all."""
    for block, arguments in every_program():
        try:
            assert_same_meaning(block, pipeline.vectorizable(pipeline.simplified(block)), *arguments)
        except Exception:
            return True
    return False


@pytest.mark.slow  # every program for each of the faults
def test_every_fault_of_a_pass_is_caught():
    assert not is_caught()
    survivors: list[str] = []
    for mutant in MUTANTS:
        with planted(mutant):
            if not is_caught():
                survivors.append(mutant.name)
    assert not survivors
