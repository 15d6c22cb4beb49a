"""The settings of each off-policy algorithm: one dataclass each, none inherits from another.

Fields that several algorithms have carry the same name and meaning in each of them.
"""

import math
from dataclasses import dataclass

import numpy as np

from drivetrain.core.docstrings import with_fields
from drivetrain.train.config.on_policy import PPOConfig
from drivetrain.train.config.parts import MOST, positive_in_float32, require, within_float32


@with_fields
@dataclass(frozen=True, kw_only=True)
class DQNConfig:
    """Deep Q-learning; `drivetrain.train.algos.dqn` says what it computes."""

    hidden: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers (ReLU)."""
    torso: str = "auto"
    """What stands between observation and hidden layers: "auto" for what suits the observation, or your own, a
    pair (init, apply) from Python or its "module:name"."""
    optimizer: str = "adam"
    """What steps the parameters: "adam", or your own, a function from learning rate to an optax transformation
    from Python or its "module:name"."""
    double: bool = True
    """Choose the next action by the online network (van Hasselt et al. 2016)."""
    dueling: bool = False
    """Split the last layer into value and advantage (Wang et al. 2016)."""
    num_atoms: int = 1
    """Returns that the distribution of returns is over (C51: 51; Bellemare et al. 2017); 1: their mean alone."""
    value_min: float = -10.0
    """Smallest of them; discounted returns below it count as it."""
    value_max: float = 10.0
    """Largest of them."""
    noisy: bool = False
    """Dense layers with learned noise, for exploring (Fortunato et al. 2018); epsilon still applies."""
    noise_scale: float = 0.5
    """Scale of that noise at the start, sigma_0."""
    learning_rate: float = 1e-3
    """Step size of Adam."""
    adam_epsilon: float = 1e-8
    """Adam's term against division by zero."""
    huber_delta: float = 1.0
    """|TD error| above which the loss is linear."""
    max_gradient_norm: float = 10.0
    """Gradients with a larger Euclidean norm are scaled down to it."""
    target_interval: int = 1
    """Updates between moves of the target network."""
    target_tau: float = 0.005
    """Share of the way that the target then moves to the online network; 1 copies it."""
    epsilon_start: float = 1.0
    """Share of random actions at the first step."""
    epsilon_end: float = 0.04
    """Share of random actions once exploration_steps have passed."""
    exploration_steps: int = 8_000
    """Environment steps over which the share falls linearly."""

    def __post_init__(self) -> None:
        _require_network_and_adam(self)
        require(self, "num_atoms", self.num_atoms >= 1, "at least 1")
        bounded = within_float32(self.value_min) and within_float32(self.value_max)
        bounded = bounded and positive_in_float32(self.value_max - self.value_min)
        require(self, "value_max", bounded, f"more than value_min ({self.value_min}), both within float32")
        apart = f"so far above value_min ({self.value_min}) that float32 tells num_atoms returns between them apart"
        require(self, "value_max", self._tells_atoms_apart(), apart)
        require(self, "noise_scale", positive_in_float32(self.noise_scale), "above 0, within float32")
        require(self, "huber_delta", self.huber_delta > 0, "above 0")
        require(self, "max_gradient_norm", self.max_gradient_norm > 0, "above 0")
        require(self, "target_interval", 1 <= self.target_interval <= MOST, "in 1..2^31 - 1")
        require(self, "epsilon_start", 0 <= self.epsilon_start <= 1, "in 0..1")
        require(self, "epsilon_end", 0 <= self.epsilon_end <= 1, "in 0..1")
        require(self, "exploration_steps", self.exploration_steps >= 0, "at least 0")

    def _tells_atoms_apart(self) -> bool:
        """Whether returns stay different when they are rounded; with one there is nothing to tell apart."""
        ulp = float(np.spacing(np.float32(max(abs(self.value_min), abs(self.value_max)))))
        return self.num_atoms == 1 or (self.value_max - self.value_min) / ulp >= self.num_atoms - 1

    def epsilon_at(self, step: int) -> float:
        """The share of random actions at a global environment step."""
        if step >= self.exploration_steps:
            return self.epsilon_end
        done = step / self.exploration_steps
        return self.epsilon_start + (self.epsilon_end - self.epsilon_start) * done


@with_fields
@dataclass(frozen=True, kw_only=True)
class DDPGConfig:
    """Deep deterministic policy gradient; `drivetrain.train.algos.ddpg` says what it computes."""

    hidden: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers of actor and critic (ReLU)."""
    torso: str = "auto"
    """What stands between observation and hidden layers: "auto" for what suits the observation, or your own, a
    pair (init, apply) from Python or its "module:name"."""
    optimizer: str = "adam"
    """What steps the parameters: "adam", or your own, a function from learning rate to an optax transformation
    from Python or its "module:name"."""
    learning_rate: float = 1e-3
    """Step size of Adam, for actor and critic."""
    adam_epsilon: float = 1e-8
    """Adam's term against division by zero."""
    target_tau: float = 0.005
    """Share of the way that the targets move to the online networks at every update."""
    exploration_noise: float = 0.1
    """Standard deviation of the Gaussian noise on actions, which are in -1..1."""
    noise_correlation: float = 0.0
    """Correlation of that noise with the noise of the step before, in 0..1: 0 is independent noise, and what is near 1
    keeps its direction for about 1 / (1 - correlation) steps (an Ornstein-Uhlenbeck process)."""

    def __post_init__(self) -> None:
        _require_network_and_adam(self)
        require(self, "exploration_noise", 0 <= self.exploration_noise < math.inf, "at least 0, finite")
        require(self, "noise_correlation", 0 <= self.noise_correlation < 1, "at least 0, below 1")


@with_fields
@dataclass(frozen=True, kw_only=True)
class TD3Config:
    """Twin delayed DDPG; `drivetrain.train.algos.td3` says what it computes."""

    hidden: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers of actor and critics (ReLU)."""
    torso: str = "auto"
    """What stands between observation and hidden layers: "auto" for what suits the observation, or your own, a
    pair (init, apply) from Python or its "module:name"."""
    optimizer: str = "adam"
    """What steps the parameters: "adam", or your own, a function from learning rate to an optax transformation
    from Python or its "module:name"."""
    learning_rate: float = 1e-3
    """Step size of Adam, for actor and critics."""
    adam_epsilon: float = 1e-8
    """Adam's term against division by zero."""
    target_tau: float = 0.005
    """Share of the way that the targets move to the online networks."""
    policy_delay: int = 2
    """Updates of the critics for one of the actor and the targets."""
    target_noise: float = 0.2
    """Standard deviation of the noise on the target's actions (target policy smoothing)."""
    target_noise_clip: float = 0.5
    """Largest such noise."""
    exploration_noise: float = 0.1
    """Standard deviation of the Gaussian noise on actions, which are in -1..1."""
    noise_correlation: float = 0.0
    """Correlation of that noise with the noise of the step before, in 0..1: 0 is independent noise, and what is near 1
    keeps its direction for about 1 / (1 - correlation) steps (an Ornstein-Uhlenbeck process)."""

    def __post_init__(self) -> None:
        _require_network_and_adam(self)
        require(self, "policy_delay", 1 <= self.policy_delay <= MOST, "in 1..2^31 - 1")
        require(self, "target_noise", 0 <= self.target_noise < math.inf, "at least 0")
        require(self, "target_noise_clip", self.target_noise_clip >= 0, "at least 0")
        require(self, "exploration_noise", 0 <= self.exploration_noise < math.inf, "at least 0, finite")
        require(self, "noise_correlation", 0 <= self.noise_correlation < 1, "at least 0, below 1")


@with_fields
@dataclass(frozen=True, kw_only=True)
class SACConfig:
    """Soft actor-critic; `drivetrain.train.algos.sac` says what it computes."""

    hidden: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers of actor and critics (ReLU)."""
    torso: str = "auto"
    """What stands between observation and hidden layers: "auto" for what suits the observation, or your own, a
    pair (init, apply) from Python or its "module:name"."""
    optimizer: str = "adam"
    """What steps the parameters: "adam", or your own, a function from learning rate to an optax transformation
    from Python or its "module:name"."""
    learning_rate: float = 3e-4
    """Step size of Adam, for actor, critics and temperature."""
    adam_epsilon: float = 1e-8
    """Adam's term against division by zero."""
    target_tau: float = 0.005
    """Share of the way that the critics' targets move to the critics at every update."""
    initial_temperature: float = 1.0
    """The temperature alpha, the weight of the entropy, at the start."""
    learn_temperature: bool = True
    """Adjust the temperature to the target entropy (Haarnoja et al. 2018b, section 5)."""
    target_entropy: float | None = None
    """Entropy that the policy is held to, in nats; None: minus the number of action dimensions."""
    noise_correlation: float = 0.0
    """Correlation of the normal numbers that actions are drawn by with those of the step before, in 0..1: 0 is
    independent draws, and what is near 1 keeps its direction for about 1 / (1 - correlation) steps (an
    Ornstein-Uhlenbeck process)."""

    def __post_init__(self) -> None:
        _require_network_and_adam(self)
        require(self, "initial_temperature", positive_in_float32(self.initial_temperature), "above 0, within float32")
        valid = self.target_entropy is None or within_float32(self.target_entropy)
        require(self, "target_entropy", valid, "a number of nats within float32, or None")
        require(self, "noise_correlation", 0 <= self.noise_correlation < 1, "at least 0, below 1")


AgentConfig = DQNConfig | DDPGConfig | TD3Config | SACConfig | PPOConfig
"""The settings of any algorithm."""

AGENTS: dict[str, type[AgentConfig]] = {
    "dqn": DQNConfig,
    "ddpg": DDPGConfig,
    "td3": TD3Config,
    "sac": SACConfig,
    "ppo": PPOConfig,
}
"""Name of an algorithm: the type of its settings."""


def _require_network_and_adam(config: DQNConfig | DDPGConfig | TD3Config | SACConfig) -> None:
    """What holds for the fields that all off-policy algorithms have."""
    require(config, "hidden", all(width >= 1 for width in config.hidden), "widths of at least 1")
    require(config, "learning_rate", positive_in_float32(config.learning_rate), "above 0, within float32")
    require(config, "adam_epsilon", positive_in_float32(config.adam_epsilon), "above 0, within float32")
    require(config, "target_tau", 0 < config.target_tau <= 1, "above 0, at most 1")
