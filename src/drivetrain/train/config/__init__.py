"""The configuration of a run: one frozen dataclass per part, resolved once, then passed whole.

    TrainConfig
    |-- run          RunConfig          how long, how many processes, how often to look
    |-- environment  EnvironmentConfig  how the environment is wrapped
    |-- simulator    SimulatorConfig    DQN and PPO: whether a kernel steps it with the policy
    |-- replay       ReplayConfig       off-policy: what is remembered, and how it is drawn
    |-- updates      UpdateConfig       off-policy: how much is learned from it
    |-- rollout      RolloutConfig      on-policy: how much is gathered before it is learned from
    `-- agent        DQNConfig | DDPGConfig | TD3Config | SACConfig | PPOConfig    the algorithm

Field names are unique across the parts of a run, so that `train(..., batch_size=64)` and
`--batch-size 64` need no prefix. `config.json` of a run holds all of it, resolved.
What is known to work for an environment is in `presets.py`.
"""

from drivetrain.train.config.agents import (
    AGENTS,
    AgentConfig,
    DDPGConfig,
    DQNConfig,
    SACConfig,
    TD3Config,
)
from drivetrain.train.config.environment import EnvironmentConfig
from drivetrain.train.config.on_policy import PPOConfig, RolloutConfig
from drivetrain.train.config.parts import Precision, ReplayConfig, RunConfig, UpdateConfig
from drivetrain.train.config.simulator import SimulatorConfig, is_simulator
from drivetrain.train.config.whole import TrainConfig

__all__ = [
    "AGENTS",
    "AgentConfig",
    "DDPGConfig",
    "DQNConfig",
    "EnvironmentConfig",
    "PPOConfig",
    "Precision",
    "ReplayConfig",
    "RolloutConfig",
    "RunConfig",
    "SACConfig",
    "SimulatorConfig",
    "TD3Config",
    "TrainConfig",
    "UpdateConfig",
    "is_simulator",
]
