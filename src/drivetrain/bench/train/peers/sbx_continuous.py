"""SBX's SAC, TD3 and DDPG: Stable-Baselines3's loop around compiled JAX updates."""

# The peer may be absent where types are checked.
# pyright: basic, reportMissingImports=false

import jax
import torch
from sbx import DDPG, SAC, TD3
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from drivetrain.bench.train.evaluation import Layers
from drivetrain.bench.train.job import Job
from drivetrain.bench.train.peers.constructors import of_continuous
from drivetrain.bench.train.peers.entry import Training, main
from drivetrain.bench.train.peers.pytorch import use_threads
from drivetrain.bench.train.peers.sbx_ppo import dense_layers
from drivetrain.bench.train.stopwatch import Stopwatch

ALGORITHMS = {"sac": SAC, "td3": TD3, "ddpg": DDPG}


def layers_of(model: OffPolicyAlgorithm, num_hidden: int) -> Layers:
    """The policy's kernels [in, out] and biases; of a distribution, its mean."""
    return dense_layers(model.policy.actor_state.params)[: num_hidden + 1]


def run(job: Job, watch: Stopwatch) -> Training:
    """Make the model and train it."""
    use_threads(job)
    settings = of_continuous(job)
    model = ALGORITHMS[job.algo](**settings)
    model.learn(job.total_steps)
    jax.block_until_ready(model.policy.actor_state.params)
    watch.stop()
    return Training(
        num_steps=model.num_timesteps,
        num_updates=model._n_updates,
        layers=layers_of(model, len(settings["policy_kwargs"]["net_arch"])),
        details={"torch_threads": torch.get_num_threads()},
    )


if __name__ == "__main__":
    main(run)
