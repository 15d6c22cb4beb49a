"""Where what can be made again is kept between processes: compiled code, measured costs."""

import os
from pathlib import Path


def user_cache(name: str) -> Path:
    """A file or folder of ours in the user's cache folder, which XDG_CACHE_HOME may choose; it may not exist yet."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "drivetrain" / name


def kernel_cache() -> Path:
    """Where compiled simulators are kept: DRIVETRAIN_CACHE, or drivetrain/kernels in the user's cache folder."""
    chosen = os.environ.get("DRIVETRAIN_CACHE")
    return Path(chosen) if chosen else user_cache("kernels")
