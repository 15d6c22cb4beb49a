"""Stable-Baselines3's SAC, TD3 and DDPG (PyTorch, eager)."""

# The peer may be absent where types are checked.
# pyright: basic, reportMissingImports=false

import numpy as np
import torch
from stable_baselines3 import DDPG, SAC, TD3
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from drivetrain.bench.train.evaluation import Layers
from drivetrain.bench.train.job import Job
from drivetrain.bench.train.peers.continuous import arguments
from drivetrain.bench.train.peers.entry import Training, main
from drivetrain.bench.train.stopwatch import Stopwatch

ALGORITHMS = {"sac": SAC, "td3": TD3, "ddpg": DDPG}


def make_model(job: Job) -> OffPolicyAlgorithm:
    """The untrained model; what is not named is the same by default on all sides."""
    env = make_vec_env(job.env, n_envs=1, seed=job.seed)
    return ALGORITHMS[job.algo]("MlpPolicy", env, device="cpu", **arguments(job, env.action_space.shape[0]))


def layers_of(model: OffPolicyAlgorithm) -> Layers:
    """The policy's kernels, turned to [in, out], and biases; of a distribution, its mean."""
    actor = model.actor
    layers = [*actor.latent_pi, actor.mu] if hasattr(actor, "latent_pi") else [*actor.mu]
    dense = [layer for layer in layers if hasattr(layer, "weight")]
    return [(np.array(layer.weight.detach().numpy().T), np.array(layer.bias.detach().numpy())) for layer in dense]


def run(job: Job, watch: Stopwatch) -> Training:
    """Make the model and train it."""
    if job.threads is not None:
        torch.set_num_threads(job.threads)
    model = make_model(job)
    model.learn(job.total_steps)
    watch.stop()
    return Training(
        num_steps=model.num_timesteps,
        num_updates=model._n_updates,  # SB3 shows it nowhere else
        layers=layers_of(model),
        details={"torch_threads": torch.get_num_threads()},
    )


if __name__ == "__main__":
    main(run)
