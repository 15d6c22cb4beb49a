"""Stable-Baselines3's DQN (PyTorch, eager)."""

# The peer may be absent where types are checked.
# pyright: basic, reportMissingImports=false

import torch
from stable_baselines3 import DQN

from drivetrain.bench.train.job import Job
from drivetrain.bench.train.peers.constructors import of_dqn
from drivetrain.bench.train.peers.entry import Target, Training, main
from drivetrain.bench.train.peers.pytorch import layers_of, use_threads
from drivetrain.bench.train.peers.rollouts import EvaluateBetweenRollouts
from drivetrain.bench.train.settings import DqnSettings
from drivetrain.bench.train.stopwatch import Stopwatch


def make_model(job: Job) -> DQN:
    """The untrained model."""
    settings = job.settings
    assert isinstance(settings, DqnSettings), "SB3 runs with given settings only"
    use_threads(job)
    network = {"net_arch": list(settings.hidden)}  # of images behind the Nature CNN's own layer
    return DQN(**of_dqn(job), policy_kwargs=network, max_grad_norm=settings.max_grad_norm, device="cpu")


def run(job: Job, watch: Stopwatch) -> Training:
    """Make the model and train it."""
    model = make_model(job)
    target = Target(job, watch)
    model.learn(job.total_steps, callback=EvaluateBetweenRollouts(target, lambda: layers_of(model.policy.q_net)))
    if job.kind == "target":
        target.check(model.num_timesteps, layers_of(model.policy.q_net))
    watch.stop()
    return Training(
        num_steps=model.num_timesteps,
        num_updates=model._n_updates,  # SB3 shows it nowhere else
        layers=[] if job.on_images else layers_of(model.policy.q_net),
        reached=target.reached if job.kind == "target" else None,
        details={"torch_threads": torch.get_num_threads(), "evaluations": target.history},
    )


if __name__ == "__main__":
    main(run)
