"""Where compiled updates are kept, for the process that learns, before its first computation."""

# JAX annotates parts of its interface only:
# pyright: reportUnknownMemberType=false

import contextlib
import os
from collections.abc import Generator, Iterable
from typing import Any

import jax
from jax.experimental.compilation_cache import compilation_cache

from drivetrain.core.caches import user_cache
from drivetrain.core.machine import num_cores

_FOLDER = "jax_compilation_cache_dir"
_SETTINGS = (_FOLDER, "jax_persistent_cache_min_compile_time_secs", "jax_persistent_cache_min_entry_size_bytes")


def use_compilation_cache() -> None:
    """Keep compiled updates in the user's cache folder, so that the next run starts faster.

    One folder per number of threads: XLA compiles for the threads it will have, but leaves that
    number out of the key under which it looks a program up. An update compiled for two threads
    took 1.4 times as long on one.

    Does nothing where the user has chosen a folder, by JAX_COMPILATION_CACHE_DIR or jax.config.
    """
    if _settings()[_FOLDER] is not None:
        return
    threads = os.environ.get("PJRT_NPROC") or num_cores()
    _set(zip(_SETTINGS, (str(user_cache(f"jax-{threads}-threads")), 0.0, -1), strict=True))


@contextlib.contextmanager
def using_compilation_cache() -> Generator[None]:
    """Likewise inside the block; afterwards JAX keeps what it compiles where the caller has it do so."""
    before = _settings()
    use_compilation_cache()
    try:
        yield
    finally:
        if _settings() != before:
            _set(before.items())
            compilation_cache.reset_cache()  # else JAX goes on with the folder that it has opened


def _settings() -> dict[str, Any]:
    return {name: getattr(jax.config, name) for name in _SETTINGS}


def _set(settings: Iterable[tuple[str, Any]]) -> None:
    for name, value in settings:
        jax.config.update(name, value)
