"""The corrected time of a program against blocks of the same run that the correction has not seen.

    one of three rounds of blocks  -> costs, as reports have them -> time of the other recorded blocks, corrected
    the other two                  -> what recording really added -> their time alone: the truth, with an error

Of rounds in which every second block is muted, a third tells the correction about as much as all rounds do in which one
of ten is. The truth is known better than that, and so can judge the interval. Both sides are CPU time of the program's
main thread: it is the work that recording adds to, and other programs of a shared machine are hardly in it.
"""

from dataclasses import dataclass

import numpy as np

from drivetrain.core.errors import RunError
from drivetrain.scope.calibration import costs, regression
from drivetrain.scope.calibration.unseen import unseen as unseen_in
from drivetrain.scope.profile import Profile
from drivetrain.scope.trace.blocks import Blocks
from drivetrain.scope.trace.events import INSTRUMENTS

TWO_SIDED_95 = 1.96
SEEN_EVERY = 3
"""One of so many rounds is seen by the correction."""


class TooFewBlocks(RunError):
    """A run ended before its blocks could tell anything."""


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """What came out; times relative to the time alone of recorded blocks that the correction has not seen.

    Attributes:
        inflation: Their time as recorded.
        bias: Their corrected time, less 1.
        half_width: Of the interval that the correction states.
        error: Half of the interval that the truth lies in: noise of the machine and the program.
        disabled: What muted instruments still cost, as measured alone; in the correction, and not in the truth.
        num_blocks: Blocks of the thread, and ...
        num_muted: ... those in which nothing recorded.
        num_spans: Spans in recorded blocks that the correction has not seen.
        span_ns: What one costs by all blocks.
    """

    inflation: float
    bias: float
    half_width: float
    error: float
    disabled: float
    num_blocks: int
    num_muted: int
    num_spans: int
    span_ns: float


def held_out(profile: Profile, pid: int) -> HeldOut:
    """Compare, in the main thread of a process.

    Raises:
        RunError: The process is not in the recording.
        TooFewBlocks: Too few of its blocks are.
    """
    trace = profile.trace
    index = main_thread(profile, pid)
    every = profile.correction.blocks
    seen = [blocks.where(blocks.round % SEEN_EVERY == 0) for blocks in every]
    unseen = every[index].where(every[index].round % SEEN_EVERY != 0)
    truth = regression.estimate(unseen)
    if all(one is None for one in truth):
        raise TooFewBlocks(
            f"process {pid}: {len(every[index])} blocks are too few to hold some out; let the program run longer"
        )
    process = trace.threads[index].process
    believed, beside = costs.known(trace, seen)[process], unseen_in(trace, seen)[process]
    return _compared(unseen, truth, believed, beside.se, every[index])


def main_thread(profile: Profile, pid: int) -> int:
    """Which of the trace's threads is the first of a process.

    Raises:
        RunError: The process is not in the recording.
    """
    index = next((i for i, thread in enumerate(profile.trace.threads) if thread.tid == pid), None)
    if index is None:
        raise RunError(f"process {pid} of the program is not in its recording")
    return index


def _compared(
    unseen: Blocks,
    truth: list[regression.Estimate | None],
    believed: list[costs.Cost | None],
    beside: float,
    every: Blocks,
) -> HeldOut:
    recorded = unseen.where(unseen.mask == 0)
    total_ns, spans = float(recorded.cpu_ns.sum()), recorded.spans.sum(axis=0).astype(float)
    known = [i for i in range(len(INSTRUMENTS)) if truth[i] is not None and believed[i] is not None]
    added = error = corrected = stated = disabled = 0.0
    for i in known:
        one, cost = truth[i], believed[i]
        assert one is not None
        assert cost is not None
        added += one.ns * spans[i]
        error += (one.se_ns * spans[i]) ** 2
        corrected += cost.recorded_ns * spans[i]
        stated += (cost.recorded_se_ns * spans[i]) ** 2
        disabled += cost.disabled_ns * spans[i]
    alone = total_ns - added
    stated += (beside * total_ns) ** 2
    of_all = [one for one in regression.estimate(every) if one is not None]
    # Python's own numbers, which a report can be written of.
    return HeldOut(
        inflation=float(total_ns / alone),
        bias=float((total_ns - corrected) / alone - 1),
        half_width=float(TWO_SIDED_95 * np.sqrt(stated) / alone),
        error=float(TWO_SIDED_95 * np.sqrt(error) / alone),
        disabled=float(disabled / alone),
        num_blocks=len(every),
        num_muted=int(every.all_muted.sum()),
        num_spans=int(spans.sum()),
        span_ns=float(of_all[0].ns) if of_all else float("nan"),
    )
