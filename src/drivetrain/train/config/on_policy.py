"""On-policy: what is gathered before it is learned from, and the settings of PPO.

Fields that off-policy algorithms have, too, carry the same name and meaning.
"""

import math
from dataclasses import dataclass
from typing import Literal

from drivetrain.core.docstrings import with_fields
from drivetrain.train.config.parts import MOST, MOST_UPDATES, positive_in_float32, require, within_float32


@with_fields
@dataclass(frozen=True, kw_only=True)
class RolloutConfig:
    """How much an on-policy algorithm gathers before it learns.

    A run takes whole rollouts, as many as total_steps call for.
    """

    num_envs: int = 8
    """Environments, over all actors, which share them evenly."""
    rollout_length: int = 128
    """Steps of each environment in a rollout."""

    def __post_init__(self) -> None:
        require(self, "num_envs", 1 <= self.num_envs <= MOST, "in 1..2^31 - 1")
        require(self, "rollout_length", 1 <= self.rollout_length <= MOST, "in 1..2^31 - 1")


@with_fields
@dataclass(frozen=True, kw_only=True)
class PPOConfig:
    """Proximal policy optimisation; `drivetrain.train.algos.ppo` says what it computes."""

    hidden: tuple[int, ...] = (64, 64)
    """Widths of the hidden layers of the policy and, apart from it, of the value network."""
    activation: Literal["tanh", "relu"] = "tanh"
    """What follows each hidden layer."""
    torso: str = "auto"
    """What stands between observation and hidden layers: "auto" for what suits the observation, or your own, a
    pair (init, apply) from Python or its "module:name"."""
    share_torso: bool = True
    """Whether policy and value network look through one torso, which learns from both; else each has its own.
    Without effect where nothing in the torso learns, as for vectors."""
    optimizer: str = "adam"
    """What steps the parameters: "adam", or your own, a function from learning rate to an optax transformation
    from Python or its "module:name"; the rate is a JAX number, which a schedule may change."""
    learning_rate: float = 3e-4
    """Step size of Adam, at the start of the run."""
    learning_rate_schedule: Literal["constant", "linear"] = "constant"
    """Linear: falls to 0 with the last rollout."""
    adam_epsilon: float = 1e-5
    """Adam's term against division by zero."""
    max_gradient_norm: float = 0.5
    """Gradients of policy and value together with a larger Euclidean norm are scaled down to it."""
    gamma: float = 0.99
    """Discount per environment step."""
    gae_lambda: float = 0.95
    """Decay of the advantage estimate: 0 is the TD error, 1 the whole return."""
    batch_size: int = 64
    """Steps per update; has to divide the rollout."""
    num_epochs: int = 10
    """Times that every step of a rollout is learned from."""
    clip_range: float = 0.2
    """Probability ratios count within 1 +- this, at the start of the run."""
    clip_range_schedule: Literal["constant", "linear"] = "constant"
    """Linear: falls to 0 with the last rollout."""
    value_clip_range: float | None = None
    """How far a value may move from that of the rollout; None: as far as it likes."""
    normalize_advantages: bool = True
    """Give the advantages of every batch mean 0 and standard deviation 1."""
    value_coefficient: float = 0.5
    """Weight of the squared error of the values in the loss."""
    entropy_coefficient: float = 0.0
    """Weight of the policy's entropy in the loss."""
    target_kl: float | None = None
    """The rest of a rollout's updates is left out once the policy has moved 1.5 times this far, in nats."""
    initial_log_std: float = 0.0
    """Logarithm of the standard deviation of real-valued actions, which are in -1..1, at the start."""

    def __post_init__(self) -> None:
        require(self, "hidden", all(width >= 1 for width in self.hidden), "widths of at least 1")
        require(self, "learning_rate", positive_in_float32(self.learning_rate), "above 0, within float32")
        require(self, "adam_epsilon", positive_in_float32(self.adam_epsilon), "above 0, within float32")
        require(self, "max_gradient_norm", self.max_gradient_norm > 0, "above 0")
        require(self, "gamma", 0 <= self.gamma <= 1, "in 0..1")
        require(self, "gae_lambda", 0 <= self.gae_lambda <= 1, "in 0..1")
        require(self, "batch_size", self.batch_size >= 1, "at least 1")
        require(self, "num_epochs", 1 <= self.num_epochs <= MOST_UPDATES, f"in 1..{MOST_UPDATES}")
        require(self, "clip_range", 0 < self.clip_range < math.inf, "above 0")
        require(self, "value_clip_range", _is_positive_or_none(self.value_clip_range), "above 0, or None")
        alone = self.normalize_advantages and self.batch_size == 1
        require(self, "batch_size", not alone, "at least 2 where advantages are normalised")
        for name in ("value_coefficient", "entropy_coefficient"):
            weight: float = getattr(self, name)
            require(self, name, weight >= 0 and within_float32(weight), "at least 0, within float32")
        require(self, "target_kl", _is_positive_or_none(self.target_kl), "above 0, or None")
        require(self, "initial_log_std", -20 <= self.initial_log_std <= 20, "in -20..20")

    def learning_rate_at(self, progress: float) -> float:
        """The step size after a share `progress` in 0..1 of the run."""
        return self.learning_rate * (1.0 - progress if self.learning_rate_schedule == "linear" else 1.0)

    def clip_range_at(self, progress: float) -> float:
        """The clip range after a share `progress` in 0..1 of the run."""
        return self.clip_range * (1.0 - progress if self.clip_range_schedule == "linear" else 1.0)


def _is_positive_or_none(value: float | None) -> bool:
    return value is None or value > 0
