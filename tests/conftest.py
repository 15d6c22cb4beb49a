"""What tests of every part use."""

import gc
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import pytest
from hypothesis import settings

# The same examples in every run, so that who changed nothing sees nothing fail; `explore` looks for new ones.
settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


def pytest_configure(config: pytest.Config) -> None:
    """Give what tests compile a cache of the session: one for all workers, and for the processes that they start.

    So no session finds what another has left, and each program and each kernel is compiled once. JAX optimises its
    programs little, by a setting of its own: the updates of SAC and PPO are compiled in 0.7 of the time. XLA writes
    them as it did before it had emitters for fusions, in 0.6 of what is left; XLA ends a process that names an option
    which it does not know, so only those are told that have been seen to know it. Slow tests see what users run, and so
    do those that ask for `xla_as_users_have_it`.

    Where there is a GPU, tests that are not marked `gpu` leave it alone.
    """
    if os.path.exists("/dev/nvidiactl"):
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # or JAX would leave no memory for others
        if "gpu" not in config.option.markexpr.replace("not gpu", ""):
            os.environ.setdefault("JAX_PLATFORMS", "cpu")
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # in the background, and so in all that tests start
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if "PYTEST_XDIST_WORKER" not in os.environ:
        folder = tempfile.TemporaryDirectory(prefix="drivetrain-tests-", ignore_cleanup_errors=True)
        config.add_cleanup(folder.cleanup)
        os.environ["XDG_CACHE_HOME"] = folder.name
        if "not slow" in config.option.markexpr:
            os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
            if find_spec("jaxlib") and version("jaxlib").startswith("0.10."):
                os.environ.setdefault("XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false")


@pytest.fixture(scope="module", autouse=True)
def what_stays_is_not_looked_at_again() -> Iterator[None]:
    """Nearly all that a module leaves in the memory, compiled programs above all, stays to the end of the session."""
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def numbers_stay_what_they_are() -> Iterator[None]:
    """What computes alone in its process may round denormals to zero; this process has other tests."""
    before = sys.float_info.min / 2
    yield
    assert sys.float_info.min / 2 == before, "a test of this module leaves this thread rounding denormals to zero"


FullDisk = Callable[[int], AbstractContextManager[None]]


@contextmanager
def _files_limited(nbytes: int) -> Iterator[None]:
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.fixture
def full_disk() -> FullDisk:
    """`with full_disk(nbytes):` this process can make no file longer than that; to it that is a full disk."""
    return _files_limited


@pytest.fixture
def many_open_files() -> Iterator[None]:
    """This process has more files open than the 1,024 that `select` can tell apart."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limits[1] != resource.RLIM_INFINITY and limits[1] < 1_500:
        pytest.skip(f"this system allows {limits[1]:,} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], 1_500), limits[1]))
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1_100)]
    yield
    for fd in files:
        os.close(fd)
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@contextmanager
def handled(signum: int, handler: Any) -> Iterator[None]:
    """A signal goes to a handler inside the block."""
    before = signal.signal(signum, handler)
    try:
        yield
    finally:
        signal.signal(signum, before)


@pytest.fixture
def pythons_own_interrupts() -> Iterator[None]:
    """Ctrl-C goes to Python's own handler, which is not there where the tests run in the background."""
    with handled(signal.SIGINT, signal.default_int_handler):
        yield


@pytest.fixture
def usual_hangups() -> Iterator[None]:
    """SIGHUP is not ignored, as it is where the tests run under nohup."""
    with handled(signal.SIGHUP, signal.SIG_DFL):
        yield


@pytest.fixture
def ignored_ends() -> Iterator[None]:
    """SIGCHLD is ignored, as by programs that want no zombies."""
    with handled(signal.SIGCHLD, signal.SIG_IGN):
        yield


@pytest.fixture(scope="session")
def kept_programs() -> None:
    """JAX in this process looks programs up in the cache of the session, and keeps there what it compiles."""
    from jax.experimental.compilation_cache import compilation_cache

    from drivetrain.train.learner.compilation import use_compilation_cache

    use_compilation_cache()
    compilation_cache.reset_cache()  # what was compiled while tests were collected has decided against a cache
