"""`drivetrain bench learners`: what two learners gain, on two cores without an actor beside, and what bfloat16 does.

Each form (one learner in float32, and two, or one in bfloat16) is a process that stays; they are asked in turn, so
that a slow moment of the machine hits all. A run calls all the time, so the first calls of a round, after the pause in
which the others had their turn, are told by themselves and do not count. Beside two learners stand two that have
nothing to do with each other, at once, with half of the batch each: what the machine gives to two cores, of which
learners that meet cannot make more.
"""

import statistics
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace

from drivetrain.bench.effort import require_at_least
from drivetrain.bench.learners.worker import Job
from drivetrain.bench.machine import origin_of
from drivetrain.bench.process import Rival
from drivetrain.bench.publish import Outputs, publish
from drivetrain.bench.report import Case, Report, Target
from drivetrain.bench.worker import Worker
from drivetrain.core.errors import InvalidInput
from drivetrain.core.machine import num_cores
from drivetrain.core.outputs import require_folders

RIVAL = Rival(name="a learner's process", module="drivetrain.bench.learners.worker", requires=(), install="")
TIMEOUT_S = 600.0  # to compile a call, and for those of a round
ONE = "one learner"
APART = "two apart, half a batch each"
CALLS_PER_ROUND = 15
LEAD_IN = 5
"""Calls of a round before those that count: after a pause the threads of two learners at first share a core."""
# (what is updated, how far ahead of one learner in float32 it shall be)
FORMS: Sequence[tuple[Job, float | None]] = (
    (Job(algo="sac", batch_size=256, width=256, num_learners=2), 1.45),
    (Job(algo="sac", batch_size=1024, width=256, num_learners=2), 1.8),
    (Job(algo="td3", batch_size=256, width=256, num_learners=2), None),
    (Job(algo="ppo", batch_size=4_096, width=64, num_learners=2), None),
    (Job(algo="ppo", batch_size=512, width=64, num_learners=2, updates_per_call=32), None),
    (Job(algo="ppo", batch_size=256, width=64, num_learners=2, updates_per_call=32), None),
    (Job(algo="dqn", batch_size=64, width=256, num_learners=2, updates_per_call=32), None),
    (Job(algo="dqn", batch_size=64, width=64, num_learners=2, updates_per_call=32), None),
    (Job(algo="sac", batch_size=256, width=256, num_learners=1, precision="bfloat16"), None),
    (Job(algo="sac", batch_size=1024, width=256, num_learners=1, precision="bfloat16"), None),
)
WEAKNESSES = (
    "Made-up transitions of HalfCheetah's shapes: updates alone, without replay, actors or evaluator beside.",
    "Any other process on the two cores holds up two learners and not one; an idle machine is needed.",
    "A shared or virtual machine: only the ratios of one run count, and two cores of it may give less than twice one: "
    f'"{APART}" are two processes at once that never wait for each other, and bound what sharing a batch can gain.',
    "What counts are calls that follow each other, as a run makes them; the first call after a pause takes longer, and "
    "with two learners more so (see the notes): runs that pause between calls gain less.",
    "bfloat16 is for GPUs, and for CPUs that multiply it (amx_tile below): on others its numbers are multiplied as "
    "float32 after rounding, slower than without.",
)
QUICK_WEAKNESS = "A quick run: two rounds. It shows that everything runs, not what is gained."


@dataclass(frozen=True, kw_only=True)
class Options(Outputs):
    """Measure updates by two learners against the same updates by one."""

    quick: bool = False
    """The first case alone, two rounds unless more are asked for; the numbers then mean little."""
    rounds: int | None = None
    """How often all forms of a case are asked for fifteen calls, of which the last ten count; by default 12."""

    def num_rounds(self) -> int:
        """What of it is run."""
        return (2 if self.quick else 12) if self.rounds is None else self.rounds

    def check(self) -> None:
        """Refuse what cannot be measured.

        Raises:
            InvalidInput: A flag is out of range, or there is one core.
        """
        require_at_least(1, rounds=self.num_rounds())
        if num_cores() < 2:
            raise InvalidInput("two learners need two cores, and there is one here")
        require_folders(self.json, self.markdown)


def run(options: Options, words: Sequence[str]) -> int:
    """Measure, print the page, and write what was asked for; the exit code.

    Raises:
        InvalidInput: The options cannot be run; nothing was.
        RunError: A worker ended early.
    """
    options.check()
    forms = FORMS[:1] if options.quick else FORMS
    report = Report(
        title="Two learners, and bfloat16, against one learner",
        origin=origin_of(words, ("jax", "jaxlib", "optax", "numpy")),
        weaknesses=[*([QUICK_WEAKNESS] if options.quick else []), *WEAKNESSES],
        cases=[measure(job, aim, options.num_rounds()) for job, aim in forms],
    )
    publish(report, options)
    return 0


def measure(job: Job, aim: float | None, rounds: int) -> Case:
    """One case: its forms in turn; a sample is the median of what counts of a round, of two apart the slower one's."""
    name = f"{job.algo}, 2 x {job.width} units, batch {job.batch_size}"
    name += "" if job.precision == "float32" else f", one learner in {job.precision}"
    print(name, flush=True)
    alone = replace(job, num_learners=1, precision="float32")
    forms = {ONE: [alone], "ours": [job]}
    if job.num_learners == 2:
        forms[APART] = [replace(alone, batch_size=job.batch_size // 2)] * 2
    calls: dict[str, list[list[float]]] = {form: [] for form in forms}
    with ExitStack() as stack:
        everybody = {form: [stack.enter_context(opened(job)) for job in jobs] for form, jobs in forms.items()}
        for _ in range(rounds):
            for form, workers in everybody.items():
                calls[form].append(max(ask(workers), key=counted))
    medians = {form: [counted(asked) for asked in rows] for form, rows in calls.items()}
    first = {form: statistics.median(asked[0] for asked in rows) for form, rows in calls.items()}
    return Case(
        name=name,
        unit="us per update",
        better="lower",
        samples={"ours": medians.pop("ours")},
        references=medians,
        smallest={form: min(map(min, rows)) for form, rows in calls.items()},
        notes=["the first call after a pause: " + ", ".join(f"{form} {us:,.0f} us" for form, us in first.items())],
        targets=() if aim is None else (Target(against=ONE, aim=aim),),
    )


def counted(calls: Sequence[float]) -> float:
    """The median of the calls of a round that count."""
    return statistics.median(calls[LEAD_IN:])


@contextmanager
def opened(job: Job) -> Generator[Worker]:
    """A process that is ready to be asked; ended afterwards.

    Raises:
        RunError: It could not compile the call.
    """
    worker = Worker.start(RIVAL)
    try:
        worker.ask({"job": asdict(job)}, timeout_s=TIMEOUT_S)
        yield worker
    finally:
        worker.end()


def ask(workers: Sequence[Worker]) -> list[list[float]]:
    """Microseconds per update of each of a round's calls, of workers that begin at once.

    Raises:
        RunError: One has ended.
    """
    for worker in workers:
        worker.send({"num_calls": CALLS_PER_ROUND})
    return [worker.receive(TIMEOUT_S)["us"] for worker in workers]
