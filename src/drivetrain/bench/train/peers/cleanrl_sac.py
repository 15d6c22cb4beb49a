"""SAC in the manner of CleanRL's sac_continuous_action.py (PyTorch, eager).

The policy is updated twice after every second update of the critics, as in that file; everything is updated as often
as in the others. Its log standard deviation is squashed into -5..2.
"""

# The peer may be absent where types are checked.
# pyright: basic, reportMissingImports=false

import numpy as np
import torch
import torch.nn.functional as F

from drivetrain.bench.train.job import Job
from drivetrain.bench.train.peers.cleanrl import (
    follow,
    make_buffer,
    make_envs,
    mlp,
    seed_everything,
    true_next_obs,
)
from drivetrain.bench.train.peers.entry import Training, main
from drivetrain.bench.train.peers.pytorch import layers_of
from drivetrain.bench.train.settings import ContinuousSettings
from drivetrain.bench.train.stopwatch import Stopwatch

LOG_STD_MIN, LOG_STD_MAX = -5.0, 2.0
POLICY_FREQUENCY = 2


class Actor(torch.nn.Module):
    """A Gaussian squashed to the bounds of the actions."""

    def __init__(self, num_inputs: int, hidden: tuple[int, ...], space) -> None:
        super().__init__()
        *widths, last = hidden
        self.trunk = torch.nn.Sequential(mlp(num_inputs, widths, last), torch.nn.ReLU())
        self.mean = torch.nn.Linear(last, space.shape[0])
        self.log_std = torch.nn.Linear(last, space.shape[0])
        self.scale = torch.tensor((space.high - space.low) / 2, dtype=torch.float32)
        self.bias = torch.tensor((space.high + space.low) / 2, dtype=torch.float32)

    def act(self, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """A sample, and its log probability [B, 1]."""
        features = self.trunk(obs)
        log_std = LOG_STD_MIN + 0.5 * (LOG_STD_MAX - LOG_STD_MIN) * (torch.tanh(self.log_std(features)) + 1)
        normal = torch.distributions.Normal(self.mean(features), log_std.exp())
        raw = normal.rsample()
        squashed = torch.tanh(raw)
        log_prob = normal.log_prob(raw) - torch.log(self.scale * (1 - squashed.pow(2)) + 1e-6)
        return squashed * self.scale + self.bias, log_prob.sum(1, keepdim=True)


def run(job: Job, watch: Stopwatch) -> Training:
    """The whole file, from its networks to its last step."""
    settings = job.settings
    assert isinstance(settings, ContinuousSettings)
    seed_everything(job)
    envs = make_envs(job, 1)
    space, num_inputs = envs.single_action_space, envs.single_observation_space.shape[0]
    envs.single_observation_space.dtype = np.float32
    actor = Actor(num_inputs, settings.hidden, space)
    critics, targets = ([mlp(num_inputs + space.shape[0], settings.hidden, 1) for _ in range(2)] for _ in range(2))
    for target, critic in zip(targets, critics, strict=True):
        target.load_state_dict(critic.state_dict())
    of_critics = [parameter for critic in critics for parameter in critic.parameters()]
    q_optimizer = torch.optim.Adam(of_critics, lr=settings.learning_rate)
    actor_optimizer = torch.optim.Adam(actor.parameters(), lr=settings.learning_rate)
    target_entropy = -float(space.shape[0])
    log_alpha = torch.zeros(1, requires_grad=True)
    alpha = log_alpha.exp().item()
    alpha_optimizer = torch.optim.Adam([log_alpha], lr=settings.learning_rate)
    buffer = make_buffer(envs, min(settings.buffer_size, job.total_steps))
    num_updates = 0

    obs, _ = envs.reset(seed=job.seed)
    for step in range(job.total_steps):
        if step < settings.learning_starts:
            actions = np.array([space.sample()])
        else:
            actions = actor.act(torch.Tensor(obs))[0].detach().numpy()
        next_obs, rewards, terminations, truncations, infos = envs.step(actions)
        buffer.add(obs, true_next_obs(next_obs, truncations, infos), actions, rewards, terminations, [infos])
        obs = next_obs
        if step < settings.learning_starts:
            continue

        data = buffer.sample(settings.batch_size)
        with torch.no_grad():
            next_actions, next_log_pi = actor.act(data.next_observations)
            following = torch.cat([data.next_observations, next_actions], 1)
            next_q = torch.min(*(target(following) for target in targets)) - alpha * next_log_pi
            wanted = data.rewards.flatten() + (1 - data.dones.flatten()) * settings.gamma * next_q.view(-1)
        chosen = torch.cat([data.observations, data.actions], 1)
        q_loss = torch.stack([F.mse_loss(critic(chosen).view(-1), wanted) for critic in critics]).sum()
        q_optimizer.zero_grad()
        q_loss.backward()
        q_optimizer.step()

        if step % POLICY_FREQUENCY == 0:
            for _ in range(POLICY_FREQUENCY):
                sampled, log_pi = actor.act(data.observations)
                judged = torch.cat([data.observations, sampled], 1)
                actor_loss = (alpha * log_pi - torch.min(*(critic(judged) for critic in critics))).mean()
                actor_optimizer.zero_grad()
                actor_loss.backward()
                actor_optimizer.step()
                with torch.no_grad():
                    _, log_pi = actor.act(data.observations)
                alpha_loss = (-log_alpha.exp() * (log_pi + target_entropy)).mean()
                alpha_optimizer.zero_grad()
                alpha_loss.backward()
                alpha_optimizer.step()
                alpha = log_alpha.exp().item()
        for target, critic in zip(targets, critics, strict=True):
            follow(target, critic, settings.tau)
        num_updates += 1
    watch.stop()
    envs.close()
    return Training(
        num_steps=job.total_steps,
        num_updates=num_updates,
        layers=layers_of(actor.trunk, actor.mean),
        details={"torch_threads": torch.get_num_threads()},
    )


if __name__ == "__main__":
    main(run)
