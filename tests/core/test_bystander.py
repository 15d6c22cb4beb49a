"""Whether a signal came to the whole group: the witness says what it was told of, and nothing else."""

import os
import signal
import time

from drivetrain.core.bystander import Bystander

SIGNUMS = (signal.SIGUSR1, signal.SIGUSR2)


def test_what_the_witness_was_told_of_is_known_whatever_the_number_of_open_files(many_open_files):
    with Bystander(SIGNUMS) as bystander:
        witness = bystander._process.pid
        deadline = time.monotonic() + 60
        while True:  # a busy machine may take longer to start it than it is waited for
            os.kill(witness, signal.SIGUSR1)
            if bystander.was_told_of(signal.SIGUSR1):
                break
            assert time.monotonic() < deadline, "the witness says nothing"
        assert not bystander.was_told_of(signal.SIGUSR2)
    assert bystander._process.returncode == 0


def test_a_witness_that_somebody_has_killed_was_told_of_nothing():
    with Bystander(SIGNUMS) as bystander:
        bystander._process.kill()
        bystander._process.wait()
        assert not bystander.was_told_of(signal.SIGUSR1)
