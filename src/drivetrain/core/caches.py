"""Where what can be made again is kept between processes: compiled code, measured costs."""

import os
from pathlib import Path

from drivetrain.core.errors import InvalidInput


def user_cache(name: str) -> Path:
    """A file or folder of ours in the user's cache folder, which XDG_CACHE_HOME may choose; it may not exist yet.

    Raises:
        InvalidInput: The user has no folder that is known.
    """
    try:
        folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError as error:
        raise InvalidInput(
            f"expected a home folder to keep compiled programs in, and there is none: HOME is not set, and the user id "
            f"{os.getuid()} has no entry among the users of this machine; set HOME, or XDG_CACHE_HOME"
        ) from error
    return Path(folder) / "drivetrain" / name


def kernel_cache() -> Path:
    """Where compiled simulators are kept: DRIVETRAIN_CACHE, or drivetrain/kernels in the user's cache folder."""
    chosen = os.environ.get("DRIVETRAIN_CACHE")
    return Path(chosen) if chosen else user_cache("kernels")
