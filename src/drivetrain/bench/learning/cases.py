"""What is learned by both sides: algorithm, environment, steps, and one set of settings for everybody."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from drivetrain.bench.train.job import DqnSettings
from drivetrain.core.errors import InvalidInput

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


Settings = DqnSettings | ContinuousSettings


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
        settings = {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(self.settings).items()}
        return {"total_steps": self.total_steps, "settings": settings}

    def quickened(self) -> "LearningCase":
        """A case of a few hundred updates: it shows that both sides run, and nothing about learning."""
        block = self.settings.train_freq if isinstance(self.settings, DqnSettings) else 1
        return replace(self, total_steps=self.settings.learning_starts + max(block, QUICK_UPDATES), num_seeds=1)


_PENDULUM = {"env": "Pendulum-v1", "total_steps": 20_000, "low": -1_200.0, "high": -150.0}
_CHEETAH = {"env": "HalfCheetah-v5", "total_steps": 100_000, "low": -300.0, "high": 5_000.0, "num_seeds": 3}
_ZOO_PENDULUM = (
    "RL Baselines3 Zoo, {}, Pendulum-v1, and Stable-Baselines3's defaults; updates after every step, where "
    "versions of the file have as many after every episode"
)

CASES: Sequence[LearningCase] = (
    LearningCase(
        algo="dqn",
        env="CartPole-v1",
        total_steps=50_000,
        settings=DqnSettings(),
        source="RL Baselines3 Zoo, hyperparams/dqn.yml, CartPole-v1",
        low=20.0,
        high=500.0,
    ),
    LearningCase(
        algo="ddpg",
        **_PENDULUM,
        settings=ContinuousSettings(
            learning_rate=1e-3,
            learning_starts=10_000,
            gamma=0.98,
            buffer_size=200_000,
            hidden=(400, 300),
            action_noise=0.1,
        ),
        source=_ZOO_PENDULUM.format("hyperparams/ddpg.yml"),
    ),
    LearningCase(
        algo="td3",
        **_PENDULUM,
        settings=ContinuousSettings(
            learning_rate=1e-3,
            learning_starts=10_000,
            gamma=0.98,
            buffer_size=200_000,
            hidden=(400, 300),
            action_noise=0.1,
        ),
        source=_ZOO_PENDULUM.format("hyperparams/td3.yml"),
    ),
    LearningCase(
        algo="sac",
        **_PENDULUM,
        settings=ContinuousSettings(learning_rate=1e-3, learning_starts=256),
        source="RL Baselines3 Zoo, hyperparams/sac.yml, Pendulum-v1, and Stable-Baselines3's defaults; "
        "256 steps before the first update (a batch, which ours waits for) instead of 100",
    ),
    LearningCase(
        algo="dqn",
        env="LunarLander-v3",
        total_steps=100_000,
        settings=DqnSettings(
            learning_rate=6.3e-4,
            batch_size=128,
            buffer_size=50_000,
            learning_starts=128,
            target_update_interval=250,
            train_freq=4,
            gradient_steps=4,
            exploration_fraction=0.12,
            exploration_final_eps=0.1,
        ),
        source="RL Baselines3 Zoo, hyperparams/dqn.yml, LunarLander-v2; 128 steps before the first update "
        "(a batch, which ours waits for) instead of 0",
        low=-180.0,
        high=200.0,
    ),
    LearningCase(
        algo="td3",
        **_CHEETAH,
        settings=ContinuousSettings(learning_rate=1e-3, learning_starts=10_000, hidden=(400, 300), action_noise=0.1),
        source="RL Baselines3 Zoo, hyperparams/td3.yml, HalfCheetah-v4, at a tenth of its steps",
    ),
    LearningCase(
        algo="sac",
        **_CHEETAH,
        settings=ContinuousSettings(learning_rate=3e-4, learning_starts=10_000),
        source="RL Baselines3 Zoo, hyperparams/sac.yml, HalfCheetah-v4, and Stable-Baselines3's defaults, "
        "at a tenth of its steps",
    ),
)
"""Cheapest first."""


def case_named(name: str) -> LearningCase:
    """The case of a name that `LearningCase.name` gave."""
    return {case.name: case for case in CASES}[name]


def matching(words: Sequence[str]) -> list[LearningCase]:
    """The cases that have one of the words in their name, in their order; all where there are none.

    Raises:
        InvalidInput: A word is in no name.
    """
    names = [case.name for case in CASES]
    for word in words:
        if not any(word in name for name in names):
            raise InvalidInput(f"--cases: no case has {word!r} in its name: choose from {', '.join(names)}")
    return [case for case in CASES if not words or any(word in case.name for word in words)]
