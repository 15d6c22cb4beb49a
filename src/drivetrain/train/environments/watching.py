"""For how long calls of environments go on, by whoever watches them."""

import time
from collections.abc import Callable

MOST_WATCHED_S = 1.0
"""Of the time between two looks, which lie a tenth of that apart."""
_SAME_CALL_S = 0.05  # by which the begin of the same call may seem to differ from look to look


class WatchClock:
    """For how long calls have been seen to go on: time in which nobody watched is no time of theirs.

    A job that is suspended, as by a scheduler or `docker pause`, is so with its environments.

    Args:
        now_s: The clock.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._looked_s = now_s()
        self._watched_s = 0.0
        self._begun: dict[int, tuple[float, float]] = {}  # when the present call began, by the clock and as watched

    def look(self) -> None:
        """Watch; to be called often."""
        before, self._looked_s = self._looked_s, self._now_s()
        self._watched_s += min(self._looked_s - before, MOST_WATCHED_S)

    def watched_s(self, place: int, working_s: float) -> float:
        """Seconds of a call that have been watched.

        Args:
            place: Whose call it is.
            working_s: Since when it goes on by the clock; 0: there is none.
        """
        if not working_s:
            return 0.0
        began_s = self._now_s() - working_s  # not by the last look: ending another may have taken its time since
        known = self._begun.get(place)
        if known is None or abs(known[0] - began_s) > _SAME_CALL_S:
            known = self._begun[place] = (began_s, self._watched_s - min(working_s, MOST_WATCHED_S))
        return self._watched_s - known[1]
