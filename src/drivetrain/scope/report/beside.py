"""Several runs side by side: the same operations and classes of each, in the order of the longest.

Times are summed over threads, as in the report of one run; a run of more steps takes longer, so they are also per step.
"""

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from drivetrain.core.errors import InvalidInput
from drivetrain.scope.profile import Profile, Row
from drivetrain.scope.report.shares import Share, is_of, shares
from drivetrain.scope.sites import UNRECORDED


@dataclass(frozen=True, eq=False)
class Run:
    """A run among others.

    Attributes:
        letter: What it is called in tables: A, B, ...
        name: What its folder is called.
        profile: What was recorded.
    """

    letter: str
    name: str
    profile: Profile

    @cached_property
    def shares(self) -> dict[tuple[str, str], Share]:
        """By operation and class."""
        return {(share.operation, share.time_class): share for share in shares(self.profile.breakdown())}

    def per_step_ns(self, share: Share) -> float | None:
        """Corrected time per step, or raw where none is known, as if all steps had been recorded; None where no steps
        are known, and of the time of those that were not recorded.
        """
        found = self._of_all_steps.get((share.operation, share.time_class))
        return None if found is None else self._per(self._num_steps, found.corrected_ns)

    def gpu_per_step_ns(self, ns: float) -> float | None:
        """Time of GPUs, or of calls to them, per step in which they were recorded; None where no steps are known."""
        return self._per(self._num_gpu_steps, ns)

    # Counted among all events, and asked for by every row.
    @cached_property
    def _num_steps(self) -> int:
        return self.profile.num_steps()

    @cached_property
    def _of_all_steps(self) -> dict[tuple[str, str], Share]:
        profile = self.profile
        names = profile.trace.process_names
        threads = ((names[thread.process], profile.thread_name(thread)) for thread in profile.trace.threads)
        times = dict(zip(threads, profile.extrapolation(), strict=True))
        rows = (_multiplied(row, times.get((row.process, row.thread), 1.0)) for row in profile.breakdown())
        return {(share.operation, share.time_class): share for share in shares(rows) if not is_of(UNRECORDED, share)}

    @cached_property
    def _num_gpu_steps(self) -> int:
        return self.profile.num_gpu_steps()

    @staticmethod
    def _per(steps: int, ns: float) -> float | None:
        return ns / steps if steps else None


def _multiplied(row: Row, by: float) -> Row:
    corrected = None if row.corrected_ns is None else by * row.corrected_ns
    return replace(row, raw_ns=round(by * row.raw_ns), corrected_ns=corrected)


def lettered(profiles: Mapping[str, Profile]) -> list[Run]:
    """Runs by name, with a letter each.

    Raises:
        InvalidInput: More than there are letters.
    """
    if len(profiles) > len(string.ascii_uppercase):
        raise InvalidInput(f"report: expected at most {len(string.ascii_uppercase)} runs, got {len(profiles)}")
    return [Run(*item) for item in zip(string.ascii_uppercase, profiles, profiles.values(), strict=False)]


def keys(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """Operation and class of everything that some run has, the longest first."""
    longest: dict[tuple[str, str], float] = {}
    for run in runs:
        for key, share in run.shares.items():
            longest[key] = max(longest.get(key, 0.0), share.raw_ns)
    return sorted(longest, key=lambda key: -longest[key])


def ratio(run: Run, first: Run, key: tuple[str, str]) -> float | None:
    """Corrected time against that of the first run: per step where both know steps, else the whole.

    None where one of them has nothing there that is told from recording, and of the time that was not recorded.
    """
    mine, other = run.shares.get(key), first.shares.get(key)
    if mine is None or other is None or is_of(UNRECORDED, mine):
        return None
    whole = mine.corrected_ns, other.corrected_ns
    return ratio_of((run.per_step_ns(mine), first.per_step_ns(other)), whole)


def ratio_of(per_step: tuple[float | None, float | None], whole: tuple[float, float]) -> float | None:
    """The first over the second: per step where both are known, else as a whole; None where one is not above 0."""
    of_steps, to_steps = per_step
    top, bottom = whole if of_steps is None or to_steps is None else (of_steps, to_steps)
    return top / bottom if min(top, bottom) > 0 else None
