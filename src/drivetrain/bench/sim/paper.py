"""The comparisons of arXiv 2207.07736 on the CPU: vectorised, fused, both; and where each ratio comes from.

A fused call takes K = 64 steps with the state at hand. The unfused one is the same kernel with K = 1: it is called
for every step, and reads and writes the whole state. `Knob` is the paper's axis: bytes of state that a step touches,
and bytes that it does not.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from drivetrain.bench.process import Rival
from drivetrain.bench.report import Case
from drivetrain.bench.sim.cases import UNFUSED, XLA_UNFUSED
from drivetrain.bench.sim.contenders import MAKE, OURS, XLA
from drivetrain.bench.sim.plan import Plan, Trial
from drivetrain.bench.sim.scene import Scene

NUMS_ENVS = (1, 16, 64, 256, 1024, 4096, 16384)
NUMS_STEPS = (1, 2, 4, 16, 64, 256)
KNOBS = ((16, 0), (64, 0), (256, 0), (1024, 0), (4096, 0), (64, 1024), (64, 4096))
"""(bytes that a step reads and writes, bytes that it does not touch)."""
KNOB_NUMS_ENVS = (64, 1024, 16384)
K = 64
VECTORISED = "CartPole over N: one simulator, many (K = 1), many and fused (K = 64)"
OVER_STEPS = "CartPole over K, N = 1,024"
KEYS_NBYTES, DONE_NBYTES, ACTION_NBYTES, COUNT_NBYTES = 8, 1, 4, 4


def fused(num_envs: int) -> str:
    """Heading of the table along `Knob`."""
    return f"Knob, fused and unfused, N = {num_envs:,}"


def paper_plan(rivals: Sequence[Rival], *, quick: bool) -> Plan:
    """All points of all curves; quick: two of each."""
    envs, steps, knobs, knob_envs = NUMS_ENVS, NUMS_STEPS, KNOBS, KNOB_NUMS_ENVS
    if quick:
        envs, steps, knobs, knob_envs = (1, 1024), (1, 64), ((64, 0), (64, 4096)), (1024,)
    return Plan(
        trials=[
            *(over_envs(num_envs, MAKE in rivals) for num_envs in envs),
            *(over_steps(num_steps) for num_steps in steps),
            *(along_knob(live, dead, num_envs) for num_envs in knob_envs for live, dead in knobs),
        ],
        comparisons=[],
        compiled=[],
        num_rounds=2 if quick else 5,
        slice_s=0.05 if quick else 0.2,
    )


def over_envs(num_envs: int, has_gymnasium: bool) -> Trial:
    """N CartPoles in every form."""
    scene = Scene(env="CartPole-v1", num_envs=num_envs, num_steps=K)
    single = {MAKE.name: (MAKE, replace(scene, num_envs=1))} if has_gymnasium else {}
    forms = {
        OURS.name: (OURS, scene),
        UNFUSED: (OURS, replace(scene, num_steps=1)),
        XLA.name: (XLA, scene),
        XLA_UNFUSED: (XLA, replace(scene, num_steps=1)),
    }
    return Trial(group=VECTORISED, name=f"N = {num_envs:,}", scenes=forms | single)


def over_steps(num_steps: int) -> Trial:
    """K steps per call."""
    scene = Scene(env="CartPole-v1", num_envs=1024, num_steps=num_steps)
    return Trial(group=OVER_STEPS, name=f"K = {num_steps:,}", scenes={OURS.name: (OURS, scene), XLA.name: (XLA, scene)})


def along_knob(live: int, dead: int, num_envs: int) -> Trial:
    """One place on the axis."""
    options = (("live_nbytes", live), ("dead_nbytes", dead))
    scene = Scene(env="Knob", num_envs=num_envs, num_steps=K, options=options)
    return Trial(
        group=fused(num_envs),
        name=f"{live:,} bytes touched, {dead:,} not",
        scenes={OURS.name: (OURS, scene), UNFUSED: (OURS, replace(scene, num_steps=1))},
    )


@dataclass(frozen=True, kw_only=True)
class Cause:
    """Where the difference between an unfused and a fused step comes from, in nanoseconds per step.

    Attributes:
        fused: A fused step.
        unfused: An unfused one.
        calls: Of the difference, the calls: what a call of one step of one environment takes, over N.
        dead: Of the difference, state that no step touches and an unfused step copies all the same.
        moved: Of the difference, the rest: state that steps touch, read and written each time.
    """

    fused: float
    unfused: float
    calls: float
    dead: float
    moved: float

    @property
    def word(self) -> str:
        """The largest of the three."""
        parts = {"calls": self.calls, "untouched state": self.dead, "touched state": self.moved}
        return max(parts, key=lambda name: parts[name])


def with_causes(cases: Sequence[Case], plan: Plan) -> list[Case]:
    """The cases, those along `Knob` with where their ratio comes from."""
    by_name = {case.name: case for case in cases}
    alone = by_name.get(f"{VECTORISED}: N = 1")
    call_ns = nanoseconds(alone, UNFUSED) if alone is not None else None
    found: list[Case] = []
    for trial, case in zip(plan.trials, cases, strict=True):
        if not trial.group.startswith("Knob") or call_ns is None:
            found.append(case)
            continue
        scene = trial.scenes[OURS.name][1]
        live, dead = (int(number) for _, number in scene.options)
        bare = by_name.get(f"{trial.group}: {along_knob(live, 0, scene.num_envs).name}")
        cause = cause_of(case, bare, call_ns / scene.num_envs)
        found.append(case if cause is None else explained(case, cause, live, dead))
    return found


def nanoseconds(case: Case, name: str) -> float | None:
    """CPU time of a step, from a rate in million steps per CPU-second."""
    rate = case.value(name)
    return None if not rate else 1e3 / rate


def cause_of(case: Case, bare: Case | None, call_ns: float) -> Cause | None:
    """Split the difference; `bare` is the same without untouched state, `call_ns` a call's share of a step."""
    fused_ns, unfused_ns = nanoseconds(case, OURS.name), nanoseconds(case, UNFUSED)
    if fused_ns is None or unfused_ns is None:
        return None
    without = None if bare is None else nanoseconds(bare, UNFUSED)
    difference = max(0.0, unfused_ns - fused_ns)
    calls = min(difference, call_ns)
    dead = min(difference - calls, max(0.0, unfused_ns - without)) if without is not None else 0.0
    return Cause(fused=fused_ns, unfused=unfused_ns, calls=calls, dead=dead, moved=difference - calls - dead)


def explained(case: Case, cause: Cause, live: int, dead: int) -> Case:
    """The case with its ratio in words."""
    state = live + dead + COUNT_NBYTES
    moved = 2 * (state + DONE_NBYTES) + KEYS_NBYTES
    sentence = (
        f"{case.name.rpartition(': ')[2]}: {cause.unfused / cause.fused:.1f}×, mostly {cause.word}. A step takes "
        f"{cause.unfused:.1f} ns unfused and {cause.fused:.1f} ns fused; of the difference {cause.calls:.1f} ns are "
        f"calls, {cause.moved:.1f} ns touched and {cause.dead:.1f} ns untouched state. Unfused it moves "
        f"{moved + ACTION_NBYTES:,} bytes, fused {moved / K + ACTION_NBYTES:,.0f}. One core on both sides."
    )
    return replace(case, notes=[sentence])
