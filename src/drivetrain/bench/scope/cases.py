"""What the runs say: inflation, bias of the corrected time, its interval, and what a report costs.

Of ours by blocks of one run (held_out.py); of other tools by runs of a round, under the tool and alone.
"""

import statistics
from collections.abc import Callable, Sequence
from typing import Literal

from drivetrain.bench.report import Case, Target
from drivetrain.bench.scope.held_out import HeldOut
from drivetrain.bench.scope.rounds import ALONE, Measured
from drivetrain.bench.scope.trial import Trial

OURS = "ours"
LIMIT = "limit"
MOST_INFLATION, MEDIAN_INFLATION = 1.15, 1.10
MOST_BIAS_PERCENT, MEDIAN_BIAS_PERCENT = 5.0, 3.0
MOST_HALF_WIDTH_PERCENT = 5.0
LEAST_INSIDE = 0.9
CLOCKS: dict[str, Callable[[Trial], float]] = {"CPU": lambda trial: trial.cpu_s, "wall": lambda trial: trial.wall_s}
Direction = Literal["lower", "higher"]


def make_cases(judged: Sequence[Measured], beside: Sequence[Measured] = ()) -> list[Case]:
    """All tables, those over all programs first.

    Args:
        judged: Programs with their blocks held out.
        beside: Programs alone, under ours and under other tools.
    """
    cases = _over_all(judged) if judged else []
    cases += [inflation(one) for one in judged]
    cases += [bias(one) for one in judged]
    cases += [half_width(one) for one in judged]
    for clock in CLOCKS:
        cases += [under_tools(one, clock) for one in beside if ALONE in one.trials]
    cases += [_left(one, "size on disk", "MB", lambda trial: trial.nbytes / 1e6) for one in beside]
    return cases + [_left(one, "time to report", "s", lambda trial: trial.report_s) for one in beside]


def held_outs(measured: Measured) -> list[HeldOut]:
    """What blocks said, run by run."""
    return [found for trial in measured.trials[OURS].values() if (found := trial.held_out) is not None]


def is_inside(found: HeldOut) -> bool:
    """Whether the stated interval holds the truth, as far as the truth is known."""
    return abs(found.bias) <= (found.half_width**2 + found.error**2) ** 0.5


def inflation(measured: Measured) -> Case:
    """One program: its recorded blocks over its muted ones."""
    found = held_outs(measured)
    return Case(
        name=f"{measured.program.name}: inflation",
        unit="× muted",
        better="lower",
        group="Recorded blocks over muted blocks of the same run, CPU time",
        samples={OURS: [one.inflation for one in found]},
        references={
            LIMIT: [MOST_INFLATION],
            "± error": [one.error for one in found],
            "disabled, in addition": [one.disabled for one in found],
            "ns per span": [one.span_ns for one in found],
        },
        targets=(Target(against=LIMIT, aim=1.0),),
        details={"num_spans": [one.num_spans for one in found], "num_blocks": [one.num_blocks for one in found]},
        notes=["Disabled: what muted instruments still cost, as each process measures it alone when it starts."],
    )


def bias(measured: Measured) -> Case:
    """One program: size of the median bias; the sign and each run are in the details."""
    found = held_outs(measured)
    signed = [100 * one.bias for one in found]
    return Case(
        name=f"{measured.program.name}: |bias|",
        unit="%",
        better="lower",
        group="Corrected time against muted blocks that the correction has not seen",
        samples={OURS: [abs(statistics.median(signed))]},
        references={
            LIMIT: [MOST_BIAS_PERCENT],
            "error of the truth, per run": [100 * one.error for one in found],
            "largest of a run": [max(map(abs, signed))],
            "runs inside": [sum(map(is_inside, found)) / len(found)],
        },
        targets=(Target(against=LIMIT, aim=1.0),),
        details={"signed": signed, "num_muted": [one.num_muted for one in found]},
        notes=[
            "The truth has an error of its own, half of a 95% interval: a bias below it is noise.",
            "Of the median of the runs' biases, which have signs: a single run is further off, by up to the largest.",
            "Runs inside: where the bias is within the stated half-width and that error, added as squares.",
        ],
    )


def half_width(measured: Measured) -> Case:
    """One program: half of the stated interval, in percent of the time alone."""
    return Case(
        name=f"{measured.program.name}: half-width",
        unit="%",
        better="lower",
        group="Half of the stated interval",
        samples={OURS: [100 * one.half_width for one in held_outs(measured)]},
        references={LIMIT: [MOST_HALF_WIDTH_PERCENT]},
        targets=(Target(against=LIMIT, aim=1.0),),
    )


def under_tools(measured: Measured, clock: str) -> Case:
    """One program, all tools: time under a tool over time alone, both of the program's work."""
    time = CLOCKS[clock]
    alone = measured.trials[ALONE]
    tools = [OURS, *sorted(set(measured.trials) - {ALONE, OURS})]
    ratios = {
        tool: [time(trial) / time(alone[number]) for number, trial in measured.trials[tool].items() if number in alone]
        for tool in tools
    }
    return Case(
        name=f"{measured.program.name}: under a tool, {clock}",
        unit=f"× {clock} alone",
        better="lower",
        group=f"Time under a tool over time alone, {clock}",
        samples={tool: values for tool, values in ratios.items() if values},
        details={"alone": [time(trial) for trial in alone.values()]},
        notes=["Runs of different processes: on a shared machine a difference of some percent is noise."],
    )


def _over_all(measured: Sequence[Measured]) -> list[Case]:
    """The median program and the worst, by the medians of their runs; the worst run; how often intervals are right."""
    runs = [held_outs(one) for one in measured]
    inflated = [statistics.median(one.inflation for one in found) for found in runs]
    wrong = [abs(100 * statistics.median(one.bias for one in found)) for found in runs]
    widths = [statistics.median(100 * one.half_width for one in found) for found in runs]
    every = [one for found in runs for one in found]
    share = sum(map(is_inside, every)) / len(every)
    is_known = statistics.median(one.error for one in every) <= statistics.median(one.half_width for one in every)
    alone = sum(abs(one.bias) <= one.half_width for one in every) / len(every)
    return [
        _summary("median inflation", "× muted", statistics.median(inflated), MEDIAN_INFLATION),
        _summary("largest inflation", "× muted", max(inflated), MOST_INFLATION),
        _summary("largest inflation of a run", "× muted", max(one.inflation for one in every), None),
        _summary("median |bias|", "%", statistics.median(wrong), MEDIAN_BIAS_PERCENT),
        _summary("largest |bias|", "%", max(wrong), MOST_BIAS_PERCENT),
        _summary("largest |bias| of a run", "%", max(abs(100 * one.bias) for one in every), None),
        _summary("largest half-width", "%", max(widths), MOST_HALF_WIDTH_PERCENT),
        _summary(
            "runs whose interval holds the truth", "share", share, LEAST_INSIDE if is_known else None, better="higher"
        ),
        _summary("the same, the truth's own error ignored", "share", alone, None, better="higher"),
    ]


def _summary(name: str, unit: str, value: float, limit: float | None, better: Direction = "lower") -> Case:
    return Case(
        name=name,
        unit=unit,
        better=better,
        group="Over all programs",
        samples={OURS: [value]},
        references={} if limit is None else {LIMIT: [limit]},
        targets=() if limit is None else (Target(against=LIMIT, aim=1.0),),
        notes=["Of programs by the median of their runs, unless a run is named."],
    )


def _left(measured: Measured, what: str, unit: str, value: Callable[[Trial], float]) -> Case:
    """What a tool left on disk, or how long it took."""
    tools = [OURS, *sorted(set(measured.trials) - {ALONE, OURS})]
    return Case(
        name=f"{measured.program.name}: {what}",
        unit=unit,
        better="lower",
        group=what.capitalize(),
        samples={tool: list(map(value, measured.trials[tool].values())) for tool in tools},
    )
