"""The configuration of a run: one frozen dataclass per part, resolved once, then passed whole.

    TrainConfig
    |-- run      RunConfig      how long, how many processes, how often to look
    |-- replay   ReplayConfig   what is remembered, and how it is drawn
    `-- dqn      DQNConfig      the algorithm

Field names are unique across the parts, so that `train(..., batch_size=64)` and `--batch-size 64`
need no prefix. `config.json` of a run holds all of it, resolved.
"""

import dataclasses
import json
import math
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from drivetrain.core.errors import FileFormatError, InvalidInput
from drivetrain.core.machine import num_cores


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """How long a run is, how many processes work on it, and how often they report."""

    total_steps: int = 50_000
    """Environment steps of the whole run, over all actors."""
    num_actors: int | Literal["auto"] = "auto"
    """Actor processes; 0 runs everything in one process, in a reproducible order."""
    envs_per_actor: int = 8
    """Environments that one actor steps together, sharing one evaluation of the network."""
    seed: int = 0
    """Seed of every random stream of the run."""
    run_dir: str | None = None
    """Folder for the results; must be empty or absent. None: runs/ALGO-ENV-TIME."""
    tolerance: int = 64
    """Updates that the learner may owe before actors wait for it; 0 is lock-step."""
    checkpoint_interval_s: float = 10.0
    """Seconds between checkpoints; the first is written at the end of warm-up."""
    log_interval_steps: int = 1_000
    """Environment steps between rows of metrics.jsonl."""
    eval_interval_steps: int = 2_500
    """Environment steps between evaluations that select the best policy."""
    eval_episodes: int = 20
    """Episodes of each such evaluation."""
    eval_max_steps: int = 10_000
    """Steps after which an evaluation episode is cut off, where the environment has no limit."""
    final_eval_episodes: int = 100
    """Episodes of the evaluation at the end, on seeds used for nothing else."""

    def __post_init__(self) -> None:
        require(self, "total_steps", self.total_steps >= 1, "at least 1")
        valid = self.num_actors == "auto" or self.num_actors >= 0
        require(self, "num_actors", valid, '0 (sequential), a count, or "auto"')
        require(self, "envs_per_actor", self.envs_per_actor >= 1, "at least 1")
        require(self, "seed", self.seed >= 0, "at least 0")
        require(self, "tolerance", self.tolerance >= 0, "at least 0 updates")
        require(self, "checkpoint_interval_s", self.checkpoint_interval_s > 0, "more than 0 s")
        require(self, "log_interval_steps", self.log_interval_steps >= 1, "at least 1")
        require(self, "eval_interval_steps", self.eval_interval_steps >= 1, "at least 1")
        require(self, "eval_episodes", self.eval_episodes >= 1, "at least 1")
        require(self, "eval_max_steps", self.eval_max_steps >= 1, "at least 1")
        require(self, "final_eval_episodes", self.final_eval_episodes >= 1, "at least 1")


@dataclass(frozen=True, kw_only=True)
class ReplayConfig:
    """What is remembered, and how it is drawn."""

    capacity: int = 100_000
    """Transitions that are kept; the oldest are overwritten."""
    prioritized: bool = True
    """Draw by priority (Schaul et al. 2016) rather than uniformly."""
    alpha: float = 0.6
    """Priority exponent: p = |TD error|^alpha."""
    beta: float = 0.4
    """Importance-correction exponent at the start; rises linearly to 1 at the end of the run."""
    num_step: int = 3
    """Rewards summed before bootstrapping."""

    def __post_init__(self) -> None:
        require(self, "capacity", self.capacity >= 1, "at least 1 transition")
        require(self, "alpha", 0 <= self.alpha <= 1, "in 0..1")
        require(self, "beta", 0 <= self.beta <= 1, "in 0..1")
        require(self, "num_step", self.num_step >= 1, "at least 1")

    def beta_at(self, progress: float) -> float:
        """The correction exponent after a share `progress` in 0..1 of the run."""
        return self.beta + (1.0 - self.beta) * min(max(progress, 0.0), 1.0)


@dataclass(frozen=True, kw_only=True)
class DQNConfig:
    """Deep Q-learning; see algos/dqn.py for the algorithm."""

    hidden: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers (ReLU)."""
    double: bool = True
    """Choose the next action by the online network (van Hasselt et al. 2016)."""
    dueling: bool = False
    """Split the last layer into value and advantage (Wang et al. 2016)."""
    gamma: float = 0.99
    """Discount per environment step."""
    learning_rate: float = 1e-3
    """Step size of Adam."""
    adam_epsilon: float = 1e-8
    """Adam's term against division by zero."""
    batch_size: int = 64
    """Transitions per update."""
    huber_delta: float = 1.0
    """|TD error| above which the loss is linear."""
    max_gradient_norm: float = 10.0
    """Gradients with a larger Euclidean norm are scaled down to it."""
    target_interval: int = 1
    """Updates between moves of the target network."""
    target_tau: float = 0.005
    """Share of the way that the target then moves to the online network; 1 copies it."""
    warmup_steps: int = 1_000
    """Environment steps before the first update."""
    update_ratio: Fraction = Fraction(1, 2)
    """Updates per environment step after warm-up, kept exactly. An integer, "1/4" or 0.25."""
    updates_per_call: int = 32
    """Most updates compiled into one call of the learner."""
    epsilon_start: float = 1.0
    """Share of random actions at the first step."""
    epsilon_end: float = 0.04
    """Share of random actions once exploration_steps have passed."""
    exploration_steps: int = 8_000
    """Environment steps over which the share falls linearly."""

    def __post_init__(self) -> None:
        require(self, "hidden", all(width >= 1 for width in self.hidden), "widths of at least 1")
        require(self, "gamma", 0 <= self.gamma <= 1, "in 0..1")
        require(self, "learning_rate", 0 < self.learning_rate < math.inf, "above 0")
        require(self, "adam_epsilon", 0 < self.adam_epsilon < math.inf, "above 0")
        require(self, "batch_size", self.batch_size >= 1, "at least 1")
        require(self, "huber_delta", self.huber_delta > 0, "above 0")
        require(self, "max_gradient_norm", self.max_gradient_norm > 0, "above 0")
        require(self, "target_interval", self.target_interval >= 1, "at least 1")
        require(self, "target_tau", 0 < self.target_tau <= 1, "above 0, at most 1")
        require(self, "warmup_steps", self.warmup_steps >= 0, "at least 0")
        require(self, "update_ratio", self.update_ratio >= 0, "at least 0")
        require(self, "updates_per_call", self.updates_per_call >= 1, "at least 1")
        require(self, "epsilon_start", 0 <= self.epsilon_start <= 1, "in 0..1")
        require(self, "epsilon_end", 0 <= self.epsilon_end <= 1, "in 0..1")
        require(self, "exploration_steps", self.exploration_steps >= 0, "at least 0")

    def epsilon_at(self, step: int) -> float:
        """The share of random actions at a global environment step."""
        if step >= self.exploration_steps:
            return self.epsilon_end
        done = step / self.exploration_steps
        return self.epsilon_start + (self.epsilon_end - self.epsilon_start) * done


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """All of a run's configuration, with the conditions that span its parts."""

    algo: str
    """The algorithm: "dqn"."""
    env: str
    """Gymnasium's id of the environment; "module:Id" imports the module first."""
    run: RunConfig = field(default_factory=RunConfig)
    """How long, how many processes, how often to look."""
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    """What is remembered, and how it is drawn."""
    dqn: DQNConfig = field(default_factory=DQNConfig)
    """The algorithm."""

    def __post_init__(self) -> None:
        if self.algo != "dqn":
            raise InvalidInput(f"unknown algorithm {self.algo!r}: choose from dqn")
        needed = self.num_rows_before_learning
        if self.dqn.update_ratio > 0 and self.dqn.warmup_steps < needed:
            raise InvalidInput(
                f"warmup_steps: expected at least {needed} (a batch of {self.dqn.batch_size}, and "
                f"the {self.replay.num_step}-step windows still open in each environment), got "
                f"{self.dqn.warmup_steps}; raise it, or lower batch_size, num_step or the actors"
            )
        if self.replay.capacity < needed:
            raise InvalidInput(f"capacity: expected at least {needed} transitions, got {self.replay.capacity}")

    @property
    def num_rows_before_learning(self) -> int:
        """Steps after which a batch can surely be drawn: windows hold back num_step - 1 rows."""
        num_envs = max(1, self.num_actors) * self.run.envs_per_actor
        return self.dqn.batch_size + num_envs * (self.replay.num_step - 1)

    @property
    def num_actors(self) -> int:
        """Actor processes: as asked, or one for each core that the learner leaves."""
        if self.run.num_actors == "auto":
            return max(1, num_cores() - 1)
        return self.run.num_actors

    def override(self, **fields: Any) -> "TrainConfig":
        """A copy with fields of any part replaced by name.

        Raises:
            InvalidInput: No part has a field of that name, or its value is out of range.
        """
        parts = {part: getattr(self, part) for part in ("run", "replay", "dqn")}
        for name, value in fields.items():
            for part, config in parts.items():
                if name in {entry.name for entry in dataclasses.fields(config)}:
                    parts[part] = dataclasses.replace(config, **{name: _convert(name, value)})
                    break
            else:
                known = sorted(f.name for config in parts.values() for f in dataclasses.fields(config))
                raise InvalidInput(f"unknown setting {name!r}: choose from {', '.join(known)}")
        return dataclasses.replace(self, **parts)

    def to_json(self) -> str:
        """The text of config.json: resolved, one object per part."""
        resolved = self.override(num_actors=self.num_actors)
        return json.dumps(dataclasses.asdict(resolved), indent=2, default=str) + "\n"

    @classmethod
    def load(cls, path: Path) -> "TrainConfig":
        """Read a config.json.

        Raises:
            FileFormatError: It is absent, no JSON, or not of this version's fields.
        """
        try:
            data = json.loads(path.read_text())
            bare = cls(algo=data["algo"], env=data["env"])
            fields = {**data["run"], **data["replay"], **data["dqn"]}
            return bare.override(**fields)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise FileFormatError(f"{path}: expected the config.json of a run: {error}") from error


def _convert(name: str, value: Any) -> Any:
    """Accept the plain spellings of the two fields whose type JSON and callers cannot write."""
    if name == "hidden":
        return tuple(int(width) for width in value)
    if name == "update_ratio" and not isinstance(value, Fraction):
        try:
            return Fraction(str(value))
        except (ValueError, ZeroDivisionError) as error:
            raise InvalidInput(
                f'update_ratio: expected an integer, a fraction as "1/4" or a decimal, got {value!r}'
            ) from error
    return value


def require(config: object, name: str, holds: bool, expected: str) -> None:
    """Raise the sentence about a field whose value is out of range."""
    if not holds:
        raise InvalidInput(f"{name}: expected {expected}, got {getattr(config, name)!r}")
