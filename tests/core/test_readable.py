"""What is waited for may have any number."""

import os
import time

from drivetrain.core.readable import readable


def test_pipes_are_waited_for_whatever_their_numbers(many_open_files):
    pipes = [os.pipe() for _ in range(3)]
    quiet, written, ended = pipes
    assert min(quiet) > 1_023
    try:
        began_s = time.monotonic()
        assert readable([reading for reading, _ in pipes], 0.05) == []
        assert time.monotonic() - began_s >= 0.05
        os.write(written[1], b"x")
        os.close(ended[1])
        assert set(readable([reading for reading, _ in pipes])) == {written[0], ended[0]}
    finally:
        for fd in (*quiet, *written, ended[0]):
            os.close(fd)


def test_who_waits_for_nothing_waits_for_the_time_that_was_given():
    began_s = time.monotonic()
    assert readable([], 0.02) == []
    assert time.monotonic() - began_s >= 0.02
