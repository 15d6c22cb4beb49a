"""The comparisons of arXiv 2207.07736: vectorised, fused, both, and XLA beside PyTorch; on one core, or on a GPU.

A fused call takes K = 64 steps with the state at hand. The unfused one is the same kernel with K = 1: it is called
for every step, and reads and writes the whole state. `Knob` is the paper's axis: bytes of state that a step touches,
and bytes that it does not. `causes.py` says where each ratio comes from.
"""

from collections.abc import Sequence
from dataclasses import replace

from drivetrain.bench.process import Rival
from drivetrain.bench.sim.cases import UNFUSED, XLA_UNFUSED
from drivetrain.bench.sim.contenders import MAKE, OURS, TORCH, TORCH_COMPILED, XLA
from drivetrain.bench.sim.devices import Device
from drivetrain.bench.sim.plan import Plan
from drivetrain.bench.sim.scene import Scene
from drivetrain.bench.sim.trial import Trial

NUMS_STEPS = (1, 2, 4, 16, 64, 256)
KNOBS = ((16, 0), (64, 0), (256, 0), (1024, 0), (4096, 0), (64, 1024), (64, 4096))
"""(bytes that a step reads and writes, bytes that it does not touch)."""
K, PYTORCH_K = 64, 16
VECTORISED = "CartPole over N: one simulator, many (K = 1), many and fused (K = 64)"
OVER_STEPS = "CartPole over K, N = 1,024"
PYTORCH = f"XLA against PyTorch: CartPole over N, K = {PYTORCH_K}"
KNOB = "Knob, fused and unfused, N = "


def paper_plan(device: Device, rivals: Sequence[Rival], *, quick: bool) -> Plan:
    """All points of all curves; quick: two of each.

    Args:
        device: Where.
        rivals: Those of the device's who are installed.
        quick: Whether only a minute is wanted.
    """
    here = {rival.name for rival in rivals}
    envs, steps, knobs, knob_envs = device.nums_envs, NUMS_STEPS, KNOBS, device.knob_nums_envs
    torch_envs = device.torch_nums_envs
    if quick:
        envs, steps, knobs, knob_envs, torch_envs = (1, 1024), (1, 64), ((64, 0), (64, 4096)), (1024,), (1, 1024)
    return Plan(
        trials=[
            *(over_envs(device, num_envs, here) for num_envs in envs),
            *(over_steps(device, num_steps, here) for num_steps in steps),
            *(along_knob(device, live, dead, num_envs) for num_envs in knob_envs for live, dead in knobs),
            *(over_frameworks(device, num_envs, here) for num_envs in torch_envs if TORCH.name in here),
        ],
        comparisons=[],
        compiled=[],
        num_rounds=2 if quick else 5,
        slice_s=0.05 if quick else 0.2,
    )


def over_envs(device: Device, num_envs: int, here: set[str]) -> Trial:
    """N CartPoles in every form."""
    scene = Scene(env="CartPole-v1", num_envs=num_envs, num_steps=K)
    unfused = replace(scene, num_steps=1)
    forms = {OURS.name: scene, UNFUSED: unfused}
    if XLA.name in here:
        forms |= {XLA.name: scene, XLA_UNFUSED: unfused}
    if MAKE.name in here:
        forms |= {MAKE.name: replace(scene, num_envs=1)}
    return device.trial(VECTORISED, f"N = {num_envs:,}", forms)


def over_steps(device: Device, num_steps: int, here: set[str]) -> Trial:
    """K steps per call."""
    scene = Scene(env="CartPole-v1", num_envs=1024, num_steps=num_steps)
    names = [OURS.name, *([XLA.name] if XLA.name in here else [])]
    return device.trial(OVER_STEPS, f"K = {num_steps:,}", dict.fromkeys(names, scene))


def along_knob(device: Device, live: int, dead: int, num_envs: int) -> Trial:
    """One place on the axis."""
    options = (("live_nbytes", live), ("dead_nbytes", dead))
    scene = Scene(env="Knob", num_envs=num_envs, num_steps=K, options=options)
    forms = {OURS.name: scene, UNFUSED: replace(scene, num_steps=1)}
    return device.trial(f"{KNOB}{num_envs:,}", knob_name(live, dead), forms)


def knob_name(live: int, dead: int) -> str:
    """A place on the axis, in the tables."""
    return f"{live:,} bytes touched, {dead:,} not"


def over_frameworks(device: Device, num_envs: int, here: set[str]) -> Trial:
    """The same program by XLA and by PyTorch, ours beside them."""
    scene = Scene(env="CartPole-v1", num_envs=num_envs, num_steps=PYTORCH_K)
    names = [rival.name for rival in (OURS, XLA, TORCH_COMPILED, TORCH) if rival.name in here]
    return device.trial(PYTORCH, f"N = {num_envs:,}", dict.fromkeys(names, scene))
