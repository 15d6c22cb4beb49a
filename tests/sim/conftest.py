import pytest

from drivetrain.sim import compiler
from drivetrain.sim.engines.native import compilation


@pytest.fixture(scope="session", autouse=True)
def _kept(kept_programs):
    """Many tests compile the same rollouts."""


@pytest.fixture(scope="session", autouse=True)
def _traced():
    """Tests that look at what was traced find it also on slow machines; those of recalling switch it on."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(compiler, "KEPT", ())
        yield


@pytest.fixture
def compiled_as_large_ones(monkeypatch):
    """Kernels are compiled at the effort of large ones, in half the time; those of whole environments are not."""
    monkeypatch.setattr(compilation, "LARGE", 0)
