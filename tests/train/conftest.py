"""What tests of training share: runs that do not outlive their test."""

import pytest
from whole_run import Run


@pytest.fixture(scope="session", autouse=True)
def _kept(kept_programs):
    """Many tests compile the same updates."""


@pytest.fixture
def start(tmp_path):
    """Starts whole runs in the folder `run`, and ends what is left of them."""
    runs = []

    def start_run(*flags, **options):
        runs.append(Run(tmp_path / "run", *flags, **options))
        return runs[-1]

    yield start_run
    for run in runs:
        if run.process.poll() is None:
            run.process.kill()
        run.process.communicate()
