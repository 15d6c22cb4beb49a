"""Output that cannot be written, as nobody reads it any more or the disk is full, is told by the exit code."""

import os
import subprocess
import sys

import pytest

from drivetrain.cli.main import OUTPUT_CLOSED

NO_ROOM = ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh"]
"""What is behind it can write into no file."""


def command(arguments, behind=(), **options):
    """One whose output Python collects, as it does where a file or a pipe takes it, and which leaves no files."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    words = [*behind, sys.executable, "-m", "drivetrain", *arguments]
    return subprocess.run(words, env=environment, check=False, **options)


@pytest.fixture
def nobody():
    """A pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as gone:
        yield gone


def test_output_for_which_there_is_no_room_is_one_sentence(tmp_path):
    with (tmp_path / "output").open("wb") as full:
        done = command(["--help"], NO_ROOM, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 2
    assert done.stderr.startswith(b"drivetrain: error: File too large: ")
    assert done.stderr.count(b"\n") == 1


def test_help_that_nobody_reads_ends_as_any_other_output_does(nobody):
    done = command(["bench", "learners", "--help"], stdout=nobody, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (OUTPUT_CLOSED, b"")


def test_a_mistake_of_which_nobody_reads_has_its_exit_code(nobody):
    assert command(["nonsense"], stdout=subprocess.PIPE, stderr=nobody).returncode == 2
