"""What all reports tell: time by operation and class over all threads, and what dominates, in words."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from drivetrain.scope.accelerator.launches import GAP
from drivetrain.scope.accelerator.usage import GPU_CLASSES, RESTING
from drivetrain.scope.overlap import Overlap
from drivetrain.scope.profile import Profile, Row
from drivetrain.scope.report.amounts import brief, seconds
from drivetrain.scope.sites import UNRECORDED, Site


@dataclass(frozen=True, kw_only=True)
class Share:
    """Time in one operation and class, summed over threads."""

    operation: str
    time_class: str
    raw_ns: int
    corrected_ns: float
    low_ns: float
    high_ns: float
    is_corrected: bool = True
    """False where no cost is known of any of it: raw stands for corrected then."""


def shares(rows: Iterable[Row]) -> list[Share]:
    """Sums over threads and phases, longest first; without idle, and without devices, whose time is no thread's. Where
    no cost is known, raw stands for corrected.
    """
    known: set[tuple[str, str]] = set()
    sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0, 0.0, 0.0, 0.0])
    for row in rows:
        if row.time_class not in ("idle", *GPU_CLASSES) and not is_of(GAP, row):
            corrected = [row.raw_ns if x is None else x for x in (row.corrected_ns, row.low_ns, row.high_ns)]
            for place, value in enumerate([row.raw_ns, *corrected]):
                sums[row.operation, row.time_class][place] += value
            if row.corrected_ns is not None:
                known.add((row.operation, row.time_class))
    found = [
        Share(
            operation=key[0],
            time_class=key[1],
            raw_ns=int(raw),
            corrected_ns=likely,
            low_ns=low,
            high_ns=high,
            is_corrected=key in known,
        )
        for key, (raw, likely, low, high) in sums.items()
    ]
    return sorted(found, key=lambda share: -share.raw_ns)


def is_of(site: Site, one: Row | Share) -> bool:
    """Whether it is time of a site of ours: a program may call its operations as we do, and sets no such class."""
    return (one.operation, one.time_class) == (site.operation, site.time_class)


def together(several: Sequence[Share]) -> tuple[str, str, str]:
    """The corrected time of several shares, and the ends of its interval, as cells."""
    likely, low, high = zip(*((one.corrected_ns, one.low_ns, one.high_ns) for one in several), strict=True)
    return seconds(sum(likely)), seconds(sum(low)), seconds(sum(high))


def bounds(found: Overlap) -> tuple[str, str]:
    """The corrected time and its interval, as two cells; empty where nothing is known of it."""
    if found.corrected_ns is None or found.low_ns is None or found.high_ns is None:
        return "", ""
    return seconds(found.corrected_ns), f"{seconds(found.low_ns)} to {seconds(found.high_ns)}"


def extent(profile: Profile) -> str:
    """How much was recorded, in one line."""
    counts = [
        (len(profile.trace.processes), "process", "processes"),
        (len(profile.trace.threads), "thread", "threads"),
        (profile.num_steps(), "step", "steps"),
    ]
    words = ", ".join(f"{number} {one if number == 1 else more}" for number, one, more in counts)
    return f"{seconds(profile.wall_ns)} of wall time, {words}"


_ADVICE = {
    "simulation": "Step several environments at once (a vector environment, or more actor processes), or use a "
    "compiled simulator.",
    "inference": "Act on several observations at once; for small networks a NumPy or jitted policy costs less per call "
    "than a framework's eager mode.",
    "replay": "Sample several batches per call, and keep rows in one contiguous array per field.",
    "backpropagation": "Compile the update (torch.compile, or one jitted scan over several updates), or use larger and "
    "fewer batches.",
    "optimizer": "Use the framework's fused or foreach optimizer, or compile it into the update.",
    "other": "This time is in no known operation: annotate the program with scope.operation to see what it is.",
}
_ADVICE_ALONE = "This time is in no known operation: name it by torch.profiler.record_function to see what it is."


def in_words(profile: Profile) -> list[str]:
    """What dominates, and what could be done about it; one sentence or two per paragraph."""
    found = shares(profile.breakdown())
    busy = sum(share.raw_ns for share in found)
    if not busy:
        return ["Nothing was recorded."]
    by_operation: dict[tuple[bool, str], int] = defaultdict(int)  # what is known of first
    waiting = aside = 0  # where that is in no operation, something else holds it up
    muted = sum(share.raw_ns for share in found if is_of(UNRECORDED, share))
    for share in found:
        rested = share.raw_ns if share.time_class in RESTING else 0
        rested_aside = rested if share.operation == "other" else 0
        by_operation[not is_of(UNRECORDED, share), share.operation] += share.raw_ns - rested_aside
        waiting, aside = waiting + rested, aside + rested_aside
    (_, first), ns = max(by_operation.items(), key=lambda item: (item[0][0], item[1]))
    name = "time outside known operations" if first == "other" else brief(first)
    most = "Most of the time" if ns >= aside else "Beside waiting in no operation, most of the time"
    text = [f"{most} is {name}: {ns / busy:.0%} of the {seconds(busy)} that all threads spent."]
    is_session = bool(profile.trace.about)  # not a trace of torch.profiler alone, which begins anywhere
    advice = _ADVICE if is_session else {**_ADVICE, "other": _ADVICE_ALONE}
    text.append(advice.get(first, f"Look into {name} first: nothing else can save as much."))
    # Where no operation is entered, all of it is the program's, and none a beginning.
    if is_session and 0.1 * profile.wall_ns < (startup := profile.startup_ns()) < profile.wall_ns:
        text.append(
            f"{seconds(startup)} of {seconds(profile.wall_ns)} passed before the first operation, in imports and "
            "setting up: a longer run has less of that."
        )
    if waiting > 0.2 * busy:
        text.append(f"{waiting / busy:.0%} is waiting: for a thread, a process, a socket or a device, or asleep.")
    if muted:
        text.append(
            f"{muted / busy:.0%} was left unrecorded, in blocks of steps chosen at random, to learn what recording "
            "costs."
        )
    overhead = profile.overhead()
    if profile.wall is None:
        return [*text, "Nothing is corrected for what recording cost: " + _why_not(profile)]
    text.append(
        f"Recording added about {seconds(overhead['total_ns'])} "
        f"({seconds(overhead['low_ns'])} to {seconds(overhead['high_ns'])}), "
        f"{overhead['total_ns'] / busy:.1%}; corrected numbers are without it."
    )
    return text


def _why_not(profile: Profile) -> str:
    changed = bool(profile.correction.changes)
    return "it changed what the program does." if changed else "its cost is not identifiable in this run."
