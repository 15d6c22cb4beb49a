"""Trials of what stands around an environment: JAX programs, Gymnasium, learners, a policy, and how boards are kept."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from drivetrain.bench.process import Rival
from drivetrain.bench.report import Target
from drivetrain.bench.sim.contenders import (
    ENVPOOL,
    IN_SCAN,
    JITTED,
    OF_CLEANRL,
    OF_SB3,
    OURS,
    OWN,
    SYNC,
    TRAINER,
    VECTOR,
    XLA,
    XLA_IN_SCAN,
)
from drivetrain.bench.sim.scene import Scene
from drivetrain.bench.sim.targets import A_BOOLEAN_EACH, FROM_PYTHON, POLICY_AHEAD
from drivetrain.bench.sim.trial import Trial

INTERFACE = "Gymnasium's interface, CartPole, one step of all environments per call"
CLEANRL = "PPO in the manner of CleanRL, CartPole, updates included"
TRAINED = "The trainer: PPO end to end, CartPole, updates included"
SB3 = "Stable-Baselines3's PPO, CartPole, updates included"


def through_gymnasium(num_envs: int, rivals: Sequence[Rival]) -> list[Trial]:
    """Stepping alone, and two learners around it; without those of which our side cannot run here."""
    scene = Scene(env="CartPole-v1", num_envs=num_envs, num_steps=1)
    stepping = {OURS.name: VECTOR, OWN.name: OWN, SYNC.name: SYNC, ENVPOOL.name: ENVPOOL}
    trials = [
        trial(group, scene, {name: rival for name, rival in contenders.items() if rival in rivals})
        for group, contenders in ((INTERFACE, stepping), (CLEANRL, OF_CLEANRL), (SB3, OF_SB3), (TRAINED, TRAINER))
    ]
    return [each for each in trials if OURS.name in each.scenes]


def trial(group: str, scene: Scene, contenders: Mapping[str, Rival]) -> Trial:
    """Everybody at the same scene, under the names of the table."""
    words = group.partition(",")[0]
    return Trial(
        group=group,
        name=f"{words}, N = {scene.num_envs:,}",
        scenes={name: (rival, scene) for name, rival in contenders.items()},
    )


def inside_jit(num_envs: int) -> Trial:
    """One step per call: inside a program of JAX, by jitted calls, and by calls from Python; and XLA's own steps."""
    scene = Scene(env="CartPole-v1", num_envs=num_envs, num_steps=1)
    return Trial(
        group="Inside a program of JAX, CartPole, one step per call, nothing recorded",
        name=f"inside jit, N = {num_envs:,}",
        scenes={
            OURS.name: (IN_SCAN, scene),
            XLA_IN_SCAN.name: (XLA_IN_SCAN, scene),
            JITTED.name: (JITTED, scene),
            FROM_PYTHON: (OURS, scene),
        },
    )


def with_policy(policy: str) -> Trial:
    """Our CartPole with a policy in the loop, beside XLA's scan with the same one."""
    scene = Scene(env="CartPole-v1", num_envs=1024, policy=policy)
    return Trial(
        group="CartPole with a policy in the loop, what a learner needs recorded, N = 1,024",
        name=f"policy, {policy}",
        scenes={rival.name: (rival, scene) for rival in (OURS, XLA)},
        targets=[Target(against=XLA.name, aim=POLICY_AHEAD)],
    )


def on_bits(name: str) -> Trial:
    """A game of ours on boards of bits, beside the same game with a Boolean for each cell."""
    scene = Scene(env=name, num_envs=1024)
    cells = replace(scene, options=(("packed", False),))
    return Trial(
        group="Boards of bits beside Booleans, nothing recorded, N = 1,024",
        name=f"bits, {name}",
        scenes={OURS.name: (OURS, scene), A_BOOLEAN_EACH: (OURS, cells)},
    )
