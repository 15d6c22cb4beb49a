"""Our own PPO, through the public `drivetrain.train.train`, sequential or with its processes."""

import math
from typing import Any

import numpy as np

from drivetrain.bench.train.evaluation import Layers
from drivetrain.bench.train.job import Job
from drivetrain.bench.train.peers.entry import Training, main
from drivetrain.bench.train.peers.ours_dqn import RUN_DIR, dense_layers, prepare, run_settings, train_through
from drivetrain.bench.train.settings import PpoSettings
from drivetrain.bench.train.stopwatch import Stopwatch
from drivetrain.train.config import TrainConfig
from drivetrain.train.interface import BoxActions
from drivetrain.train.networks import unpack
from drivetrain.train.policies.policy import policy_network
from drivetrain.train.run_dir.checkpoint import load_saved_policy
from drivetrain.train.runs.requirements import describe


def overrides(job: Job) -> dict[str, Any]:
    """The job in terms of our configuration."""
    assert isinstance(job.settings, PpoSettings)
    return run_settings(job) | shared(job.total_steps, job.settings)


def shared(total_steps: int, settings: PpoSettings) -> dict[str, Any]:
    """The shared settings in our names."""
    schedule = "linear" if settings.linear else "constant"
    return {
        "total_steps": total_steps,
        "num_envs": settings.num_envs,
        "rollout_length": settings.n_steps,
        "batch_size": settings.batch_size,
        "num_epochs": settings.n_epochs,
        "gamma": settings.gamma,
        "gae_lambda": settings.gae_lambda,
        "learning_rate": settings.learning_rate,
        "learning_rate_schedule": schedule,
        "adam_epsilon": 1e-5,
        "clip_range": settings.clip_range,
        "clip_range_schedule": schedule,
        "value_clip_range": None,
        "normalize_advantages": True,
        "entropy_coefficient": settings.ent_coef,
        "value_coefficient": settings.vf_coef,
        "max_gradient_norm": settings.max_grad_norm,
        "target_kl": None,
        "initial_log_std": settings.log_std_init - math.log(settings.half_range),
        "hidden": settings.hidden,
        "activation": settings.activation,
    }


def layers_of(config: TrainConfig) -> Layers:
    """The policy's kernels and biases, giving real-valued actions in the environment's units."""
    interface = describe(config)
    pieces = unpack(policy_network(config, interface), load_saved_policy(RUN_DIR, "last").vector)
    *hidden, (kernel, bias) = dense_layers(pieces)
    if isinstance(interface.actions, BoxActions):
        low, high = np.array(interface.actions.low), np.array(interface.actions.high)
        half, middle = (high - low) / 2, (high + low) / 2
        kernel, bias = (half * kernel).astype(np.float32), (half * bias + middle).astype(np.float32)
    return [*hidden, (kernel, bias)]


def run(job: Job, watch: Stopwatch) -> Training:
    """Train."""
    return train_through(job, watch, overrides(job), layers_of)


if __name__ == "__main__":
    main(run, prepare)
