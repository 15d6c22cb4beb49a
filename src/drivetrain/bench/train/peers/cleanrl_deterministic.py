"""TD3 and DDPG in the manner of CleanRL's td3_continuous_action.py and ddpg_continuous_action.py (PyTorch, eager).

TD3's policy and targets are updated after every second update of the critics. So they are in CleanRL's DDPG; here
after every one, as in the DDPG of the others.
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

POLICY_NOISE, NOISE_CLIP = 0.2, 0.5


class Actor(torch.nn.Module):
    """Actions within their bounds by tanh."""

    def __init__(self, num_inputs: int, hidden: tuple[int, ...], space) -> None:
        super().__init__()
        self.network = mlp(num_inputs, hidden, space.shape[0])
        self.scale = torch.tensor((space.high - space.low) / 2, dtype=torch.float32)
        self.bias = torch.tensor((space.high + space.low) / 2, dtype=torch.float32)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """The action."""
        return torch.tanh(self.network(obs)) * self.scale + self.bias


def run(job: Job, watch: Stopwatch) -> Training:
    """The whole file, from its networks to its last step."""
    settings = job.settings
    assert isinstance(settings, ContinuousSettings)
    assert settings.action_noise is not None
    is_td3 = job.algo == "td3"
    policy_frequency, num_critics = (2, 2) if is_td3 else (1, 1)
    seed_everything(job)
    envs = make_envs(job, 1)
    space, num_inputs = envs.single_action_space, envs.single_observation_space.shape[0]
    envs.single_observation_space.dtype = np.float32
    actor, target_actor = (Actor(num_inputs, settings.hidden, space) for _ in range(2))
    target_actor.load_state_dict(actor.state_dict())
    critics, targets = (
        [mlp(num_inputs + space.shape[0], settings.hidden, 1) for _ in range(num_critics)] for _ in range(2)
    )
    for target, critic in zip(targets, critics, strict=True):
        target.load_state_dict(critic.state_dict())
    of_critics = [parameter for critic in critics for parameter in critic.parameters()]
    q_optimizer = torch.optim.Adam(of_critics, lr=settings.learning_rate)
    actor_optimizer = torch.optim.Adam(actor.parameters(), lr=settings.learning_rate)
    buffer = make_buffer(envs, min(settings.buffer_size, job.total_steps))
    low, high = float(space.low[0]), float(space.high[0])
    num_updates = 0

    obs, _ = envs.reset(seed=job.seed)
    for step in range(job.total_steps):
        if step < settings.learning_starts:
            actions = np.array([space.sample()])
        else:
            with torch.no_grad():
                actions = actor(torch.Tensor(obs))
                actions += torch.normal(0, actor.scale * settings.action_noise)
            actions = actions.numpy().clip(space.low, space.high)
        next_obs, rewards, terminations, truncations, infos = envs.step(actions)
        buffer.add(obs, true_next_obs(next_obs, truncations, infos), actions, rewards, terminations, [infos])
        obs = next_obs
        if step < settings.learning_starts:
            continue

        data = buffer.sample(settings.batch_size)
        with torch.no_grad():
            next_actions = target_actor(data.next_observations)
            if is_td3:
                noise = (torch.randn_like(data.actions) * POLICY_NOISE).clamp(-NOISE_CLIP, NOISE_CLIP) * actor.scale
                next_actions = (next_actions + noise).clamp(low, high)
            following = torch.cat([data.next_observations, next_actions], 1)
            next_q = torch.stack([target(following) for target in targets]).amin(0)
            wanted = data.rewards.flatten() + (1 - data.dones.flatten()) * settings.gamma * next_q.view(-1)
        chosen = torch.cat([data.observations, data.actions], 1)
        q_loss = torch.stack([F.mse_loss(critic(chosen).view(-1), wanted) for critic in critics]).sum()
        q_optimizer.zero_grad()
        q_loss.backward()
        q_optimizer.step()

        if step % policy_frequency == 0:
            actor_loss = -critics[0](torch.cat([data.observations, actor(data.observations)], 1)).mean()
            actor_optimizer.zero_grad()
            actor_loss.backward()
            actor_optimizer.step()
            follow(target_actor, actor, settings.tau)
            for target, critic in zip(targets, critics, strict=True):
                follow(target, critic, settings.tau)
        num_updates += 1
    watch.stop()
    envs.close()
    return Training(
        num_steps=job.total_steps,
        num_updates=num_updates,
        layers=layers_of(actor.network),
        details={"torch_threads": torch.get_num_threads()},
    )


if __name__ == "__main__":
    main(run)
