"""`drivetrain bench sim`: the simulators against what people would use, and the engines against XLA.

speed        steps per CPU-second of everybody at the same scenes, in turn
equality     every engine beside XLA
compiling    how long until a kernel can run

Everybody is a process of its own with one computation thread.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from drivetrain.bench.effort import require_at_least
from drivetrain.bench.machine import gpus, origin_of
from drivetrain.bench.only import named
from drivetrain.bench.process import Rival, is_installed
from drivetrain.bench.publish import Outputs, present, publish
from drivetrain.bench.report import EVERYTHING, INTERRUPTED, Case, Report, Skipped, left_out
from drivetrain.bench.sim.cases import compile_cases, equality_case, median_case, not_measured, speed_case
from drivetrain.bench.sim.causes import with_causes
from drivetrain.bench.sim.contenders import DISTRIBUTIONS, EVERYBODY, GYMNAX, OF_CUDA, ON_CPU, OURS, SIM
from drivetrain.bench.sim.devices import GPU, Device, device_of
from drivetrain.bench.sim.paper import paper_plan
from drivetrain.bench.sim.pictures import draw
from drivetrain.bench.sim.plan import Plan, compiling, full_plan, quick_plan
from drivetrain.bench.sim.rounds import OPEN_TIMEOUT_S, measure
from drivetrain.bench.worker import Worker
from drivetrain.core.errors import InvalidInput, MissingExtra, RunError
from drivetrain.core.extras import install_command
from drivetrain.core.outputs import require_folders

CHECKER = Rival(
    name="equality", module="drivetrain.bench.sim.equality", requires=("jax",), install=SIM, variables=ON_CPU
)
COMPILER = Rival(
    name="compiling", module="drivetrain.bench.sim.compiling", requires=("jax",), install=SIM, variables=ON_CPU
)
WEAKNESSES = (
    "Actions are supplied and random, but for cases with a policy or a learner: only where updates are named are they, "
    "and what else a training loop adds, in the numbers.",
    "Random actions end episodes early; where a trained policy makes them long, whoever computes a reset in every step "
    "loses less.",
    "XLA writes its results to memory and moves its buffers between steps, where a kernel of ours keeps the state of "
    "eight or sixteen environments at hand for all K steps: at K = 1 the ratios are smaller.",
    "Float observations are written at the speed of memory by both sides: ratios shrink with the size of what is "
    "recorded.",
    "At N = 1 a call of 64 steps is mostly its own overhead, ours and JAX's; both would gain from a larger K.",
    "A shared or virtual machine: only the ratios of one run count, and steps per CPU-second still feel shared caches "
    "and memory.",
)
PAPER_WEAKNESSES = (
    "Actions are supplied and random, and nothing is recorded: what observations and a training loop add is not in "
    "these numbers.",
    *WEAKNESSES[1:3],
    *WEAKNESSES[4:],
    "Unfused steps are calls from Python, one for each, and most of what fusing gains is those calls where a step is "
    "short or the environments are few.",
)
PAPER_TITLE = "Simulators, vectorised and fused: the comparisons of arXiv 2207.07736 on "
GPU_WEAKNESSES = (
    "Actions are supplied and random, lie on the device, and results stay there: what a training loop adds is not in "
    "these numbers, nor what a host that needs them would wait for.",
    f"{GPU.num_calls} calls follow each other before anybody waits for the device, in every process: what a call costs "
    "is what is left of it where calls overlap.",
    "One simulator (`gymnasium.make`) is a core's, all else is the device's: that ratio is one of two machines.",
    "XLA computes what it is given, a scan of a vmap; PyTorch runs the operations of the same program one by one, or "
    "compiled in pieces by torch.compile. A simulator written by hand for either may be quicker.",
    "Rates are by the clock, in turn; clocks of a GPU that others use change between the turns.",
)
QUICK_WEAKNESS = "A quick run: two short rounds of a few cases. It shows that everything runs, not who is ahead."


@dataclass(frozen=True, kw_only=True)
class Options(Outputs):
    """Measure the simulators against Gymnasium, EnvPool and gymnax, and compare the engines with XLA."""

    quick: bool = False
    """A minute or two; the numbers then mean little."""
    full_equality: bool = False
    """Compare every environment on every engine with XLA, and millions of random words; else a few."""
    only: str = ""
    """Only cases whose group and name contain this, or one of these: "CartPole", "uint8", "equality,compiling"."""
    paper: bool = False
    """The comparisons of arXiv 2207.07736 instead: curves over N and K, and along the environment Knob."""
    device: Literal["auto", "cpu", "gpu"] = "auto"
    """With --paper: one core of the CPU, or a GPU; auto: a GPU where the engine `cuda` runs."""
    plots: Path | None = None
    """With --paper: draw the curves into this folder."""
    rounds: int | None = None
    """How often everybody is timed; None: as planned."""

    def check(self) -> None:
        """Refuse what cannot be run, before anything is.

        Raises:
            InvalidInput: A flag is out of range, a folder is missing, or nothing is left to run.
        """
        require_at_least(1, rounds=self.rounds)
        require_folders(self.json, self.markdown)
        if self.plots is not None and not (self.paper and self.plots.is_dir()):
            raise InvalidInput(f"--plots {self.plots}: expected a folder that exists, together with --paper")
        if self.plots is not None and not is_installed("matplotlib"):
            raise InvalidInput(f"--plots {self.plots}: matplotlib is not installed: {install_command('plot')}")
        if self.full_equality and (self.quick or self.paper):
            raise InvalidInput("--full-equality: expected neither --quick nor --paper, which compare less")
        if self.device != "auto" and not self.paper:
            raise InvalidInput(f"--device {self.device}: only --paper has a choice; the other cases are of the CPU")

    def names(self, device: Device | None) -> list[str]:
        """The cases that are asked for, whoever of the others is installed.

        Raises:
            InvalidInput: `only` has a part that is in no name.
        """
        everybody = device.rivals if device else EVERYBODY
        return named(self.plan(device, everybody, 1.0).names(), self.only, kind="case")

    def plan(self, device: Device | None, rivals: Sequence[Rival], share: float) -> Plan:
        """What could be run for these options, with --paper on a device; see `full_plan`."""
        if device is not None:
            plan = paper_plan(device, rivals, quick=self.quick)
        elif self.quick:
            plan = quick_plan(rivals, share)
        else:
            plan = full_plan(rivals, share, all_equal=self.full_equality)
        return replace(plan, num_rounds=plan.num_rounds if self.rounds is None else self.rounds)


def run(options: Options, words: Sequence[str]) -> int:
    """Measure, print the page, and write what was asked for; the exit code.

    Raises:
        InvalidInput: The options cannot be run; nothing was.
        MissingExtra: What our own engines need is not there, or what all the cases need.
        RunError: Our own process failed in some of the cases; the report has the others.
    """
    options.check()
    if (missing := OURS.missing()) is not None:
        raise MissingExtra(f"drivetrain.sim is {missing.reason}: {missing.remedy}")
    device = device_of(options.device) if options.paper else None
    names = options.names(device)
    report, failed = make_report(options, device, names, words)
    publish(report, options)
    if options.plots is not None:
        for path in draw(report.as_json(), options.plots):
            print(f"written to {path}")
    if failed:
        raise RunError(f"our own process failed in {len(failed)} cases, first in {failed[0].name}: {failed[0].reason}")
    return 0


@dataclass
class Found:
    """What came of several cases."""

    cases: list[Case] = field(default_factory=list[Case])
    skipped: list[Skipped] = field(default_factory=list[Skipped])
    failed: list[Skipped] = field(default_factory=list[Skipped])
    """Those in which our own process failed."""


def make_report(
    options: Options, device: Device | None, names: Collection[str], words: Sequence[str]
) -> tuple[Report, list[Skipped]]:
    """Run everybody who is here, and gather it, what there is when it is interrupted (Ctrl-C); beside it the cases in
    which our own process failed.

    Raises:
        MissingExtra: What all the cases need is not there.
    """
    origin = origin_of(words, (*DISTRIBUTIONS, *OF_CUDA) if device is GPU else DISTRIBUTIONS)
    share = 1.0 if "avx512f" in origin.machine["simd"] else 0.5
    rivals, absent = present(device.rivals if device else EVERYBODY)
    plan, lacking = fitting(options.plan(device, rivals, share).only(names), rivals)
    if not plan.names():
        remedies = dict.fromkeys(f"{one.reason}: {one.remedy}" for one in lacking or absent)
        raise MissingExtra(f"nothing that these cases compare can run here; {'; '.join(remedies)}")
    measured, others = Found(), Found()
    try:
        measure_speed(plan, measured)
        ask_about(plan, others)
    except KeyboardInterrupt:  # what there is by now is reported
        others.skipped += left_out({EVERYTHING: INTERRUPTED})
    speed, failed = measured.cases, [*measured.failed, *others.failed]
    title, weaknesses = "Simulators: steps per CPU-second, and equality with XLA", weaknesses_of(device)
    if device is not None:
        speed = with_causes(speed, plan, device)
        title = PAPER_TITLE + device.words
        origin = replace(origin, machine={**origin.machine, "device": device.name, "gpus": gpus()})
    report = Report(
        title=title,
        origin=origin,
        weaknesses=[*([QUICK_WEAKNESS] if options.quick else []), *weaknesses],
        cases=[*median_case(speed, share), *speed, *others.cases],
        skipped=[*absent, *lacking, *measured.skipped, *others.skipped, *failed],
    )
    return report, failed


def weaknesses_of(device: Device | None) -> Sequence[str]:
    """What is weak about the numbers of the usual cases, or about those of the paper's on a device."""
    if device is None:
        return WEAKNESSES
    return GPU_WEAKNESSES if device is GPU else PAPER_WEAKNESSES


def fitting(plan: Plan, rivals: Sequence[Rival]) -> tuple[Plan, list[Skipped]]:
    """What of a plan can be run by those who are here, and what is left out."""
    rest = plan if GYMNAX in rivals else plan.without_gymnax()
    num_left_out = len(plan.names()) - len(rest.names())
    if not num_left_out:
        return plan, []
    name = f"{num_left_out} cases of gymnax's environments"
    return rest, [Skipped(name=name, reason="not installed: gymnax", remedy=GYMNAX.install)]


def measure_speed(plan: Plan, found: Found) -> None:
    """Every trial."""
    for trial in plan.trials:
        print(trial.full_name, flush=True)
        measured = measure(trial.scenes, num_rounds=plan.num_rounds * trial.repeats, slice_s=plan.slice_s)
        found.cases.append(speed_case(trial, measured))
        for who, skipped in not_measured(trial, measured).items():
            ours = OURS.name in (who, trial.scenes[who][0].name) and who in measured.failed
            (found.failed if ours else found.skipped).append(skipped)


def ask_about(plan: Plan, found: Found) -> None:
    """Every comparison and compilation, each in a fresh process."""
    for comparison in plan.comparisons:
        said = ask(CHECKER, vars(comparison), comparison.name, found)
        if said is None:
            continue
        found.cases.append(equality_case(comparison, said))
        if said["num_wrong"]:
            why = f"{said['num_wrong']:,} of {said['num_compared']:,} numbers are wrong"
            found.failed.append(Skipped(name=comparison.name, reason=why, remedy=f'--only "{comparison.name}"'))
    for env in plan.compiled:
        said = ask(COMPILER, {"env": env}, compiling(env), found)
        found.cases += [] if said is None else compile_cases(env, said)


def ask(rival: Rival, request: Mapping[str, Any], case: str, found: Found) -> dict[str, Any] | None:
    """One answer of a process that is started for it; None where it has none, which `found` then says of the case."""
    print(f"{rival.name}: {', '.join(map(str, request.values()))}", flush=True)
    worker = Worker.start(rival)
    try:
        said = worker.ask(request, timeout_s=OPEN_TIMEOUT_S)
    except RunError as error:
        found.failed.append(Skipped(name=case, reason=f"failed: {error}", remedy=f'--only "{case}"'))
        return None
    finally:
        worker.end()
    if "missing" in said:
        found.skipped.append(Skipped(name=case, reason=said["missing"], remedy="engine xla"))
        return None
    return said
