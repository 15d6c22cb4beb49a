"""Stable-Baselines3's SAC, TD3 and DDPG (PyTorch, eager)."""

# The peer may be absent where types are checked.
# pyright: basic, reportMissingImports=false

from typing import Any

import torch
from stable_baselines3 import DDPG, SAC, TD3
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from drivetrain.bench.train.job import Job
from drivetrain.bench.train.peers.constructors import of_continuous
from drivetrain.bench.train.peers.entry import Training, main
from drivetrain.bench.train.peers.pytorch import layers_of, use_threads
from drivetrain.bench.train.stopwatch import Stopwatch

ALGORITHMS = {"sac": SAC, "td3": TD3, "ddpg": DDPG}


def make_model(job: Job) -> OffPolicyAlgorithm:
    """The untrained model; what is not named is the same by default on all sides."""
    return ALGORITHMS[job.algo](**of_continuous(job), device="cpu")


def run(job: Job, watch: Stopwatch) -> Training:
    """Make the model and train it."""
    use_threads(job)
    model = make_model(job)
    model.learn(job.total_steps)
    watch.stop()
    actor: Any = model.actor
    torso = [actor.latent_pi] if hasattr(actor, "latent_pi") else []  # of a distribution; its mean is `mu`
    return Training(
        num_steps=model.num_timesteps,
        num_updates=model._n_updates,  # SB3 shows it nowhere else
        layers=layers_of(*torso, actor.mu),
        details={"torch_threads": torch.get_num_threads()},
    )


if __name__ == "__main__":
    main(run)
