"""What recording GPUs costs a call, from blocks of steps in which it was switched off.

    CPU time of a block - what CUPTI says that it took - time in calls that wait, if they spin
        = round + steps x work + spans x work + waiting calls x work + recorded calls x cost + noise

Of blocks without recording it is not known how many calls they made, so calls are not what is regressed on: their
number is first predicted from the steps and spans of a block, which are known of all. What is random in it cannot be
mistaken for a cost then (two-stage least squares, the switch being the instrument; Theil 1953).

Calls that wait for a device are recorded in all blocks, so that recording them is no cost that blocks could tell, and
none is taken. They spin or sleep, as the program set it; which, the CPU times of all blocks tell. The share is not
fitted freely, because a block that is slower for other reasons waits less, and that would come out as a cost.

Kinds of calls that always occur in the same proportion cannot be told apart, and have one cost together.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from drivetrain.scope.calibration.device_calls import KINDS, WAIT, CallsInBlocks, Floats
from drivetrain.scope.calibration.regression import LEAST_MUTED, LEAST_SHARE, Fit, covariates, fit, student
from drivetrain.scope.trace.blocks import Blocks

MEASURED = tuple(kind for kind in range(len(KINDS)) if kind != WAIT)
_LEAST_APART = 2.0
"""A kind's standard error may be so many times that of all calls together, or half of their cost, if more."""

_SPINS = 0.5
"""Of the time that calls wait: more CPU time than that is spinning."""


@dataclass(frozen=True, kw_only=True, eq=False)
class DeviceCost:
    """Nanoseconds that recording adds to a call in one process, beyond what the recorder says that it took."""

    ns: Floats
    """[kinds]."""
    errors: Floats
    """[kinds, independent]: in each column what they all are off by if one independent error is one standard error."""
    groups: tuple[tuple[int, ...], ...]
    """Kinds that have one cost together."""
    first_ns: int
    last_ns: int
    """Begin of the first block, end of the last: what the recorder says in between is part of what was fitted."""
    num_blocks: int
    num_muted: int
    num: Floats
    """[kinds]: calls in the blocks that were recorded ..."""
    own_ns: Floats
    """... and what the recorder says that it took of them ..."""
    overhead_ns: float
    """... and of the thread."""

    @property
    def se_ns(self) -> Floats:
        """[kinds]."""
        return np.sqrt((self.errors**2).sum(axis=1))

    @property
    def per_call_ns(self) -> Floats:
        """All that recording takes of a call, [kinds]; the recorder's own word on average."""
        return self.ns + self.own_ns / np.maximum(self.num, 1.0)

    @property
    def calibrated_ns(self) -> float:
        """All that recording took of the thread in the recorded blocks."""
        return self.overhead_ns + float(self.num @ self.ns)

    @property
    def calibrated_se_ns(self) -> float:
        """Its standard error."""
        return float(np.linalg.norm(self.num @ self.errors))


def of_thread(blocks: Blocks, calls: CallsInBlocks) -> DeviceCost | None:
    """What one thread's blocks say; None where they do not tell."""
    off = blocks.gpu_muted
    if off.sum() < LEAST_MUTED or not calls.num[~off][:, MEASURED].any():
        return None
    expected = expected_calls(blocks, calls)
    known_ns = known_of_devices(blocks, calls)
    together = _fitted(blocks, calls, expected, (MEASURED,), known_ns)
    if not together.identified.all():
        return None
    most = max(_LEAST_APART * together.se_ns[0], abs(together.ns[0]) / 2)
    groups, found = _joined(calls.num[~off].sum(axis=0)), together
    while len(groups) > 1:
        found = _fitted(blocks, calls, expected, groups, known_ns)
        se_ns = np.where(found.identified, found.se_ns, np.inf)
        if se_ns.max() <= most:
            break
        groups = _with_largest(groups, int(se_ns.argmax()), calls.num[~off].sum(axis=0))
    else:
        found, groups = together, (MEASURED,)
    return _cost(blocks, calls, groups, found)


def expected_calls(blocks: Blocks, calls: CallsInBlocks) -> Floats:
    """Recorded calls as steps, spans and the round let them be expected, [blocks, kinds]; none where switched off."""
    on = ~blocks.gpu_muted
    _, rounds = np.unique(blocks.round, return_inverse=True)
    known = np.concatenate([blocks.steps, blocks.spans], axis=1).astype(np.float64)
    num_on = np.maximum(np.bincount(rounds, on), 1.0)

    def mean_where_on(columns: Floats) -> Floats:
        sums = [np.bincount(rounds, np.where(on, column, 0.0)) for column in columns.T]
        return (np.stack(sums, axis=1) / num_on[:, None])[rounds]

    deviations = (known - mean_where_on(known))[on], (calls.num - mean_where_on(calls.num))[on]
    per_known, *_ = np.linalg.lstsq(*deviations, rcond=None)  # the default since NumPy 2.0
    predicted = known @ per_known
    return np.where(on[:, None], predicted + mean_where_on(calls.num - predicted), 0.0)


def known_of_devices(blocks: Blocks, calls: CallsInBlocks) -> Floats:
    """What of each block's CPU time is known to be CUPTI's, or waiting for a device, [blocks]."""
    own_ns = calls.overhead_ns.astype(np.float64)
    if not calls.wait_ns.any():
        return own_ns
    around = np.concatenate([expected_calls(blocks, calls), covariates(blocks, calls)], axis=1)
    share = fit(blocks, calls.wait_ns[:, None].astype(np.float64), around, blocks.cpu_ns - own_ns)
    return own_ns + calls.wait_ns * bool(share.ns[0] > _SPINS)


def _fitted(
    blocks: Blocks, calls: CallsInBlocks, expected: Floats, groups: Sequence[tuple[int, ...]], known_ns: Floats
) -> Fit:
    asked = np.stack([expected[:, list(group)].sum(axis=1) for group in groups], axis=1)
    recorded = (blocks.spans * ~blocks.muted).astype(np.float64)
    around = np.concatenate([recorded, covariates(blocks, calls)], axis=1)
    return fit(blocks, asked, around, blocks.cpu_ns - known_ns)


def _joined(num: Floats) -> tuple[tuple[int, ...], ...]:
    """Each kind by itself; those of which there are few with the one of which there are most."""
    few = [kind for kind in MEASURED if num[kind] <= LEAST_SHARE * num[list(MEASURED)].sum()]
    first = max(MEASURED, key=lambda kind: float(num[kind]))
    return ((first, *few), *((kind,) for kind in MEASURED if kind not in (first, *few)))


def _with_largest(groups: tuple[tuple[int, ...], ...], worst: int, num: Floats) -> tuple[tuple[int, ...], ...]:
    """A group joined with the largest of the others."""
    others = [group for place, group in enumerate(groups) if place != worst]
    largest = max(others, key=lambda group: float(num[list(group)].sum()))
    return (tuple(sorted((*largest, *groups[worst]))), *(group for group in others if group is not largest))


def _cost(blocks: Blocks, calls: CallsInBlocks, groups: tuple[tuple[int, ...], ...], found: Fit) -> DeviceCost:
    off = blocks.gpu_muted
    in_group = np.zeros((len(KINDS), len(groups)))
    for place, group in enumerate(groups):
        in_group[list(group), place] = 1.0
    variance, directions = np.linalg.eigh(found.covariance)
    scale = np.sqrt(np.maximum(variance, 0.0)) * student(int(off.sum()) - 1)
    return DeviceCost(
        ns=in_group @ found.ns,
        errors=in_group @ (directions * scale),
        groups=groups,
        first_ns=int(blocks.begin_ns[0]),
        last_ns=int(blocks.end_ns[-1]),
        num_blocks=len(blocks),
        num_muted=int(off.sum()),
        num=calls.num[~off].sum(axis=0),
        own_ns=calls.own_ns[~off].sum(axis=0),
        overhead_ns=float(calls.overhead_ns[~off].sum()),
    )
