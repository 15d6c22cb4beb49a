"""Sets of times: intervals that may overlap, and their union."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class Intervals(NamedTuple):
    """From `begin` to `end` each, in nanoseconds."""

    begin: Ints
    end: Ints

    def union(self) -> "Intervals":
        """The same times by intervals that are in order, do not touch, and are not empty."""
        there = self.end > self.begin
        begin, end = self.begin[there], self.end[there]
        order = np.argsort(begin, kind="stable")
        begin, until = begin[order], np.maximum.accumulate(end[order])
        first = np.ones(len(begin), np.bool_)
        first[1:] = begin[1:] > until[:-1]
        last = np.append(first[1:], np.ones(min(len(begin), 1), np.bool_))
        return Intervals(begin[first], until[last])

    def within(self, first_ns: int, last_ns: int) -> "Intervals":
        """What of them lies between two times; those outside become empty."""
        return Intervals(np.clip(self.begin, first_ns, last_ns), np.clip(self.end, first_ns, last_ns))

    def between(self, edges: Ints) -> Ints:
        """How much of each interval between edges they cover; they have to be a union."""
        return np.diff(self.before(edges))

    def before(self, times_ns: Ints) -> Ints:
        """How much they cover from their first begin to each time; they have to be a union."""
        whole = np.concatenate([[0], np.cumsum(self.end - self.begin)])
        begun = np.searchsorted(self.begin, times_ns, side="right")
        # Of the last that has begun, what lies behind the time is not before it.
        behind = np.maximum(np.concatenate([[np.iinfo(np.int64).min], self.end])[begun], times_ns) - times_ns
        return whole[begun] - behind

    def contain(self, times_ns: Ints) -> NDArray[np.bool_]:
        """Which times lie in one of them; they have to be a union."""
        at = np.searchsorted(self.begin, times_ns, side="right") - 1
        return (at >= 0) & (times_ns < np.append(self.end, 0)[at])

    @property
    def sum_ns(self) -> int:
        """Their lengths together; what overlaps counts each time."""
        return int((self.end - self.begin).sum())

    @property
    def covered_ns(self) -> int:
        """The length of their union."""
        return self.union().sum_ns


def one_after_another(begin: Ints, end: Ints) -> Intervals:
    """Intervals in order of their begin, each cut where those before it have not ended: what a single track shows."""
    order = np.argsort(begin, kind="stable")
    begin, end = begin[order], end[order]
    until = np.maximum.accumulate(np.maximum(begin, end))
    free = np.concatenate([begin[:1], np.maximum(begin[1:], until[:-1])])
    found = Intervals(np.empty_like(begin), np.empty_like(end))
    found.begin[order], found.end[order] = free, np.maximum(free, end)
    return found
