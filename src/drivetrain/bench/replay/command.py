"""`drivetrain bench replay`: one buffer after the other against what users would pick.

    buffers    insert, sample and update of full buffers, by layout and capacity
    trees      the sum tree alone
    scenes     several threads or processes on one buffer: throughput, contention, actors and learners

Everybody is a process of its own with one computation thread (as many as it likes in groups of "all cores"), and is
asked in turn.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from drivetrain.bench.effort import require_at_least
from drivetrain.bench.machine import origin_of
from drivetrain.bench.process import Rival
from drivetrain.bench.publish import Outputs, present, publish
from drivetrain.bench.replay.cases import make_cases, unmeasured
from drivetrain.bench.replay.contenders import (
    DISTRIBUTIONS,
    FLOOR,
    OURS,
    OURS_ALL_CORES,
    OURS_BY_DEFAULT,
    PEERS,
    SHARING,
    TREES,
)
from drivetrain.bench.replay.groups import Group
from drivetrain.bench.replay.layouts import LAYOUTS
from drivetrain.bench.replay.plan import Plan, full_plan, quick_plan
from drivetrain.bench.replay.rounds import measure_group
from drivetrain.bench.replay.scenes import measure_play
from drivetrain.bench.report import EVERYTHING, INTERRUPTED, Case, Report, Skipped, left_out
from drivetrain.bench.worker import Worker
from drivetrain.core.outputs import require_folders

WEAKNESSES = (
    "A call at a time, in a process that does nothing else: in training, the network's work between "
    "two calls takes the caches, from everybody.",
    "Uniform SB3 does less work than the others: no priorities, no weights. It is there because "
    "it is what SB3's users have.",
    "Ours, cpprb, Tianshou and NumPy give NumPy arrays, TorchRL and SB3 tensors, Flashbax device "
    "arrays. Nobody is asked for another form than its own.",
    "Inputs are in each contender's own form before the clock starts. That favours those whose form "
    "is dear to make: TensorDicts, Batches, device arrays.",
    "Samples are not equal: ours carry both endings, the discount, and keys with generations; most "
    "peers one flag `done` and bare indices. What each leaves out stands in its file of `peers`.",
    "Several threads or processes on one buffer: Tianshou, Flashbax, SB3 and the NumPy replay are not "
    "made for it, cpprb for processes only, TorchRL for threads only.",
    "With shared frames a row of ours has obs and next_obs as two views of five frames (`join_stacks`), of peers as "
    "two arrays of four, and ours believes that stacks follow each other (`check_obs=False`), as Tianshou and Flashbax "
    "do; ours by default, which compares them and samples two arrays, stands beside it.",
    "Where all cores may be used, only TorchRL, Flashbax and ours have threads to use them with, and ours has one "
    "unless `num_threads` says otherwise.",
    "TorchRL's wheel was built for another PyTorch than the tested one; its file says what was done.",
    "The NumPy replay is ours, written for this bench.",
    "A shared or virtual machine: only the ratios of one run count.",
)
Found = tuple[list[Case], list[Skipped]]
"""What came of one group or play: its cases, and who has none of them."""
QUICK_WEAKNESS = "A quick run: little time per case, few cases. It shows that everything runs, not who is ahead."


@dataclass(frozen=True, kw_only=True)
class Options(Outputs):
    """Measure the replay against cpprb, Tianshou, TorchRL, Flashbax, SB3 and plain NumPy."""

    quick: bool = False
    """Two minutes rather than half an hour; the numbers then mean little."""
    only: str = ""
    """Only groups of cases whose name contains this, or one of these: "obs 17", "tree", "obs 4,contention"."""
    rounds: int | None = None
    """How often everybody is timed at everything; None: as planned."""
    processes: int = 2
    """Members of the largest crowds; give the number of cores, at least 2."""

    def check(self) -> None:
        """Refuse what cannot be run. Not at construction: tyro would turn the sentence into a box.

        Raises:
            InvalidInput: A flag is out of range, a folder is missing, or nothing is left to run.
        """
        require_at_least(1, rounds=self.rounds)
        require_at_least(2, processes=self.processes)
        require_folders(self.json, self.markdown)
        self.plan()

    def plan(self) -> Plan:
        """What is run for these options.

        Raises:
            InvalidInput: `only` has a part that is in no name.
        """
        plan = quick_plan(self.processes) if self.quick else full_plan(self.processes)
        return replace(plan.only(self.only), num_rounds=plan.num_rounds if self.rounds is None else self.rounds)


def run(options: Options, words: Sequence[str]) -> int:
    """Measure, print the page, and write what was asked for; the exit code.

    Args:
        options: What to measure.
        words: The command line after `drivetrain bench`, for the report.

    Raises:
        InvalidInput: The options cannot be run; nothing was.
        RunError: Our own process failed.
    """
    options.check()
    publish(make_report(options, words), options)
    return 0


def make_report(options: Options, words: Sequence[str]) -> Report:
    """Run everybody who is here, and gather it."""
    plan, origin = options.plan(), origin_of(words, DISTRIBUTIONS)
    peers, absent = present(PEERS)
    cases, failures = measure_all(plan, [OURS, *peers, FLOOR, OURS_BY_DEFAULT])
    return Report(
        title="The replay, against cpprb, Tianshou, TorchRL, Flashbax, SB3 and plain NumPy",
        origin=origin,
        weaknesses=[*([QUICK_WEAKNESS] if options.quick else []), *WEAKNESSES],
        cases=cases,
        skipped=[*absent, *failures],
    )


def measure_all(plan: Plan, rivals: Sequence[Rival]) -> tuple[list[Case], list[Skipped]]:
    """Every group and play; ends early, with what there is, when it is interrupted (Ctrl-C)."""
    cases: list[Case] = []
    failures: list[Skipped] = []
    try:
        for some_cases, some_failures in chain(measure_groups(plan, rivals), measure_plays(plan, rivals)):
            cases += some_cases
            failures += some_failures
    except KeyboardInterrupt:
        failures += left_out({EVERYTHING: INTERRUPTED})
    return cases, failures


def measure_groups(plan: Plan, rivals: Sequence[Rival]) -> Iterator[Found]:
    """Each group of buffers or trees."""
    for group in plan.groups:
        print(f"{group.name}: {plan.num_rounds} rounds", flush=True)
        measured = measure_group(
            group,
            taking_part(group, rivals),
            num_rounds=plan.num_rounds,
            slice_s=plan.slice_s,
            start=partial(Worker.start, threads=None) if group.all_cores else Worker.start,
        )
        yield make_cases(group, measured), unmeasured(group, measured)


def taking_part(group: Group, rivals: Sequence[Rival]) -> list[Rival]:
    """Who has what the group needs, ourselves twice where stacks can be joined; references have one thread."""
    if group.is_tree:
        return [rival for rival in rivals if rival in TREES]
    if group.all_cores:
        return [OURS_ALL_CORES, *(rival for rival in rivals if rival in PEERS)]
    without = [] if LAYOUTS[group.request["layout"]].shared else [OURS_BY_DEFAULT]
    return [rival for rival in rivals if rival not in without]


def measure_plays(plan: Plan, rivals: Sequence[Rival]) -> Iterator[Found]:
    """Each play of several on one buffer."""
    taking_part = [rival for rival in rivals if rival in SHARING]
    for play, as_cases in plan.plays:
        print(f"{play.group.name}: {plan.num_rounds} rounds", flush=True)
        measured = measure_play(play, taking_part, num_rounds=plan.num_rounds)
        yield as_cases(play, measured), unmeasured(play.group, measured)
