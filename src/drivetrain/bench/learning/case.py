"""One comparison: algorithm, environment, steps, and one set of settings for both sides."""

from dataclasses import MISSING, asdict, dataclass, fields, replace
from typing import Any

from drivetrain.bench.learning.presets import PresetSettings
from drivetrain.bench.train.settings import DqnSettings
from drivetrain.bench.train.settings import Settings as AlgorithmSettings

MARGIN_SHARE = 0.05
"""A loss of up to this share of a case's range of returns still counts as parity."""
QUICK_UPDATES = 256
"""Updates of a quick run."""


Settings = AlgorithmSettings | PresetSettings


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
        """What a run of this case is made with, as JSON has it."""
        if isinstance(self.settings, PresetSettings):
            settings = self.settings.resolved(self.total_steps)
        else:
            settings = asdict(self.settings) | {"hidden": list(self.settings.hidden)}
        return {"total_steps": self.total_steps, "settings": settings}

    def defaults(self) -> dict[str, Any]:
        """What its settings are where nobody says otherwise."""
        if isinstance(self.settings, PresetSettings):
            return self.settings.defaults()
        return {field.name: field.default for field in fields(self.settings) if field.default is not MISSING}

    def quickened(self) -> "LearningCase":
        """A case of a few hundred updates: it shows that both sides run, and nothing about learning."""
        block = self.settings.train_freq if isinstance(self.settings, DqnSettings) else 1
        return replace(self, total_steps=self.settings.learning_starts + max(block, QUICK_UPDATES), num_seeds=1)
