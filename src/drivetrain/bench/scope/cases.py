"""What the runs say: inflation, bias of the corrected total, its interval, and what a report costs.

Runs are compared within their round: the machine of one minute is not that of the next.
"""

import statistics
from collections.abc import Callable, Sequence
from typing import Literal

from drivetrain.bench.report import Case, Target
from drivetrain.bench.scope.rounds import ALONE, Measured
from drivetrain.bench.scope.trial import Added, Trial

LIMIT = "limit"
MOST_INFLATION, MEDIAN_INFLATION = 1.15, 1.10
MOST_BIAS_PERCENT, MEDIAN_BIAS_PERCENT = 5.0, 3.0
MOST_HALF_WIDTH_PERCENT = 5.0
LEAST_INSIDE = 0.9
CLOCKS: dict[str, Callable[[Trial], float]] = {"wall": lambda trial: trial.wall_s, "CPU": lambda trial: trial.cpu_s}


def make_cases(measured: Sequence[Measured]) -> list[Case]:
    """All tables, those over all programs first."""
    if not measured:
        return []
    cases = [case for clock in CLOCKS for case in _over_all(measured, clock)]
    for clock in CLOCKS:
        cases += [inflation(one, clock) for one in measured]
    for clock in CLOCKS:
        cases += [bias(one, clock) for one in measured]
    cases += [half_width(one) for one in measured]
    cases += [_left(one, "size on disk", "MB", lambda trial: trial.nbytes / 1e6) for one in measured]
    return cases + [_left(one, "time to report", "s", lambda trial: trial.report_s) for one in measured]


def inflations(measured: Measured, tool: str, clock: str) -> list[float]:
    """Per round: time under a tool over time alone."""
    time = CLOCKS[clock]
    return [time(under) / time(alone) for under, alone in _pairs(measured, tool)]


def biases(measured: Measured, clock: str) -> list[float]:
    """Per round: how far the corrected time is from that alone, in percent of the latter."""
    time = CLOCKS[clock]
    return [
        100 * ((time(under) - _added(under).likely_s) / time(alone) - 1) for under, alone in _pairs(measured, "ours")
    ]


def is_inside(measured: Measured, clock: str) -> bool:
    """Whether the median time alone lies between the medians of the corrected bounds."""
    time = CLOCKS[clock]
    recorded = measured.trials["ours"]
    low = statistics.median(time(trial) - _added(trial).high_s for trial in recorded)
    high = statistics.median(time(trial) - _added(trial).low_s for trial in recorded)
    return low <= statistics.median(map(time, measured.trials[ALONE])) <= high


def inflation(measured: Measured, clock: str) -> Case:
    """One program, all tools."""
    tools = [tool for tool in measured.trials if tool != ALONE]
    num_spans = statistics.median(_added(trial).num_spans for trial in measured.trials["ours"])
    return Case(
        name=f"{measured.program.name}: inflation, {clock}",
        unit=f"× {clock} alone",
        better="lower",
        group=f"Time under a tool over time alone, {clock}",
        samples={tool: inflations(measured, tool, clock) for tool in ("ours", *sorted(set(tools) - {"ours"}))},
        references={LIMIT: [MOST_INFLATION]},
        targets=(Target(against=LIMIT, aim=1.0),),
        details={"num_spans": num_spans, "alone": [CLOCKS[clock](trial) for trial in measured.trials[ALONE]]},
    )


def bias(measured: Measured, clock: str) -> Case:
    """One program: size of the median bias; the sign and each round are in the details."""
    signed = biases(measured, clock)
    alone = [CLOCKS[clock](trial) for trial in measured.trials[ALONE]]
    spread = 100 * (max(alone) - min(alone)) / statistics.median(alone)
    least = min(CLOCKS[clock](trial) - _added(trial).likely_s for trial in measured.trials["ours"])
    return Case(
        name=f"{measured.program.name}: |bias|, {clock}",
        unit="%",
        better="lower",
        group=f"Corrected total against the time alone, {clock}",
        samples={"ours": [abs(statistics.median(signed))]},
        references={
            LIMIT: [MOST_BIAS_PERCENT],
            "of the smallest": [abs(100 * (least / min(alone) - 1))],
            "spread of runs alone": [spread],
        },
        targets=(Target(against=LIMIT, aim=1.0),),
        notes=[
            "Of the smallest: the bias of the smallest corrected time against the smallest time alone.",
            "The spread of runs alone is largest less smallest, in percent of their median: a bias below it is noise.",
        ],
        details={"signed": signed, "truth_inside": is_inside(measured, clock)},
    )


def half_width(measured: Measured) -> Case:
    """One program: half of the interval, in percent of the corrected wall time."""
    widths = [
        100 * (_added(trial).high_s - _added(trial).low_s) / 2 / (trial.wall_s - _added(trial).likely_s)
        for trial in measured.trials["ours"]
    ]
    return Case(
        name=f"{measured.program.name}: half-width",
        unit="%",
        better="lower",
        group="Half of the stated interval",
        samples={"ours": widths},
        references={LIMIT: [MOST_HALF_WIDTH_PERCENT]},
        targets=(Target(against=LIMIT, aim=1.0),),
    )


def _over_all(measured: Sequence[Measured], clock: str) -> list[Case]:
    """The median program, and how many intervals hold the truth."""
    inflated = [statistics.median(inflations(one, "ours", clock)) for one in measured]
    wrong = [abs(statistics.median(biases(one, clock))) for one in measured]
    inside = [float(is_inside(one, clock)) for one in measured]
    share = sum(inside) / len(inside)
    return [
        _summary(f"median inflation, {clock}", f"× {clock} alone", inflated, MEDIAN_INFLATION),
        _summary(f"median |bias|, {clock}", "%", wrong, MEDIAN_BIAS_PERCENT),
        _summary(f"intervals that hold the time alone, {clock}", "share", [share], LEAST_INSIDE, better="higher"),
    ]


def _summary(
    name: str, unit: str, values: Sequence[float], limit: float, better: Literal["lower", "higher"] = "lower"
) -> Case:
    return Case(
        name=name,
        unit=unit,
        better=better,
        group="Over all programs",
        samples={"ours": values},
        references={LIMIT: [limit]},
        targets=(Target(against=LIMIT, aim=1.0),),
    )


def _left(measured: Measured, what: str, unit: str, value: Callable[[Trial], float]) -> Case:
    """What a tool left on disk, or how long it took."""
    tools = ["ours", *sorted(set(measured.trials) - {ALONE, "ours"})]
    return Case(
        name=f"{measured.program.name}: {what}",
        unit=unit,
        better="lower",
        group=what.capitalize(),
        samples={tool: list(map(value, measured.trials[tool])) for tool in tools},
    )


def _pairs(measured: Measured, tool: str) -> list[tuple[Trial, Trial]]:
    return list(zip(measured.trials[tool], measured.trials[ALONE], strict=False))  # a tool may miss a round


def _added(trial: Trial) -> Added:
    assert trial.added is not None, "a run under our own recording"
    return trial.added
