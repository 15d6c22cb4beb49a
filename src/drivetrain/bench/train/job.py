"""What a rival is asked to do, and what it answers: the two JSON files of one fresh process."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from drivetrain.bench.train.settings import ContinuousSettings, DqnSettings, PpoSettings, Settings


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run of one rival.

    Attributes:
        kind: "fixed" trains for all steps; "target" stops at the first evaluation that reaches it.
        total_steps: Environment steps to train for, at most.
        threads: Computation threads per process; None leaves the framework's own choice.
        num_envs: Environments stepped together, in each process that steps any; None is our default.
        num_actors: Ours only: 0 is the sequential form; None is our default.
        num_learners: Ours only: between which each batch is split.
        evaluate_every: Environment steps between evaluations ("target" only).
        target_return: Mean return over `num_episodes` to reach.
        settings: None asks for the rival's own defaults (ours only).
        algo: Says of which type the settings are.
    """

    kind: Literal["fixed", "target"]
    env: str
    seed: int
    total_steps: int
    threads: int | None = 1
    num_envs: int | None = 1
    num_actors: int | None = None
    num_learners: int = 1
    evaluate_every: int = 1_024
    target_return: float = 475.0
    num_episodes: int = 100
    settings: Settings | None = None
    algo: str = "dqn"

    @property
    def on_images(self) -> bool:
        """Whether its environment is one of Atari's games.

        Everybody then has pictures of 84 x 84, four in a stack, each for four of the game's frames, as Mnih et al. 2015
        have them, and the Nature CNN, which the shared evaluator does not know, below the hidden layers.
        """
        return self.env.startswith("ALE/")

    def save(self, path: Path) -> None:
        """Write the job for the rival's process."""
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read back what `save` wrote."""
        fields = json.loads(path.read_text())
        if fields["settings"] is not None:
            hidden = tuple(fields["settings"].pop("hidden"))
            fields["settings"] = _TYPES[fields["algo"]](hidden=hidden, **fields["settings"])
        return cls(**fields)


_TYPES: Mapping[str, type[Settings]] = {
    "dqn": DqnSettings,
    "ddpg": ContinuousSettings,
    "td3": ContinuousSettings,
    "sac": ContinuousSettings,
    "ppo": PpoSettings,
}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one run took.

    Attributes:
        cpu_s: CPU-seconds, user and system, of all processes, from just before the environment
            and the network are made to the end of training: compilation is in, evaluation is out.
        wall_s: Wall seconds of the same span, without evaluations.
        import_cpu_s: CPU-seconds of starting the interpreter and importing the framework before.
        num_steps: Environment steps actually done.
        num_updates: Gradient updates actually done.
        mean_return: Of the final policy, by the evaluator that all rivals share; None: not taken.
        reached: Whether the target was reached ("target" only); then the times end there.
        process_cpu_s: Whole life of the process and its children, as the kernel reports it.
        details: Whatever else is worth keeping.
    """

    cpu_s: float
    wall_s: float
    import_cpu_s: float
    num_steps: int
    num_updates: int
    mean_return: float | None = None
    reached: bool | None = None
    process_cpu_s: float | None = None
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def save(self, path: Path) -> None:
        """Write the outcome for the process that asked."""
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read back what `save` wrote."""
        return cls(**json.loads(path.read_text()))
