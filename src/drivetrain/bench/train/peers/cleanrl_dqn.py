"""DQN in the manner of CleanRL's dqn.py, on images of dqn_atari.py (PyTorch, eager): one environment.

Unlike the others it updates in between, as its loop does (of CartPole after every second step), rather than in blocks;
steps and updates come out alike. It clips no gradients, and its loss is the squared error.
"""

# The peer may be absent where types are checked.
# pyright: basic, reportMissingImports=false

import copy
import random

import numpy as np
import torch
import torch.nn.functional as F

from drivetrain.bench.train.job import Job
from drivetrain.bench.train.peers.atari import single_env
from drivetrain.bench.train.peers.cleanrl import (
    NATURE_FEATURES,
    follow,
    make_buffer,
    make_envs,
    mlp,
    nature,
    seed_everything,
    true_next_obs,
)
from drivetrain.bench.train.peers.entry import Target, Training, main
from drivetrain.bench.train.peers.pytorch import layers_of
from drivetrain.bench.train.settings import DqnSettings
from drivetrain.bench.train.stopwatch import Stopwatch


def run(job: Job, watch: Stopwatch) -> Training:
    """The whole file, from its networks to its last step."""
    settings = job.settings
    assert isinstance(settings, DqnSettings)
    assert job.num_envs == 1, "the file takes one environment"
    seed_everything(job)
    envs = make_envs(job, 1, single_env) if job.on_images else make_envs(job, 1)
    target = Target(job, watch)
    num_inputs, num_actions = envs.single_observation_space.shape[0], envs.single_action_space.n
    torso, width = ([nature()], NATURE_FEATURES) if job.on_images else ([], num_inputs)
    q_network = torch.nn.Sequential(*torso, *mlp(width, settings.hidden, num_actions))
    target_network = copy.deepcopy(q_network)
    optimizer = torch.optim.Adam(q_network.parameters(), lr=settings.learning_rate)
    buffer = make_buffer(envs, settings.buffer_size)
    train_frequency = settings.train_freq // settings.gradient_steps
    num_steps, num_updates = settings.num_steps(job.total_steps), 0

    obs, _ = envs.reset(seed=job.seed)
    for step in range(1, num_steps + 1):
        slope = (settings.exploration_final_eps - 1) / (settings.exploration_fraction * num_steps)
        epsilon = max(1 + slope * step, settings.exploration_final_eps)
        if random.random() < epsilon:
            actions = np.array([envs.single_action_space.sample()])
        else:
            actions = torch.argmax(q_network(torch.Tensor(obs)), dim=1).numpy()
        next_obs, rewards, terminations, truncations, infos = envs.step(actions)
        buffer.add(obs, true_next_obs(next_obs, truncations, infos), actions, rewards, terminations, [infos])
        obs = next_obs

        if step > settings.num_warmup_steps():
            if step % train_frequency == 0:
                data = buffer.sample(settings.batch_size)
                with torch.no_grad():
                    best, _ = target_network(data.next_observations).max(dim=1)
                    wanted = data.rewards.flatten() + settings.gamma * best * (1 - data.dones.flatten())
                values = q_network(data.observations).gather(1, data.actions).squeeze()
                loss = F.mse_loss(wanted, values)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                num_updates += 1
            if step % settings.target_update_interval == 0:
                follow(target_network, q_network, 1.0)
        if target.is_due(step) and target.check(step, layers_of(q_network)):
            break
    if job.kind == "target":
        target.check(step, layers_of(q_network))
    watch.stop()
    envs.close()
    return Training(
        num_steps=step,
        num_updates=num_updates,
        layers=[] if job.on_images else layers_of(q_network),
        reached=target.reached if job.kind == "target" else None,
        details={"torch_threads": torch.get_num_threads(), "evaluations": target.history},
    )


if __name__ == "__main__":
    main(run)
