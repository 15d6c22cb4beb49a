"""SBX's PPO: Stable-Baselines3's loop around JAX updates, one compiled call for each minibatch."""

# The peer may be absent where types are checked.
# pyright: basic, reportMissingImports=false

from typing import Any

import jax
import numpy as np
import torch
from sbx import PPO

from drivetrain.bench.train.evaluation import Layers
from drivetrain.bench.train.job import Job
from drivetrain.bench.train.peers.constructors import of_ppo
from drivetrain.bench.train.peers.entry import Training, main
from drivetrain.bench.train.peers.pytorch import use_threads
from drivetrain.bench.train.settings import PpoSettings
from drivetrain.bench.train.stopwatch import Stopwatch


def dense_layers(params: Any) -> Layers:
    """Kernels [in, out] and biases of a flax network, in the order of its layers' numbers."""
    dense: dict[str, Any] = {}
    for path, leaf in jax.tree_util.tree_flatten_with_path(params["params"])[0]:
        name = jax.tree_util.keystr(path[:-1], simple=True, separator="/")
        dense.setdefault(name, {})[path[-1].key] = np.asarray(leaf)
    names = sorted((name for name in dense if "kernel" in dense[name]), key=lambda name: int(name.rpartition("_")[2]))
    return [(dense[name]["kernel"], dense[name]["bias"]) for name in names]


def run(job: Job, watch: Stopwatch) -> Training:
    """Make the model and train it."""
    settings = job.settings
    assert isinstance(settings, PpoSettings)
    use_threads(job)
    model = PPO(**of_ppo(job))
    model.learn(settings.num_steps(job.total_steps))
    jax.block_until_ready(model.policy.actor_state.params)
    watch.stop()
    return Training(
        num_steps=model.num_timesteps,
        num_updates=model._n_updates * settings.updates_per_epoch,  # it counts epochs
        layers=[] if job.on_images else dense_layers(model.policy.actor_state.params),
        details={"torch_threads": torch.get_num_threads()},
    )


if __name__ == "__main__":
    main(run)
