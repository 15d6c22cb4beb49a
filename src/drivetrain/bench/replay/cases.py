"""The rows of the tables: timings of a group as cases of the report."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from drivetrain.bench.replay.contenders import FLOOR, OURS_BY_DEFAULT
from drivetrain.bench.replay.groups import Group
from drivetrain.bench.replay.rounds import Measured
from drivetrain.bench.replay.targets import targets_of
from drivetrain.bench.replay.timing import Timing
from drivetrain.bench.report import Case, Skipped

MICROSECONDS, NANOSECONDS, MEBIBYTES = "µs", "ns per element", "MiB"
REFERENCES = (FLOOR.name, OURS_BY_DEFAULT.name)


def make_cases(group: Group, measured: Measured) -> list[Case]:
    """One case per operation that somebody has, and one for memory where images are stored."""
    operations = [name for phase in group.phases for name in phase if measured.rounds.get(name)]
    cases = [make_case(group, name, measured) for name in operations]
    if measured.memory_nbytes and not group.all_cores:  # the same stores as with one thread
        cases.append(memory_case(group, measured.memory_nbytes))
    return cases


def make_case(group: Group, operation: str, measured: Measured) -> Case:
    """One operation: median of each round, everybody's smallest block, CPU time beside."""
    timings = measured.rounds[operation]
    unit = NANOSECONDS if group.is_tree else MICROSECONDS
    scale = 1e3 / int(operation.partition(" ")[2]) if group.is_tree else 1.0
    medians = {name: [scale * timing.median_us for timing in each] for name, each in timings.items()}
    return Case(
        name=f"{group.name}: {operation} [{unit}]",
        unit=unit,
        better="lower",
        group=group.name,
        samples={name: values for name, values in medians.items() if name not in REFERENCES},
        references={name: values for name, values in medians.items() if name in REFERENCES},
        targets=targets_of(group, operation),
        smallest={name: scale * min(timing.smallest_us for timing in each) for name, each in timings.items()},
        cpu={name: scale * statistics.median(timing.cpu_us for timing in each) for name, each in timings.items()},
        notes=notes_of(operation, measured),
        details={name: details_of(each) for name, each in timings.items()},
    )


def details_of(timings: Sequence[Timing]) -> list[dict[str, float]]:
    """Every round of one contender."""
    return [asdict(timing) for timing in timings]


def notes_of(operation: str, measured: Measured) -> list[str]:
    """Who does not have the operation, and why."""
    notes: list[str] = []
    for name, reasons in measured.missing.items():
        reason = reasons.get("") or reasons.get(operation)
        if reason is not None and name not in REFERENCES:
            notes.append(f"{name}: {reason}")
    return notes


def memory_case(group: Group, memory_nbytes: Mapping[str, int]) -> Case:
    """What the processes grew by; compiled programs are in it."""
    samples = {name: [nbytes / 2**20] for name, nbytes in memory_nbytes.items() if name not in REFERENCES}
    return Case(
        name=f"{group.name}: memory [{MEBIBYTES}]",
        unit=MEBIBYTES,
        better="lower",
        group=group.name,
        samples=samples,
        notes=["memory: what the process grew by, less the inputs; compiled programs are in it"],
    )


def unmeasured(group: Group, measured: Measured) -> list[Skipped]:
    """Contenders that failed, and ourselves where we do not have what the group needs.

    Who measures the group again has the last lines of who fails on the screen.
    """
    again = f'drivetrain bench replay --only "{group.name}"'
    skipped = [
        Skipped(name=f"{name}, {group.name}", reason=f"failed: {reason}", remedy=again)
        for name, reason in measured.failed.items()
    ]
    if "" in measured.missing.get("ours", {}):
        reason = measured.missing["ours"][""]
        skipped.append(Skipped(name=f"ours, {group.name}", reason=f"not available: {reason}", remedy="nothing yet"))
    return skipped
