import functools
import os
from types import SimpleNamespace

import jax
import pytest

from drivetrain.sim import compiler
from drivetrain.sim.engines import xla
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


@pytest.fixture
def xla_as_users_have_it(monkeypatch):
    """Rollouts of the engine "xla" are compiled by XLA's emitters for fusions, which tests do without.

    Without them, XLA of jaxlib 0.10.2 rounds otherwise, and takes places of 8 unsigned bits for signed ones.
    """
    if "--xla_cpu_use_fusion_emitters=false" not in os.environ.get("XLA_FLAGS", ""):
        return  # a jaxlib that is not told of it, and may not know it; see tests/conftest.py
    jit = functools.partial(jax.jit, compiler_options={"xla_cpu_use_fusion_emitters": True})
    monkeypatch.setattr(xla, "jax", SimpleNamespace(**{**vars(jax), "jit": jit}))
