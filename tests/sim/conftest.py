import os

import pytest

from drivetrain.sim import compiler


@pytest.fixture(scope="session", autouse=True)
def kernels_of_this_session(tmp_path_factory):
    """Kernels go to a folder of the session, so that no test finds what another run has compiled."""
    before = os.environ.get("DRIVETRAIN_CACHE")
    os.environ["DRIVETRAIN_CACHE"] = str(tmp_path_factory.mktemp("kernels"))
    yield
    if before is None:
        del os.environ["DRIVETRAIN_CACHE"]
    else:
        os.environ["DRIVETRAIN_CACHE"] = before


@pytest.fixture
def without_recalling(monkeypatch):
    """For hundreds of programs that are compiled once each: what nobody looks for is not kept."""
    monkeypatch.setattr(compiler, "KEPT", ())
