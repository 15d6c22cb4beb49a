"""Who takes part in `drivetrain bench train`, and with how many threads each runs best."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from drivetrain.bench.process import Rival
from drivetrain.bench.train.job import Job, Outcome
from drivetrain.core.errors import RunError

PEER_INSTALL = 'pip install torch==2.13.0 "drivetrain[bench]"'

OURS = Rival(
    name="ours",
    module="drivetrain.bench.train.peers.ours_dqn",
    requires=("jax", "optax", "gymnasium", "tensorboardX"),
    install='pip install "drivetrain[train]"',
)
SB3 = Rival(
    name="SB3",
    module="drivetrain.bench.train.peers.sb3_dqn",
    requires=("torch", "stable_baselines3"),
    install=PEER_INSTALL,
)
SBX = Rival(
    name="SBX",
    module="drivetrain.bench.train.peers.sbx_dqn",
    requires=("torch", "stable_baselines3", "jax", "sbx"),
    install=PEER_INSTALL,
)
CLEANRL = Rival(
    name="CleanRL",
    module="drivetrain.bench.train.peers.cleanrl_dqn",
    requires=("torch", "stable_baselines3"),  # whose replay its files use
    install=PEER_INSTALL,
)
PEERS = (SB3, SBX, CLEANRL)
ONE_ENV = ("CleanRL",)
"""Peers whose DQN takes a single environment."""
OURS_PPO = replace(OURS, module="drivetrain.bench.train.peers.ours_ppo")
SB3_PPO = replace(SB3, module="drivetrain.bench.train.peers.sb3_ppo")
SBX_PPO = replace(SBX, module="drivetrain.bench.train.peers.sbx_ppo")
OURS_CONTINUOUS = replace(OURS, module="drivetrain.bench.train.peers.ours_continuous")
_CONTINUOUS = tuple(replace(peer, module=peer.module.replace("_dqn", "_continuous")) for peer in (SB3, SBX))
CLEANRL_PPO, CLEANRL_SAC, CLEANRL_DETERMINISTIC = (
    replace(CLEANRL, module=CLEANRL.module.replace("_dqn", ending)) for ending in ("_ppo", "_sac", "_deterministic")
)
PEERS_OF: dict[str, Sequence[Rival]] = {
    "dqn": PEERS,
    "ppo": (SB3_PPO, SBX_PPO, CLEANRL_PPO),
    "sac": (*_CONTINUOUS, CLEANRL_SAC),
    "td3": (*_CONTINUOUS, CLEANRL_DETERMINISTIC),
    "ddpg": (*_CONTINUOUS, CLEANRL_DETERMINISTIC),
}
"""Algorithm -> whom it is measured against."""


def on_atari(rival: Rival) -> Rival:
    """The same rival where it needs Atari's games."""
    install = rival.install.replace("drivetrain[bench]", "drivetrain[bench,atari]").replace("[train]", "[atari]")
    return replace(rival, requires=(*rival.requires, "ale_py", "cv2"), install=install)


DISTRIBUTIONS = (
    "jax",
    "jaxlib",
    "optax",
    "gymnasium",
    "numpy",
    "torch",
    "stable-baselines3",
    "sbx-rl",
    "flax",
    "mujoco",
    "ale-py",
    "opencv-python-headless",
)

Runner = Callable[[Rival, Job], Outcome]


def probe_threads(
    peers: Sequence[Rival], job: Job, run: Runner, cost: Callable[[Outcome], float]
) -> tuple[dict[str, int | None], dict[str, Any], dict[str, str]]:
    """Run each peer with one thread and with its framework's own choice; one that fails takes no further part.

    Args:
        peers: Those that are installed.
        job: A short one.
        run: Carries out one job.
        cost: What the goal is in: CPU-seconds, or wall seconds.

    Returns:
        The choice of each that costs less (None: the framework's), what was measured, and why a peer failed.
    """
    chosen: dict[str, int | None] = {}
    measured: dict[str, Any] = {}
    failed: dict[str, str] = {}
    for peer in peers:
        try:
            outcomes = {threads: run(peer, replace(job, threads=threads)) for threads in (1, None)}
        except RunError as error:
            failed[peer.name] = f"failed: {error}"
            print(f"  {error}", flush=True)
            continue
        chosen[peer.name] = min(outcomes, key=lambda threads: cost(outcomes[threads]))
        measured[peer.name] = {
            "one thread" if threads == 1 else "framework's choice": {
                "cpu_s": outcome.cpu_s,
                "wall_s": outcome.wall_s,
            }
            for threads, outcome in outcomes.items()
        }
    return chosen, measured, failed
