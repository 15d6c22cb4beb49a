"""What reports tell of recording GPUs: of which part of the time numbers are, and what blocks of steps say it cost."""

from drivetrain.scope.accelerator.recording import Check
from drivetrain.scope.accelerator.usage import Usage
from drivetrain.scope.report.amounts import part, seconds

HEADINGS = [
    "kind of call",
    "calls",
    "cost of one",
    "by its own word",
    "process",
    "blocks, without",
    "together with",
]
_NAMES = {"launch": "a launch", "copy": "a copy", "other": "any other call"}


def of_what(usage: Usage) -> list[str]:
    """That there were blocks of steps without recording, and what they are assumed to be like."""
    if usage.recorded_ns == usage.wall_ns:
        return []
    in_all = f"were they as busy as the rest, it was so for {seconds(usage.busy_in_all_ns)} in all"
    return [
        f"GPUs were recorded {part(usage.recorded_ns, usage.wall_ns)} of the time, and all numbers here are of that: "
        f"blocks of steps chosen at random are left out, to learn what recording costs; {in_all}."
    ]


def in_words(usage: Usage, check: Check) -> str:
    """What blocks say of the recorder, and whether it says the same."""
    calls = ", ".join(f"{_with_error(one.ns, one.se_ns)} to {_NAMES[one.kind]}" for one in check.calls)
    text = f"By {check.num_muted} of {check.num_blocks} blocks of process {check.process}, recording adds {calls}"
    took = f"in all {_with_error(check.ns, check.se_ns)} while {usage.source} says {seconds(check.own_ns)}"
    if check.ratio is not None:
        took += f", {check.ratio:.3g} times as much"
    if check.agrees:
        return f"{text}; {took}, which is within the error."
    return f"{text}; {took}. They disagree beyond the error: corrected numbers follow the blocks."


def cells(usage: Usage) -> list[list[str]]:
    """What recording adds to calls, by blocks of steps and by its own word."""
    return [
        [
            one.kind,
            str(one.num),
            _with_error(one.ns, one.se_ns),
            seconds(one.own_ns),
            check.process,
            f"{check.num_blocks}, {check.num_muted}",
            ", ".join(one.together),
        ]
        for check in usage.recording.checks
        for one in check.calls
    ]


def _with_error(ns: float, se_ns: float) -> str:
    """With its 95% interval."""
    return f"{seconds(ns)} ± {seconds(1.96 * se_ns)}"
