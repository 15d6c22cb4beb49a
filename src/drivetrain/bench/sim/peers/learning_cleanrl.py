"""PPO in the manner of CleanRL, around vector environments of anybody: what a training loop makes of their speed.

Settings: the loop, networks and updates of `bench/train/peers/cleanrl_ppo.py`, with `ppo_settings.py`. One call is
one rollout and its updates.
"""

# The peer may be absent where types are checked.
# pyright: basic, reportMissingImports=false

from collections.abc import Callable
from typing import Any

import torch

from drivetrain.bench.sim.peers.entry import Simulator
from drivetrain.bench.sim.peers.ppo_settings import settings_for
from drivetrain.bench.sim.scene import Scene
from drivetrain.bench.train.peers.cleanrl_ppo import Agent, Storage, advantages_of, collect, learn
from drivetrain.bench.train.settings import PpoSettings


class Learner:
    """The loop, a rollout at a time."""

    def __init__(self, envs: Any, num_envs: int, settings: PpoSettings) -> None:
        """`envs` has what Gymnasium's vector environments have; `settings` are the loop's."""
        self.envs, self.settings, self.num_envs = envs, settings, num_envs
        self.agent = Agent(envs, settings)
        self.optimizer = torch.optim.Adam(self.agent.parameters(), lr=settings.learning_rate, eps=1e-5)
        self.rollout = Storage(envs, settings.n_steps)
        self.obs, self.done = torch.Tensor(envs.reset()[0]), torch.zeros(num_envs)

    def iterate(self) -> int:
        """One rollout, its updates, and how many steps that was."""
        rollout, settings = self.rollout, self.settings
        self.obs, self.done = collect(self.agent, self.envs, rollout, self.obs, self.done)
        with torch.no_grad():
            last_value = self.agent.critic(self.agent.features(self.obs)).flatten()
            advantages = advantages_of(rollout, last_value, self.done, settings)
        learn(self.agent, self.optimizer, rollout, advantages, settings.clip_range, settings)
        return settings.n_steps * self.num_envs


def learning(scene: Scene, make: Callable[[Scene], Any]) -> Simulator:
    """The loop around the environments that `make` makes."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    return Learner(make(scene), scene.num_envs, settings_for(scene.num_envs)).iterate
