"""Stable-Baselines3's PPO (PyTorch, eager)."""

# The peer may be absent where types are checked.
# pyright: basic, reportMissingImports=false

import torch
from stable_baselines3 import PPO

from drivetrain.bench.train.job import Job
from drivetrain.bench.train.peers.constructors import of_ppo
from drivetrain.bench.train.peers.entry import Training, main
from drivetrain.bench.train.peers.pytorch import layers_of, use_threads
from drivetrain.bench.train.settings import PpoSettings
from drivetrain.bench.train.stopwatch import Stopwatch


def make_model(job: Job) -> PPO:
    """The model of a job."""
    return PPO(**of_ppo(job), device="cpu")


def run(job: Job, watch: Stopwatch) -> Training:
    """Make the model and train it."""
    use_threads(job)
    model, settings = make_model(job), job.settings
    assert isinstance(settings, PpoSettings)
    model.learn(settings.num_steps(job.total_steps))
    watch.stop()
    policy = model.policy
    return Training(
        num_steps=model.num_timesteps,
        num_updates=model._n_updates * settings.updates_per_epoch,  # it counts epochs
        layers=[] if job.on_images else layers_of(policy.mlp_extractor.policy_net, policy.action_net),
        details={"torch_threads": torch.get_num_threads()},
    )


if __name__ == "__main__":
    main(run)
