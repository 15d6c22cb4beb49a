"""The corrected time of a program that uses a GPU against blocks of its run that the correction has not seen.

As `bench/scope/held_out.py` has it for programs without one. Here a block may be without spans, without CUPTI, or
without both; recorded blocks are compared with those without both, whatever of the two made them slower.
"""

import numpy as np

from drivetrain.bench.scope.held_out import SEEN_EVERY, TWO_SIDED_95, HeldOut, TooFewBlocks, main_thread
from drivetrain.scope.calibration import costs, regression
from drivetrain.scope.calibration.device_costs import of_thread
from drivetrain.scope.calibration.unseen import unseen as unseen_in
from drivetrain.scope.profile import Profile
from drivetrain.scope.trace.blocks import Blocks
from drivetrain.scope.trace.events import INSTRUMENTS


def held_out(profile: Profile, pid: int) -> HeldOut:
    """Compare, in the main thread of a process.

    Raises:
        RunError: The process is not in the recording.
        TooFewBlocks: Too few of its blocks are, or they do not say what CUPTI costs.
    """
    trace, index = profile.trace, main_thread(profile, pid)
    every, made = profile.correction.blocks, profile.correction.calls
    assert made is not None  # GPUs were recorded
    seen = [blocks.where(blocks.round % SEEN_EVERY == 0) for blocks in every]
    unseen = every[index].where(every[index].round % SEEN_EVERY != 0)
    calls = [one.in_blocks(blocks) for one, blocks in zip(made, seen, strict=True)]
    truth, device = regression.slowdown(unseen), of_thread(seen[index], calls[index])
    if truth is None or device is None:
        raise TooFewBlocks(
            f"process {pid}: {len(every[index])} blocks are too few to hold some out; let the program run longer"
        )
    process = trace.threads[index].process
    known, beside = costs.known(trace, seen, calls)[process], unseen_in(trace, seen)[process]
    recorded = unseen.where(unseen.mask == 0)
    called = made[index].in_blocks(recorded)
    spans, num, total_ns = recorded.spans.sum(axis=0).astype(float), called.num.sum(axis=0), recorded.cpu_ns.sum()
    per_share_ns = _of_round_means(unseen)
    added = truth.ns * per_share_ns
    alone = total_ns - added
    own = [cost for cost in known if cost is not None]
    corrected = float(called.overhead_ns.sum() + num @ device.ns)
    corrected += sum(cost.recorded_ns * spans[INSTRUMENTS.index(cost.instrument)] for cost in own)
    stated = sum((cost.recorded_se_ns * spans[INSTRUMENTS.index(cost.instrument)]) ** 2 for cost in own)
    stated += float(np.sum((num @ device.errors) ** 2)) + (beside.se * total_ns) ** 2
    return HeldOut(
        inflation=float(total_ns / alone),
        bias=float((total_ns - corrected) / alone - 1),
        half_width=float(TWO_SIDED_95 * np.sqrt(stated) / alone),
        error=float(TWO_SIDED_95 * truth.se_ns * per_share_ns / alone),
        disabled=float(sum(cost.disabled_ns * spans[INSTRUMENTS.index(cost.instrument)] for cost in own) / alone),
        num_blocks=len(every[index]),
        num_muted=int(every[index].all_muted.sum()),
        num_spans=int(spans.sum()),
        span_ns=own[0].recorded_ns if own else 0.0,
    )


def _of_round_means(blocks: Blocks) -> float:
    """For each recorded block the mean of its round, together: `slowdown` is a share of these."""
    whole = blocks.where((blocks.mask == 0) | blocks.all_muted)
    _, rounds = np.unique(whole.round, return_inverse=True)
    means = np.bincount(rounds, whole.cpu_ns) / np.bincount(rounds)
    return float(means[rounds][whole.mask == 0].sum())
