"""PPO in the manner of CleanRL's ppo.py, ppo_continuous_action.py and, on images, ppo_atari.py (PyTorch, eager).

Without the normalisation of observations and rewards and the clipped value loss, which the others do not have by
default; the coefficient of the value loss counts twice, as the file halves the squared error. As in the file, the
end of an episode is the end of the return, also where it was only cut off.
"""

# The peer may be absent where types are checked.
# pyright: basic, reportMissingImports=false

import gymnasium
import numpy as np
import torch
from torch.distributions import Categorical, Distribution, Independent, Normal

from drivetrain.bench.train.job import Job
from drivetrain.bench.train.peers.atari import single_env
from drivetrain.bench.train.peers.cleanrl import NATURE_FEATURES, make_envs, nature, seed_everything
from drivetrain.bench.train.peers.entry import Training, main
from drivetrain.bench.train.peers.pytorch import layers_of
from drivetrain.bench.train.settings import PpoSettings
from drivetrain.bench.train.stopwatch import Stopwatch


def orthogonal(layer: torch.nn.Module, gain: float = np.sqrt(2)) -> torch.nn.Module:
    """The layer, initialised."""
    torch.nn.init.orthogonal_(layer.weight, gain)
    torch.nn.init.constant_(layer.bias, 0.0)
    return layer


def tower(num_inputs: int, hidden: tuple[int, ...], num_outputs: int, gain: float) -> torch.nn.Sequential:
    """Orthogonal layers with tanh between them."""
    layers: list[torch.nn.Module] = []
    for width in hidden:
        layers += [orthogonal(torch.nn.Linear(num_inputs, width)), torch.nn.Tanh()]
        num_inputs = width
    return torch.nn.Sequential(*layers, orthogonal(torch.nn.Linear(num_inputs, num_outputs), gain))


class Agent(torch.nn.Module):
    """Policy and value, networks of their own behind what looks at images."""

    def __init__(self, envs, settings: PpoSettings, *, on_images: bool = False) -> None:
        super().__init__()
        num_inputs, space = envs.single_observation_space.shape[0], envs.single_action_space
        self.space, self.features = space, torch.nn.Identity()
        if on_images:
            num_inputs, self.features = NATURE_FEATURES, nature()
            for layer in self.features:
                if hasattr(layer, "weight"):
                    orthogonal(layer)
        self.is_discrete = isinstance(space, gymnasium.spaces.Discrete)
        num_outputs = int(space.n) if self.is_discrete else space.shape[0]
        self.critic = tower(num_inputs, settings.hidden, 1, 1.0)
        self.actor = tower(num_inputs, settings.hidden, num_outputs, 0.01)
        self.log_std = torch.nn.Parameter(torch.full((1, num_outputs), settings.log_std_init))

    def bounded(self, actions: np.ndarray) -> np.ndarray:
        """What is done: real-valued actions are cut off at their bounds."""
        return actions if self.is_discrete else actions.clip(self.space.low, self.space.high)

    def distribution(self, features: torch.Tensor) -> Distribution:
        """What actions are drawn from."""
        outputs = self.actor(features)
        if self.is_discrete:
            return Categorical(logits=outputs)
        return Independent(Normal(outputs, self.log_std.expand_as(outputs).exp()), 1)


class Storage:
    """A rollout: [T, N, ...] each."""

    def __init__(self, envs, num_steps: int) -> None:
        lead = (num_steps, envs.num_envs)
        self.obs = torch.zeros(lead + envs.single_observation_space.shape)
        self.actions = torch.zeros(lead + envs.single_action_space.shape)
        self.log_probs, self.rewards, self.dones, self.values = (torch.zeros(lead) for _ in range(4))

    def flat(self, *fields: torch.Tensor) -> list[torch.Tensor]:
        """Fields with one axis for steps and environments."""
        return [field.reshape((-1, *field.shape[2:])) for field in fields]


def collect(agent: Agent, envs, rollout: Storage, obs: torch.Tensor, done: torch.Tensor):
    """Fill a rollout from observations and ends on; those behind it."""
    for step in range(len(rollout.rewards)):
        rollout.obs[step], rollout.dones[step] = obs, done
        with torch.no_grad():
            features = agent.features(obs)
            distribution = agent.distribution(features)
            action = distribution.sample()
            rollout.values[step] = agent.critic(features).flatten()
        rollout.actions[step], rollout.log_probs[step] = action, distribution.log_prob(action)
        next_obs, reward, terminations, truncations, _ = envs.step(agent.bounded(action.numpy()))
        rollout.rewards[step] = torch.as_tensor(reward)
        obs, done = torch.Tensor(next_obs), torch.Tensor(np.logical_or(terminations, truncations))
    return obs, done


def advantages_of(rollout: Storage, next_value: torch.Tensor, next_done: torch.Tensor, settings: PpoSettings):
    """GAE, step by step from the end."""
    advantages, later = torch.zeros_like(rollout.rewards), 0.0
    dones = torch.cat([rollout.dones, next_done[None]])
    values = torch.cat([rollout.values, next_value[None]])
    for t in reversed(range(len(rollout.rewards))):
        goes_on = 1.0 - dones[t + 1]
        delta = rollout.rewards[t] + settings.gamma * values[t + 1] * goes_on - values[t]
        advantages[t] = later = delta + settings.gamma * settings.gae_lambda * goes_on * later
    return advantages


def learn(agent: Agent, optimizer, rollout: Storage, advantages: torch.Tensor, clip: float, settings: PpoSettings):
    """All epochs of a rollout; how many updates that was."""
    returns = advantages + rollout.values
    obs, log_probs, actions, advantages, returns = rollout.flat(
        rollout.obs, rollout.log_probs, rollout.actions, advantages, returns
    )
    indices, num_updates = np.arange(len(returns)), 0
    for _ in range(settings.n_epochs):
        np.random.shuffle(indices)
        for start in range(0, len(indices), settings.batch_size):
            chosen = indices[start : start + settings.batch_size]
            features = agent.features(obs[chosen])
            distribution = agent.distribution(features)
            log_ratio = distribution.log_prob(actions[chosen]) - log_probs[chosen]
            ratio = log_ratio.exp()
            with torch.no_grad():  # what the files report
                ((ratio - 1) - log_ratio).mean()
                ((ratio - 1.0).abs() > clip).float().mean().item()
            advantage = advantages[chosen]
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
            policy_loss = torch.max(-advantage * ratio, -advantage * ratio.clamp(1 - clip, 1 + clip)).mean()
            value_loss = 0.5 * ((agent.critic(features).view(-1) - returns[chosen]) ** 2).mean()
            entropy = distribution.entropy().mean()
            loss = policy_loss - settings.ent_coef * entropy + value_loss * 2 * settings.vf_coef
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(agent.parameters(), settings.max_grad_norm)
            optimizer.step()
            num_updates += 1
    return num_updates


def run(job: Job, watch: Stopwatch) -> Training:
    """The whole file, from its networks to its last step."""
    settings = job.settings
    assert isinstance(settings, PpoSettings)
    seed_everything(job)
    envs = make_envs(job, settings.num_envs, single_env) if job.on_images else make_envs(job, settings.num_envs)
    agent = Agent(envs, settings, on_images=job.on_images)
    optimizer = torch.optim.Adam(agent.parameters(), lr=settings.learning_rate, eps=1e-5)
    rollout = Storage(envs, settings.n_steps)
    num_rollouts, num_updates = settings.num_steps(job.total_steps) // settings.steps_per_rollout, 0
    obs, done = torch.Tensor(envs.reset(seed=job.seed)[0]), torch.zeros(settings.num_envs)
    for iteration in range(num_rollouts):
        left = 1.0 - iteration / num_rollouts if settings.linear else 1.0
        optimizer.param_groups[0]["lr"] = left * settings.learning_rate
        obs, done = collect(agent, envs, rollout, obs, done)
        with torch.no_grad():
            advantages = advantages_of(rollout, agent.critic(agent.features(obs)).flatten(), done, settings)
        num_updates += learn(agent, optimizer, rollout, advantages, left * settings.clip_range, settings)
    watch.stop()
    envs.close()
    return Training(
        num_steps=num_rollouts * settings.steps_per_rollout,
        num_updates=num_updates,
        layers=[] if job.on_images else layers_of(agent.actor),
        details={"torch_threads": torch.get_num_threads()},
    )


if __name__ == "__main__":
    main(run)
