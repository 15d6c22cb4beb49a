"""Where the ratios of `--paper` come from: calls, bandwidth, or state that no step touches. In words, per case.

What a call costs is what a step of one environment takes, N = 1 and K = 1; at N environments each step has the N-th
part of it. State that no step touches shows along `Knob`, beside the same without it. The rest is bandwidth: what steps
read and write.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from drivetrain.bench.report import Case
from drivetrain.bench.sim.cases import UNFUSED
from drivetrain.bench.sim.contenders import MAKE, OURS, TORCH, TORCH_COMPILED, XLA
from drivetrain.bench.sim.devices import Device
from drivetrain.bench.sim.paper import KNOB, OVER_STEPS, PYTORCH, VECTORISED, knob_name
from drivetrain.bench.sim.plan import Plan
from drivetrain.bench.sim.scene import Scene
from drivetrain.bench.sim.trial import Trial

KEYS_NBYTES, DONE_NBYTES, ACTION_NBYTES, COUNT_NBYTES = 8, 1, 4, 4
CARTPOLE_NBYTES = 20
"""Four floats and a count of steps."""

Cases = Mapping[str, Case]
Write = Callable[[Cases, Trial, Case], str]


@dataclass(frozen=True, kw_only=True)
class Cause:
    """Where the difference between a slow and a fast step comes from, in nanoseconds per step.

    Attributes:
        fast: Of one form.
        slow: Of the other.
        calls: Of the difference, the calls.
        dead: Of the difference, state that no step touches and the slow form copies all the same.
        moved: Of the difference, the rest: state that steps touch, read and written each time.
    """

    fast: float
    slow: float
    calls: float
    dead: float
    moved: float

    @property
    def word(self) -> str:
        """The largest of the three."""
        parts = {"calls": self.calls, "untouched state": self.dead, "touched state": self.moved}
        return max(parts, key=lambda name: parts[name])

    @property
    def text(self) -> str:
        """The ratio, and what it is made of."""
        if self.slow <= self.fast:
            return f"{self.slow / self.fast:.2f}×: no gain"
        return (
            f"{self.slow / self.fast:.1f}×, mostly {self.word}; of the {self.slow - self.fast:.1f} ns between them "
            f"{self.calls:.1f} are calls, {self.moved:.1f} touched and {self.dead:.1f} untouched state"
        )


def with_causes(cases: Sequence[Case], plan: Plan, device: Device) -> list[Case]:
    """The cases with where their ratios come from, those that can be split; of the first trials, if not of all."""
    by_name = {case.name: case for case in cases}
    found: list[Case] = []
    for trial, case in zip(plan.trials, cases, strict=False):
        write = next(write for group, write in SENTENCES.items() if trial.group.startswith(group))
        sentence = write(by_name, trial, case)
        found.append(replace(case, notes=[*case.notes, *([f"{sentence} {device.text}"] if sentence else [])]))
    return found


def nanoseconds(case: Case | None, name: str) -> float | None:
    """Time of a step, from a rate in million steps per second, of the CPU or of the clock as the case has it."""
    rate = None if case is None else case.value(name)
    return None if not rate else 1e3 / rate


def cause_of(fast: float | None, slow: float | None, calls: float | None, bare: float | None) -> Cause | None:
    """Split a difference.

    Args:
        fast: Nanoseconds of a step, as all others.
        slow: Of a step in the slow form.
        calls: A call's share of a step in the slow form.
        bare: Of a step in the slow form without untouched state.
    """
    if fast is None or slow is None or calls is None:
        return None
    difference = max(0.0, slow - fast)
    calls = min(difference, calls)
    dead = min(difference - calls, max(0.0, slow - bare)) if bare is not None else 0.0
    return Cause(fast=fast, slow=slow, calls=calls, dead=dead, moved=difference - calls - dead)


def call_ns(by_name: Cases, name: str, num_envs: int, group: str = VECTORISED) -> float | None:
    """A call's share of each of N environments' steps."""
    whole = nanoseconds(by_name.get(f"{group}: N = 1"), name)
    return None if whole is None else whole / num_envs


def moved_nbytes(scene: Scene) -> tuple[float, float]:
    """Bytes that a step reads and writes with K = 1, and with the scene's K."""
    state = sum(int(size) for _, size in scene.options) + COUNT_NBYTES if scene.options else CARTPOLE_NBYTES
    whole = 2 * (state + DONE_NBYTES) + KEYS_NBYTES
    return whole + ACTION_NBYTES, whole / scene.num_steps + ACTION_NBYTES


def knob_sentence(by_name: Cases, trial: Trial, case: Case) -> str:
    """Fused beside unfused."""
    scene = trial.scenes[OURS.name][1]
    live, _ = (int(number) for _, number in scene.options)
    bare = by_name.get(f"{trial.group}: {knob_name(live, 0)}")
    calls = call_ns(by_name, UNFUSED, scene.num_envs)
    cause = cause_of(nanoseconds(case, OURS.name), nanoseconds(case, UNFUSED), calls, nanoseconds(bare, UNFUSED))
    return "" if cause is None else f"{trial.name}: {fusion_text(cause, scene)}"


def fusion_text(cause: Cause, scene: Scene) -> str:
    """A fused step beside an unfused one."""
    unfused, fused = moved_nbytes(scene)
    return (
        f"{cause.slow:.1f} ns a step unfused, {cause.fast:.1f} ns fused: {cause.text}. Unfused a step moves "
        f"{unfused:,.0f} bytes, with K = {scene.num_steps} {fused:,.0f}."
    )


def envs_sentence(by_name: Cases, trial: Trial, case: Case) -> str:
    """Many environments beside one, and fused beside unfused."""
    scene = trial.scenes[OURS.name][1]
    ours, unfused, single = (nanoseconds(case, name) for name in (OURS.name, UNFUSED, MAKE.name))
    cause = cause_of(ours, unfused, call_ns(by_name, UNFUSED, scene.num_envs), None)
    if cause is None:
        return ""
    beside = ""
    if single is not None:
        beside = (
            f" gymnasium.make takes {single:,.0f} ns a step of its one environment, {single / cause.slow:,.1f}× this "
            f"unfused and {single / cause.fast:,.1f}× fused: its step is Python, on one core."
        )
    return f"{trial.name}: {fusion_text(cause, scene)}{beside}"


def steps_sentence(by_name: Cases, trial: Trial, case: Case) -> str:
    """K steps per call beside one."""
    scene = trial.scenes[OURS.name][1]
    alone = nanoseconds(by_name.get(f"{OVER_STEPS}: K = 1"), OURS.name)
    share = call_ns(by_name, UNFUSED, scene.num_envs)
    if scene.num_steps == 1 or share is None:
        return ""
    cause = cause_of(nanoseconds(case, OURS.name), alone, share * (1 - 1 / scene.num_steps), None)
    return "" if cause is None else f"{trial.name}, ours: {fusion_text(cause, scene)}"


def frameworks_sentence(by_name: Cases, trial: Trial, case: Case) -> str:
    """XLA beside PyTorch."""
    scene = trial.scenes[OURS.name][1]
    parts: list[str] = []
    for name in (XLA.name, TORCH_COMPILED.name, TORCH.name):
        whole, calls = nanoseconds(case, name), call_ns(by_name, name, scene.num_envs, PYTORCH)
        if whole is not None and calls is not None:
            parts.append(f"{name} {whole:,.1f} ns, at most {min(whole, calls):,.1f} of them calls")
    nbytes = moved_nbytes(scene)[0]
    return (
        f"{trial.name}, a step: {'; '.join(parts)}. Calls are what does not grow with N: of operations in PyTorch, "
        f"of turns of a loop in XLA. State and action of a step are {nbytes:,.0f} bytes in and out on both sides; what "
        "operations leave in memory between them comes on top."
    )


SENTENCES: dict[str, Write] = {
    VECTORISED: envs_sentence,
    OVER_STEPS: steps_sentence,
    PYTORCH: frameworks_sentence,
    KNOB: knob_sentence,
}
