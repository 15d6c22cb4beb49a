"""The comparisons of arXiv 2207.07736 on the CPU: vectorised, fused, both, and XLA beside PyTorch.

A fused call takes K = 64 steps with the state at hand. The unfused one is the same kernel with K = 1: it is called
for every step, and reads and writes the whole state. `Knob` is the paper's axis: bytes of state that a step touches,
and bytes that it does not. `causes.py` says where each ratio comes from.
"""

from collections.abc import Sequence
from dataclasses import replace

from drivetrain.bench.process import Rival
from drivetrain.bench.sim.cases import UNFUSED, XLA_UNFUSED
from drivetrain.bench.sim.contenders import MAKE, OURS, TORCH, TORCH_COMPILED, XLA
from drivetrain.bench.sim.plan import Plan, Trial
from drivetrain.bench.sim.rounds import everybody
from drivetrain.bench.sim.scene import Scene

NUMS_ENVS = (1, 16, 64, 256, 1024, 4096, 16384)
NUMS_STEPS = (1, 2, 4, 16, 64, 256)
KNOBS = ((16, 0), (64, 0), (256, 0), (1024, 0), (4096, 0), (64, 1024), (64, 4096))
"""(bytes that a step reads and writes, bytes that it does not touch)."""
KNOB_NUMS_ENVS = (64, 1024, 16384)
PYTORCH_NUMS_ENVS = (1, 64, 1024, 16384)
K, PYTORCH_K = 64, 16
VECTORISED = "CartPole over N: one simulator, many (K = 1), many and fused (K = 64)"
OVER_STEPS = "CartPole over K, N = 1,024"
PYTORCH = f"XLA against PyTorch: CartPole over N, K = {PYTORCH_K}"


def fused(num_envs: int) -> str:
    """Heading of the table along `Knob`."""
    return f"Knob, fused and unfused, N = {num_envs:,}"


def paper_plan(rivals: Sequence[Rival], *, quick: bool) -> Plan:
    """All points of all curves; quick: two of each."""
    envs, steps, knobs, knob_envs = NUMS_ENVS, NUMS_STEPS, KNOBS, KNOB_NUMS_ENVS
    torch_envs = PYTORCH_NUMS_ENVS
    if quick:
        envs, steps, knobs, knob_envs, torch_envs = (1, 1024), (1, 64), ((64, 0), (64, 4096)), (1024,), (1, 1024)
    frameworks = [rival for rival in (OURS, XLA, TORCH_COMPILED, TORCH) if rival in rivals]
    return Plan(
        trials=[
            *(over_envs(num_envs, MAKE in rivals) for num_envs in envs),
            *(over_steps(num_steps) for num_steps in steps),
            *(along_knob(live, dead, num_envs) for num_envs in knob_envs for live, dead in knobs),
            *(over_frameworks(num_envs, frameworks) for num_envs in torch_envs if TORCH in frameworks),
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


def over_frameworks(num_envs: int, frameworks: Sequence[Rival]) -> Trial:
    """The same program by XLA and by PyTorch, ours beside them."""
    scene = Scene(env="CartPole-v1", num_envs=num_envs, num_steps=PYTORCH_K)
    return Trial(group=PYTORCH, name=f"N = {num_envs:,}", scenes=everybody(frameworks, scene))
