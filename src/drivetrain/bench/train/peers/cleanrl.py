"""What the CleanRL peers share: environments, replay and layers as its single files make them.

CleanRL is no library but a collection of single files to be copied and edited (Huang et al. 2022, JMLR 23(274)).
The peers here are written anew in the manner of its dqn.py, sac_continuous_action.py, td3_continuous_action.py,
ddpg_continuous_action.py, ppo.py and ppo_continuous_action.py, as of 2024: the same loop, networks, order of
operations and eager PyTorch, with the compared settings in place of the files' own, and without their TensorBoard
writer and printing. The replay is Stable-Baselines3's, which the files used, and of which they now carry a copy.
"""

# The peer may be absent where types are checked.
# pyright: basic, reportMissingImports=false

import random
from collections.abc import Callable, Iterable
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from stable_baselines3.common.buffers import ReplayBuffer

from drivetrain.bench.train.job import Job
from drivetrain.bench.train.peers.pytorch import use_threads


def seed_everything(job: Job) -> None:
    """Threads, and the seeds of Python, NumPy and PyTorch."""
    use_threads(job)
    random.seed(job.seed)
    np.random.seed(job.seed)
    torch.manual_seed(job.seed)


def make_envs(job: Job, num_envs: int, make: Callable[[str], gymnasium.Env] = gymnasium.make) -> Any:
    """Environments stepped in turn, which begin anew in the step that ends an episode, as the files expect."""

    def make_env(index: int) -> Callable[[], gymnasium.Env]:
        def thunk() -> gymnasium.Env:
            env = gymnasium.wrappers.RecordEpisodeStatistics(make(job.env))
            env.action_space.seed(job.seed + index)
            return env

        return thunk

    return SyncVectorEnv([make_env(index) for index in range(num_envs)], autoreset_mode=AutoresetMode.SAME_STEP)


def make_buffer(envs: SyncVectorEnv, size: int) -> ReplayBuffer:
    """The files' replay of one environment; truncation is told by the true next observation."""
    return ReplayBuffer(
        size, envs.single_observation_space, envs.single_action_space, "cpu", handle_timeout_termination=False
    )


def true_next_obs(next_obs: np.ndarray, truncations: np.ndarray, infos: dict) -> np.ndarray:
    """The observations that the steps led to, where episodes were cut off as well."""
    found = next_obs.copy()
    for index in np.flatnonzero(truncations):
        found[index] = infos["final_obs"][index]
    return found


def mlp(num_inputs: int, hidden: Iterable[int], num_outputs: int) -> torch.nn.Sequential:
    """Dense layers with ReLU between them, with PyTorch's initialisation."""
    layers: list[torch.nn.Module] = []
    for width in hidden:
        layers += [torch.nn.Linear(num_inputs, width), torch.nn.ReLU()]
        num_inputs = width
    return torch.nn.Sequential(*layers, torch.nn.Linear(num_inputs, num_outputs))


NATURE_FEATURES = 512


def nature() -> torch.nn.Sequential:
    """From bytes to features, as dqn_atari.py and ppo_atari.py have it."""
    convolutions = [torch.nn.Conv2d(*sizes) for sizes in ((4, 32, 8, 4), (32, 64, 4, 2), (64, 64, 3, 1))]
    layers = [layer for convolution in convolutions for layer in (convolution, torch.nn.ReLU())]
    dense = torch.nn.Linear(3136, NATURE_FEATURES), torch.nn.ReLU()
    return torch.nn.Sequential(_Scaled(), *layers, torch.nn.Flatten(), *dense)


class _Scaled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / 255.0


def follow(target: torch.nn.Module, online: torch.nn.Module, tau: float) -> None:
    """Move a target network, parameter by parameter."""
    for parameter, target_parameter in zip(online.parameters(), target.parameters(), strict=True):
        target_parameter.data.copy_(tau * parameter.data + (1 - tau) * target_parameter.data)
