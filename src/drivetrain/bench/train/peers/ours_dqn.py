"""Our own DQN, through the public `drivetrain.train.train`, sequential or with its processes."""

import importlib
import os
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import gymnasium
import numpy as np
from numpy.typing import NDArray

from drivetrain.bench.train.evaluation import Layers
from drivetrain.bench.train.job import Job
from drivetrain.bench.train.peers.entry import Target, Training, main
from drivetrain.bench.train.peers.snapshots import Snapshots
from drivetrain.bench.train.settings import DqnSettings
from drivetrain.bench.train.stopwatch import Stopwatch
from drivetrain.core.threads import one_thread_environment, prepare_computation
from drivetrain.train import train
from drivetrain.train.config import DQNConfig, TrainConfig
from drivetrain.train.networks import MLP, Pieces, unpack
from drivetrain.train.run_dir.checkpoint import load_saved_policy

RUN_DIR = Path("run")  # in the empty folder that this process starts in
SNAPSHOT_INTERVAL_S = 0.2
_OF_IMAGES = {"atari": True, "frame_stack": 4, "clip_rewards": True, "terminal_on_life_loss": True}


def prepare(job: Job) -> None:
    """What the command line does before a run, and the imports that a run puts off."""
    learns_here = job.num_actors == 0
    if learns_here:
        os.environ.update(one_thread_environment(os.environ, num_devices=job.num_learners))
        prepare_computation()
    importlib.import_module("drivetrain.train.loop" if learns_here else "drivetrain.train.processes.supervisor")


def run_settings(job: Job) -> dict[str, Any]:
    """The job in terms of our RunConfig; our own evaluations are reduced to an episode."""
    fields: dict[str, Any] = {
        "total_steps": job.total_steps,
        "seed": job.seed,
        "run_dir": str(RUN_DIR),
        "eval_interval_steps": 10 * job.total_steps,
        "eval_episodes": 1,
        "final_eval_episodes": 1,
        "num_learners": job.num_learners,
    }
    fields |= _OF_IMAGES if job.on_images else {}
    return fields | ({} if job.num_actors is None else {"num_actors": job.num_actors})


def overrides(job: Job) -> dict[str, Any]:
    """The job in terms of our configuration."""
    fields = run_settings(job) | {"save_replay": False}  # no rival keeps its own
    if job.num_envs is not None:
        fields["envs_per_actor"] = job.num_envs
    if job.kind == "target":
        fields["checkpoint_interval_s"] = SNAPSHOT_INTERVAL_S
    assert job.settings is None or isinstance(job.settings, DqnSettings)
    return fields | (vanilla(job.total_steps, job.settings) if job.settings else {})


def vanilla(total_steps: int, settings: DqnSettings) -> dict[str, Any]:
    """Vanilla DQN at the shared settings, down to the number of steps and updates.

    The peers move their target between blocks of updates, so ours moves at most once per block. The
    tolerance lets our actors go on for one block while the learner works on the one before.
    """
    return {
        "total_steps": settings.num_steps(total_steps),
        "warmup_steps": settings.num_warmup_steps(),
        "update_ratio": Fraction(settings.gradient_steps, settings.train_freq),
        "updates_per_call": settings.gradient_steps,
        "tolerance": 2 * settings.gradient_steps,
        "target_interval": max(settings.gradient_steps, settings.num_updates_between_copies()),
        "target_tau": 1.0,
        "capacity": settings.buffer_size,
        "prioritized": False,
        "num_step": 1,
        "double": False,
        "dueling": False,
        "hidden": settings.hidden,
        "gamma": settings.gamma,
        "learning_rate": settings.learning_rate,
        "batch_size": settings.batch_size,
        "huber_delta": 1.0,
        "max_gradient_norm": settings.max_grad_norm,
        "adam_epsilon": 1e-8,
        "epsilon_start": 1.0,
        "epsilon_end": settings.exploration_final_eps,
        "exploration_steps": round(settings.exploration_fraction * total_steps),
    }


def layers_of(vector: NDArray[np.float32]) -> Layers:
    """The Q-network's kernels [in, out] and biases, from the flat vector of a finished run."""
    config = TrainConfig.load(RUN_DIR / "config.json")
    assert isinstance(config.agent, DQNConfig)
    assert not config.agent.dueling, "the shared evaluator has no dueling head"
    env: gymnasium.Env[Any, Any] = cast(Any, gymnasium).make(config.env)
    assert isinstance(env.action_space, gymnasium.spaces.Discrete)
    network = MLP(
        num_inputs=int(np.prod(env.observation_space.shape or ())),
        hidden=config.agent.hidden,
        heads=(("action", int(env.action_space.n)),),
    )
    env.close()
    return dense_layers(unpack(network, vector))


def dense_layers(pieces: Pieces) -> Layers:
    """Kernels [in, out] and biases, in order, of a network that has one head."""
    names = [name.removesuffix(".weight") for name in pieces if name.endswith(".weight")]
    return [(pieces[f"{name}.weight"], pieces[f"{name}.bias"]) for name in names]


def train_through(
    job: Job, watch: Stopwatch, fields: dict[str, Any], layers_of: Callable[[TrainConfig], Layers]
) -> Training:
    """Train to the end, whatever the algorithm.

    Args:
        job: What to train.
        watch: Stopped when training ends.
        fields: The job in terms of our configuration.
        layers_of: The layers of the finished run's policy.
    """
    result = train(job.algo, job.env, **fields)
    watch.stop()
    return Training(
        num_steps=result.num_steps,
        num_updates=result.num_updates,
        layers=[] if job.on_images else layers_of(TrainConfig.load(RUN_DIR / "config.json")),
        details={"learning_s": result.learning_s},
    )


def run(job: Job, watch: Stopwatch) -> Training:
    """Train; for a target, keep the policies on the way and look afterwards which one was first."""
    snapshots = Snapshots(RUN_DIR, watch)
    if job.kind == "target":
        snapshots.start()
    result = train("dqn", job.env, **overrides(job))
    watch.stop()
    if job.kind == "target":
        snapshots.stop()
    last = load_saved_policy(RUN_DIR, "last")
    assert last.num_updates == result.num_updates, "the checkpoint is older than the run's end"
    reached, times, details = first_reaching(job, watch, snapshots)
    return Training(
        num_steps=result.num_steps,
        num_updates=result.num_updates,
        layers=[] if job.on_images else layers_of(last.vector),
        reached=reached,
        times=times,
        details=details | {"learning_s": result.learning_s, "update_ratio": result.update_ratio},
    )


def first_reaching(
    job: Job, watch: Stopwatch, snapshots: Snapshots
) -> tuple[bool | None, tuple[float, float] | None, dict[str, Any]]:
    """Whether, when, and by which steps a snapshot reached the target, `evaluate_every` apart."""
    target = Target(job, watch)
    if job.kind != "target":
        return None, None, {}
    for snapshot in snapshots.found:
        if not target.is_due(snapshot.num_steps) and snapshot is not snapshots.found[-1]:
            continue
        reached = target.check(snapshot.num_steps, layers_of(snapshot.vector))
        target.history[-1].update(cpu_s=snapshot.cpu_s, wall_s=snapshot.wall_s)
        if reached:
            times = (snapshot.cpu_s, snapshot.wall_s)
            return True, times, {"evaluations": target.history}
    return False, None, {"evaluations": target.history}


if __name__ == "__main__":
    main(run, prepare)
