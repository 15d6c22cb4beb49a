"""Sessions that keep sums in place of events: the same space after a minute and after a week.

    create -> join, in each process -> leave -> end        RUN's time/0: session.json, *.json, *.sites, *.totals

What is lost is when something was, and what went on at the same time. The trainer records itself so.
"""

import os
import sys
from pathlib import Path

from drivetrain.scope import _native
from drivetrain.scope.format import TOTALS
from drivetrain.scope.process import enter, goes_by, leave
from drivetrain.scope.session import LIMIT_NBYTES, begin
from drivetrain.scope.sites import AROUND_CALIBRATION, CALIBRATION, table

_NUM_EMPTY_SPANS = 1000


def create(path: Path) -> None:
    """Make the folder of a session that begins now.

    Raises:
        InvalidInput: The folder exists and is not empty, or is none.
        OSError: It cannot be made or written, as the error says.
    """
    begin(path, sys.argv, {"keeps": TOTALS})


def join(path: Path, *, name: str, limit_nbytes: int = LIMIT_NBYTES) -> None:
    """Let this process keep its sums in the folder of a session; `process.leave` ends that.

    Args:
        path: The folder.
        name: What reports call this process.
        limit_nbytes: Disk space for all processes together; that of the first to join holds.

    Raises:
        InvalidInput: This process records already.
        OSError: The folder cannot be written; nothing is recorded.
    """
    folder = enter(path, name=name)
    try:
        _native.start_totals(os.fsencode(folder), limit_nbytes, goes_by())
        empty = _native.Span(table.number(CALIBRATION))
        with _native.Span(table.number(AROUND_CALIBRATION)):
            for _ in range(_NUM_EMPTY_SPANS):
                with empty:
                    pass
    except BaseException:  # Ctrl-C, too: nobody would end what is begun here
        leave(path)
        raise
