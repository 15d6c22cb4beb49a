"""What Stable-Baselines3 and SBX are told alike: keywords of their constructors."""

# The peer may be absent where types are checked.
# pyright: basic, reportMissingImports=false

from typing import Any

import numpy as np
from stable_baselines3.common.noise import NormalActionNoise

from drivetrain.bench.train.job import Job
from drivetrain.bench.train.peers.atari import make_envs, policy_of
from drivetrain.bench.train.peers.schedules import scheduled
from drivetrain.bench.train.settings import ContinuousSettings, DqnSettings, PpoSettings


def of_dqn(job: Job) -> dict[str, Any]:
    """Of DQN."""
    settings = job.settings
    assert isinstance(settings, DqnSettings)
    assert job.num_envs, "the number of environments has to be given"
    return {
        "policy": policy_of(job),
        "env": make_envs(job, job.num_envs),
        "learning_rate": settings.learning_rate,
        "batch_size": settings.batch_size,
        "buffer_size": settings.buffer_size,
        "learning_starts": settings.learning_starts,
        "gamma": settings.gamma,
        "target_update_interval": settings.target_update_interval,
        "train_freq": settings.train_freq // job.num_envs,  # in calls of the vector environment
        "gradient_steps": settings.gradient_steps,
        "exploration_fraction": settings.exploration_fraction,
        "exploration_final_eps": settings.exploration_final_eps,
        "seed": job.seed,
    }


def of_ppo(job: Job) -> dict[str, Any]:
    """Of PPO."""
    settings = job.settings
    assert isinstance(settings, PpoSettings)
    return {
        "policy": policy_of(job),
        "env": make_envs(job, settings.num_envs),
        "learning_rate": scheduled(settings.learning_rate, settings),
        "n_steps": settings.n_steps,
        "batch_size": settings.batch_size,
        "n_epochs": settings.n_epochs,
        "gamma": settings.gamma,
        "gae_lambda": settings.gae_lambda,
        "clip_range": scheduled(settings.clip_range, settings),
        "ent_coef": settings.ent_coef,
        "vf_coef": settings.vf_coef,
        "max_grad_norm": settings.max_grad_norm,
        "policy_kwargs": {"net_arch": list(settings.hidden), "log_std_init": settings.log_std_init},
        "seed": job.seed,
    }


def of_continuous(job: Job) -> dict[str, Any]:
    """Of SAC, TD3 and DDPG."""
    settings = job.settings
    assert isinstance(settings, ContinuousSettings)
    env = make_envs(job, 1)
    shape: Any = env.action_space.shape
    noise = {}
    if settings.action_noise is not None:
        noise["action_noise"] = NormalActionNoise(np.zeros(shape), np.full(shape, settings.action_noise))
    return noise | {
        "policy": policy_of(job),
        "env": env,
        "learning_rate": settings.learning_rate,
        "batch_size": settings.batch_size,
        "buffer_size": min(settings.buffer_size, job.total_steps),  # never full: the same, in less memory
        "learning_starts": settings.learning_starts,
        "gamma": settings.gamma,
        "tau": settings.tau,
        "train_freq": 1,
        "gradient_steps": 1,
        "policy_kwargs": {"net_arch": list(settings.hidden)},
        "seed": job.seed,
    }
