"""Settings of a case in which both sides are ours: the environment's preset."""

from dataclasses import dataclass
from typing import Any

from drivetrain.train.config import TrainConfig
from drivetrain.train.config.presets import preset
from drivetrain.train.ledger.rules import Rules

_OF_A_FORM = ("run", "simulator")
"""Parts of a configuration that say how a run is carried out, and not what is learned by."""


@dataclass(frozen=True, kw_only=True)
class PresetSettings:
    """A preset of ours.

    Attributes:
        algo: The algorithm.
        env: The environment that it is for.
    """

    algo: str
    env: str

    def config(self, total_steps: int) -> TrainConfig:
        """The configuration of a run with one actor."""
        return preset(self.algo, self.env).override(num_actors=1, total_steps=total_steps)

    @property
    def learning_starts(self) -> int:
        """Environment steps before the first update."""
        config = self.config(1)
        return config.steps_per_rollout if config.on_policy else config.updates.warmup_steps

    def num_steps(self, total_steps: int) -> int:
        """Environment steps of a run: whole rollouts, on-policy."""
        return self.config(total_steps).total_steps

    def num_updates(self, total_steps: int) -> int:
        """Updates of a run of `total_steps`."""
        rules = Rules.of(self.config(total_steps))
        return rules.due(rules.total_steps)

    def resolved(self, total_steps: int) -> dict[str, Any]:
        """Every setting by name, as JSON has it, but for those of `_OF_A_FORM`."""
        return _by_name(self.config(total_steps))

    def defaults(self) -> dict[str, Any]:
        """What each of these is where no preset says otherwise."""
        return _by_name(TrainConfig.default(self.algo, self.env))


def _by_name(config: TrainConfig) -> dict[str, Any]:
    parts = config.to_dict()
    known = {name: value for part in config.parts if part not in _OF_A_FORM for name, value in parts[part].items()}
    return known | {"envs_per_actor": config.envs_per_actor}
