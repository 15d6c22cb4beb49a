"""What Stable-Baselines3 and SBX are told alike of SAC, TD3 and DDPG."""

# The peer may be absent where types are checked.
# pyright: basic, reportMissingImports=false

from typing import Any

import numpy as np
from stable_baselines3.common.noise import NormalActionNoise

from drivetrain.bench.train.job import Job
from drivetrain.bench.train.settings import ContinuousSettings


def arguments(job: Job, num_actions: int) -> dict[str, Any]:
    """Keywords of their constructors."""
    settings = job.settings
    assert isinstance(settings, ContinuousSettings)
    noise = {}
    if settings.action_noise is not None:
        noise["action_noise"] = NormalActionNoise(np.zeros(num_actions), np.full(num_actions, settings.action_noise))
    return noise | {
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
