"""What tests of recordings share; costs that they find are not those of the user's programs."""

import pytest

from drivetrain.core.caches import user_cache
from drivetrain.core.machine import num_cores


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """Sessions recall from, and remember into, a cache of the test's own; JAX's programs in it are the session's."""
    names = {f"jax-{threads}-threads" for threads in (1, num_cores())}
    shared = {name: user_cache(name) for name in names}
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("own-cache")))
    user_cache("").mkdir(parents=True)
    for name, folder in shared.items():
        folder.mkdir(parents=True, exist_ok=True)
        user_cache(name).symlink_to(folder, target_is_directory=True)


@pytest.fixture
def folder(tmp_path):
    """Of a recording that is yet to be made."""
    return tmp_path / "run.scope"
