"""What tests of training share: compiled code of the session, and runs that do not outlive their test."""

import pytest
from whole_run import Run


@pytest.fixture(autouse=True)
def _cache(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "jax"))


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
