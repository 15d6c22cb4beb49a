"""What a span costs in each process: its blocks, earlier programs on this machine, and what it costs there alone.

    blocks of the process --regression--> estimate --+
    blocks of the other processes ---------------------+--> Cost, with standard error and where it is from
    cost alone x multiple of earlier programs ---------+

An estimate and what was to be expected are weighed by their precision. If they contradict each other, the estimate
stands alone. Nothing is clamped: a cost may come out negative, with a standard error that says why.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from drivetrain.scope.calibration import prior
from drivetrain.scope.calibration.device_calls import CallsInBlocks
from drivetrain.scope.calibration.device_costs import expected_calls, known_of_devices
from drivetrain.scope.calibration.regression import Estimate, covariates, estimate
from drivetrain.scope.sites import CALIBRATION
from drivetrain.scope.trace.blocks import Blocks
from drivetrain.scope.trace.events import BEGIN, END, INSTRUMENTS, Trace

_CONTRADICTION = 3.0
"""Standard errors between an estimate and what was expected."""
_DISABLED_SD = prior.PUBLISHED.sd
"""Of a muted span's cost, which is measured alone only."""
_INSIDE = 0.5
"""Share of a cost that lies between the two times of a span, where no empty span was timed."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Nanoseconds per span of one instrument in one process."""

    instrument: str
    recorded_ns: float
    """What recording adds to a muted span ..."""
    recorded_se_ns: float
    disabled_ns: float
    """... and what a muted span adds to none at all."""
    disabled_se_ns: float
    inside: float
    """Share of it that is counted in the span itself; the rest is counted in what is around."""
    estimate: Estimate | None
    """What the blocks of this run alone say; None: they do not identify it."""
    expected: Estimate | None
    """What was to be expected before them."""
    source: str
    """Where `recorded_ns` is from, in words."""
    factor: str
    """Costs of one factor are wrong together."""


def known(
    trace: Trace, blocks: Sequence[Blocks], calls: Sequence[CallsInBlocks] | None = None
) -> list[list[Cost | None]]:
    """Per process and instrument; None where neither the run nor anything before it tells.

    Args:
        trace: What was recorded.
        blocks: Of each of its threads.
        calls: What each thread called of devices in them; None where that was not recorded.
    """
    found = [_of_thread(own, calls[i] if calls else None) for i, own in enumerate(blocks)]
    own = [_of_process(trace, found, number) for number in range(len(trace.processes))]
    shared = [_pooled([found[i] for found in own]) for i in range(len(INSTRUMENTS))]
    alone = _inherited(trace)
    inside = _inside(trace)
    return [
        [
            _cost(trace, i, own[number][i], shared[i], alone[number].get(name), inside[i], f"{name} in {number}")
            for i, name in enumerate(INSTRUMENTS)
        ]
        for number in range(len(trace.processes))
    ]


def _of_thread(blocks: Blocks, calls: CallsInBlocks | None) -> list[Estimate | None]:
    """Where everything is muted at once, what recording calls costs is no cost of spans."""
    if calls is None or not blocks.gpu_muted.any():
        return estimate(blocks)
    around = np.concatenate([expected_calls(blocks, calls), covariates(blocks, calls)], axis=1)
    return estimate(blocks, around, known_of_devices(blocks, calls))


def _of_process(trace: Trace, of_threads: Sequence[list[Estimate | None]], number: int) -> list[Estimate | None]:
    found = [of_threads[i] for i, thread in enumerate(trace.threads) if thread.process == number]
    return [_pooled([one[i] for one in found], spread=False) for i in range(len(INSTRUMENTS))]


def _pooled(estimates: Sequence[Estimate | None], *, spread: bool = True) -> Estimate | None:
    """Weighed by precision; with `spread`, for a process that has none, their spread is an error too."""
    there = [one for one in estimates if one is not None]
    if not there:
        return None
    weight = np.array([1 / max(one.se_ns, 1e-3) ** 2 for one in there])
    mean = float(np.average([one.ns for one in there], weights=weight))
    variance = float(1 / weight.sum())
    if spread:
        between = np.average([(one.ns - mean) ** 2 - one.se_ns**2 for one in there], weights=weight)
        variance += max(float(between), (prior.LEAST_SD * mean) ** 2)
    return Estimate(mean, variance**0.5)


def _cost(
    trace: Trace,
    number: int,
    own: Estimate | None,
    shared: Estimate | None,
    alone_ns: tuple[float, float] | None,
    inside: float,
    factor: str,
) -> Cost | None:
    name = INSTRUMENTS[number]
    multiple = trace.about.get("prior", {}).get(name)
    mean, sd = multiple or prior.PUBLISHED
    expected = None if alone_ns is None else Estimate(mean * alone_ns[0], abs(sd * alone_ns[0]))
    before = "earlier programs on this machine" if multiple else "published errors of what it costs alone"
    found, where = (own, "blocks of this process") if own is not None else (shared, "blocks of other processes")
    if found is None and expected is None:
        return None
    chosen, source = _weighed(found, expected, where, before)
    disabled = 0.0 if alone_ns is None else alone_ns[1]
    return Cost(
        instrument=name,
        recorded_ns=chosen.ns,
        recorded_se_ns=chosen.se_ns,
        disabled_ns=disabled,
        disabled_se_ns=abs(disabled) * _DISABLED_SD,
        inside=inside,
        estimate=own,
        expected=expected,
        source=source,
        factor=factor if own is not None else f"{name} everywhere",
    )


def _weighed(found: Estimate | None, expected: Estimate | None, where: str, before: str) -> tuple[Estimate, str]:
    if found is None:
        assert expected is not None
        return expected, f"{before}; not identifiable in this run"
    if expected is None:
        return found, where
    variance = found.se_ns**2 + expected.se_ns**2
    if abs(found.ns - expected.ns) > _CONTRADICTION * variance**0.5:
        return found, f"{where}, which contradict {before}"
    share = expected.se_ns**2 / variance if variance else 1.0
    weighed = Estimate(
        share * found.ns + (1 - share) * expected.ns, found.se_ns * expected.se_ns / max(variance, 1e-300) ** 0.5
    )
    return weighed, f"{where} ({share:.0%}) and {before}"


def _inherited(trace: Trace) -> list[dict[str, tuple[float, float]]]:
    """What each process measured alone; a forked child has its parent's."""
    found = [dict(process.alone_ns) for process in trace.processes]
    for number, origin in enumerate(trace.origins):  # parents come first
        if not found[number] and origin >= 0:
            found[number] = found[origin]
    return found


def _inside(trace: Trace) -> list[float]:
    """Per instrument, from the times of the first empty spans there are."""
    found: dict[int, float] = {}
    site = trace.sites.index(CALIBRATION) if CALIBRATION in trace.sites else -1
    for thread in trace.threads:
        for number in range(len(INSTRUMENTS)):
            mine = (thread.site == site) & (thread.value == number)
            begin = thread.time_ns[mine & (thread.kind == BEGIN)]
            end = thread.time_ns[mine & (thread.kind == END)]
            num = min(len(begin), len(end))
            if num > 10 and number not in found:
                found[number] = float(np.median(end[:num] - begin[:num]) / np.median(np.diff(begin)))
    return [found.get(number, _INSIDE) for number in range(len(INSTRUMENTS))]


def multiples(trace: Trace, costs: Sequence[Sequence[Cost | None]]) -> dict[str, tuple[float, float]]:
    """What this run says of the machine, for the next: per instrument its own estimate over the cost alone."""
    said: dict[str, tuple[float, float]] = {}
    for process, own in zip(trace.processes, costs, strict=True):
        for cost in own:
            if cost is None or cost.estimate is None or cost.instrument in said:
                continue
            alone_ns = process.alone_ns.get(cost.instrument, (0.0, 0.0))[0]
            if alone_ns > 0:
                said[cost.instrument] = (cost.estimate.ns / alone_ns, cost.estimate.se_ns / alone_ns)
    return said
