"""SBX's DQN: Stable-Baselines3's loop around a JAX learner that scans over a block of updates."""

# The peer may be absent where types are checked.
# pyright: basic, reportMissingImports=false

from typing import Any

import jax
import numpy as np
import torch
from sbx import DQN

from drivetrain.bench.train.evaluation import Layers
from drivetrain.bench.train.job import Job
from drivetrain.bench.train.peers.constructors import of_dqn
from drivetrain.bench.train.peers.entry import Target, Training, main
from drivetrain.bench.train.peers.pytorch import use_threads
from drivetrain.bench.train.peers.rollouts import EvaluateBetweenRollouts
from drivetrain.bench.train.stopwatch import Stopwatch

_NATURE = 512  # units behind the convolutions


def layers_of(model: DQN) -> Layers:
    """The Q-network's kernels [in, out] and biases."""
    dense: Any = model.policy.qf_state.params["params"]
    return [(np.asarray(dense[name]["kernel"]), np.asarray(dense[name]["bias"])) for name in sorted(dense)]


def run(job: Job, watch: Stopwatch) -> Training:
    """Make the model and train it; SBX's DQN has no gradient clipping to set."""
    settings = job.settings
    assert settings is not None, "SBX runs with given settings only"
    width = _NATURE if job.on_images else settings.hidden[0]
    assert job.on_images or settings.hidden == (width, width), "SBX has two layers of equal width"
    use_threads(job)
    model = DQN(**of_dqn(job), policy_kwargs={"net_arch": [width]})
    target = Target(job, watch)
    model.learn(job.total_steps, callback=EvaluateBetweenRollouts(target, lambda: layers_of(model)))
    jax.block_until_ready(model.policy.qf_state.params)
    if job.kind == "target":
        target.check(model.num_timesteps, layers_of(model))
    watch.stop()
    return Training(
        num_steps=model.num_timesteps,
        num_updates=model._n_updates,  # SB3 shows it nowhere else
        layers=[] if job.on_images else layers_of(model),
        reached=target.reached if job.kind == "target" else None,
        details={"torch_threads": torch.get_num_threads(), "evaluations": target.history},
    )


if __name__ == "__main__":
    main(run)
