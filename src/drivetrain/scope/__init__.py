"""scope: where the time of a reinforcement-learning program goes, by operation and class of time.

    session -> operation, phase, mark_step -> events on disk -> load -> breakdown, overhead, reports

Recording needs the standard library alone; analysis needs NumPy. Imports no framework.
"""

import os
from typing import TYPE_CHECKING

from drivetrain.scope._native import mark_step
from drivetrain.scope.session import session
from drivetrain.scope.spans import operation, phase

if TYPE_CHECKING:
    from drivetrain.scope.profile import Profile


def load(path: str | os.PathLike[str]) -> "Profile":
    """Read what a session recorded, also while it runs and after it was killed.

    Args:
        path: The folder of the session.

    Raises:
        InvalidInput: It is no path.
        FileFormatError: There is no session of this version.
        MissingExtra: It was packed, and PyArrow is not installed.
    """
    from drivetrain.scope.profile import Profile  # NumPy, which recording does without

    return Profile.load(path)


def pack(path: str | os.PathLike[str]) -> None:
    """Replace what a finished session recorded by one Parquet file, at a few bytes per event; `load` reads both.

    Needs the extra `scope` (PyArrow).

    Args:
        path: The folder of the session.

    Raises:
        InvalidInput: It is no path, or the session has not ended.
        FileFormatError: There is no session of this version.
        MissingExtra: PyArrow is not installed.
    """
    from drivetrain.scope.trace import folder

    folder.pack(path)


__all__ = ["load", "mark_step", "operation", "pack", "phase", "session"]
