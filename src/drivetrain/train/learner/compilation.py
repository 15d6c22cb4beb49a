"""Where compiled updates are kept, for the process that learns, before its first computation."""

# JAX annotates parts of its interface only:
# pyright: reportUnknownMemberType=false

import contextlib
import math
import os
import threading
import zlib
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import jax
from jax.experimental.compilation_cache import compilation_cache

from drivetrain.core.caches import user_cache
from drivetrain.core.machine import num_cores

_FOLDER = "jax_compilation_cache_dir"
_SETTINGS = (_FOLDER, "jax_persistent_cache_min_compile_time_secs", "jax_persistent_cache_min_entry_size_bytes")
_ZSTANDARD = bytes.fromhex("28b52ffd")
_lock = threading.Lock()
_before: list[dict[str, Any]] = []  # what JAX had before the first of the blocks that are open, once for each


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
    folder = user_cache(f"jax-{threads}-threads")
    with contextlib.suppress(OSError):  # JAX says that it cannot be used
        _remove_unfinished(folder)
    _set(zip(_SETTINGS, (str(folder), 0.0, -1), strict=True))


def _remove_unfinished(folder: Path) -> None:
    """Remove what a process that was killed, or a full disk, has left half-written since this was last asked.

    JAX cannot read such a program, says so in each run that needs it, compiles it, and keeps the half that is there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    asked = folder / "checked"
    before = asked.stat().st_mtime if asked.exists() else math.inf
    asked.touch()
    for entry in os.scandir(folder):
        if entry.name.endswith("-cache") and entry.stat().st_mtime >= before and _is_cut_off(Path(entry.path)):
            Path(entry.path).unlink(missing_ok=True)


def _is_cut_off(path: Path) -> bool:
    """Whether it is the beginning of a program; where JAX has packed it by Zstandard, nobody here can tell."""
    packed = path.read_bytes()
    if packed.startswith(_ZSTANDARD):
        return False
    reader = zlib.decompressobj()
    try:
        reader.decompress(packed)
    except zlib.error:
        return True
    return not reader.eof


@contextlib.contextmanager
def using_compilation_cache() -> Generator[None]:
    """Likewise inside the block; afterwards JAX keeps what it compiles where the caller has it do so.

    Of blocks that overlap, in threads, the first to begin and the last to end do that.
    """
    with _lock:
        before = _before[0] if _before else _settings()
        use_compilation_cache()  # within another block they are set
        _before.append(before)  # not where there is no folder: this block does not begin then
    try:
        yield
    finally:
        with _lock:
            before = _before.pop()
            if not _before and _settings() != before:
                _set(before.items())
                compilation_cache.reset_cache()  # else JAX goes on with the folder that it has opened


def _settings() -> dict[str, Any]:
    return {name: getattr(jax.config, name) for name in _SETTINGS}


def _set(settings: Iterable[tuple[str, Any]]) -> None:
    for name, value in settings:
        jax.config.update(name, value)
