"""One comparison: algorithm, environment, steps, and one set of settings for both sides."""

from dataclasses import asdict, dataclass, replace
from typing import Any

from drivetrain.bench.train.job import DqnSettings

MARGIN_SHARE = 0.05
"""A loss of up to this share of a case's range of returns still counts as parity."""
QUICK_UPDATES = 256
"""Updates of a quick run."""


@dataclass(frozen=True, kw_only=True)
class ContinuousSettings:
    """Hyperparameters of SAC, TD3 and DDPG, in Stable-Baselines3's terms; one update after each step.

    Attributes:
        learning_starts: Environment steps, with uniform random actions, before the first update.
        tau: Share of the way that targets move at every update.
        action_noise: Standard deviation of the exploration noise on actions in -1..1; None for SAC,
            which samples its policy.
    """

    learning_rate: float
    learning_starts: int
    gamma: float = 0.99
    buffer_size: int = 1_000_000
    hidden: tuple[int, ...] = (256, 256)
    batch_size: int = 256
    tau: float = 0.005
    action_noise: float | None = None

    def num_steps(self, total_steps: int) -> int:
        """Environment steps of a run."""
        return total_steps

    def num_updates(self, total_steps: int) -> int:
        """Updates of a run of `total_steps`."""
        return max(0, total_steps - self.learning_starts)


@dataclass(frozen=True, kw_only=True)
class PpoSettings:
    """Hyperparameters of PPO, in Stable-Baselines3's terms.

    Attributes:
        n_envs: Environments stepped together.
        n_steps: Steps of each in a rollout.
        linear: Whether learning rate and clip range fall linearly to 0 over the run.
    """

    n_envs: int
    n_steps: int
    batch_size: int
    n_epochs: int
    gamma: float
    gae_lambda: float
    learning_rate: float
    clip_range: float = 0.2
    linear: bool = False
    ent_coef: float = 0.0
    vf_coef: float = 0.5
    max_grad_norm: float = 0.5
    hidden: tuple[int, ...] = (64, 64)

    @property
    def learning_starts(self) -> int:
        """Environment steps before the first update: one rollout."""
        return self.n_envs * self.n_steps

    def num_steps(self, total_steps: int) -> int:
        """Environment steps of a run: both sides finish the rollout in which `total_steps` falls."""
        return -(-total_steps // self.learning_starts) * self.learning_starts

    def num_updates(self, total_steps: int) -> int:
        """Updates of a run of `total_steps`: every minibatch of every epoch of every rollout."""
        return self.num_steps(total_steps) * self.n_epochs // self.batch_size


Settings = DqnSettings | ContinuousSettings | PpoSettings


@dataclass(frozen=True, kw_only=True)
class LearningCase:
    """One comparison.

    Attributes:
        algo: Our name of the algorithm.
        env: Gymnasium id.
        total_steps: Environment steps asked for; a side may have to finish a block of steps.
        settings: Of both sides.
        source: Where the settings are from, and where they had to differ.
        low: Return of uniformly random actions, rounded (mean of 100 episodes).
        high: Return that a good policy has, rounded: the environment's limit, what counts as solved,
            or what is usually reached in so many steps.
        num_seeds: Runs of each side that a verdict takes at least.
    """

    algo: str
    env: str
    total_steps: int
    settings: Settings
    source: str
    low: float
    high: float
    num_seeds: int = 5

    @property
    def name(self) -> str:
        """Algorithm and environment."""
        return f"{self.algo} {self.env}"

    @property
    def margin(self) -> float:
        """The loss of return that still counts as parity; fixed before anything was run."""
        return MARGIN_SHARE * (self.high - self.low)

    @property
    def work(self) -> tuple[int, int]:
        """Environment steps and updates that every run has to arrive at."""
        return self.settings.num_steps(self.total_steps), self.settings.num_updates(self.total_steps)

    def conditions(self) -> dict[str, Any]:
        """What a kept run must have been made with to count for this case, as JSON has it."""
        fields: dict[str, Any] = asdict(self.settings)
        settings = fields | {"hidden": list(self.settings.hidden)}
        return {"total_steps": self.total_steps, "settings": settings}

    def quickened(self) -> "LearningCase":
        """A case of a few hundred updates: it shows that both sides run, and nothing about learning."""
        block = self.settings.train_freq if isinstance(self.settings, DqnSettings) else 1
        return replace(self, total_steps=self.settings.learning_starts + max(block, QUICK_UPDATES), num_seeds=1)
