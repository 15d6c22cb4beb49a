"""A run from the outside: its folder, its result, and who carries it out.

train(...) -> resolve the configuration -> supervisor (processes) | loop (sequential) -> Result
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from drivetrain.core.errors import InvalidInput
from drivetrain.core.machine import num_cores
from drivetrain.train.config import TrainConfig
from drivetrain.train.devices import require_devices
from drivetrain.train.environments import describe
from drivetrain.train.policies import policy_network
from drivetrain.train.presets import preset


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a finished run has achieved."""

    run_dir: Path
    """The run's folder."""
    returns: tuple[float, ...]
    """Return of each episode of the final evaluation of the best policy."""
    num_steps: int
    """Environment steps taken."""
    num_updates: int
    """Updates done."""
    update_ratio: float
    """Updates per environment step after warm-up, as achieved."""
    learning_s: float
    """Seconds from the first environment step to the last update."""

    @property
    def mean_return(self) -> float:
        """Mean return of the final evaluation."""
        return float(np.mean(self.returns))

    @property
    def steps_per_s(self) -> float:
        """Environment steps per second of learning."""
        return self.num_steps / self.learning_s

    @property
    def updates_per_s(self) -> float:
        """Updates per second of learning."""
        return self.num_updates / self.learning_s


def resolve(algo: str, env: str, config: TrainConfig | None, overrides: dict[str, Any]) -> TrainConfig:
    """The configuration of a run: the given one, or the environment's preset, with overrides.

    Raises:
        InvalidInput: A field is unknown or out of range, or `config` is of another run.
    """
    if config is None:
        config = preset(algo, env)
    elif (config.algo, config.env) != (algo, env):
        raise InvalidInput(f"config: expected one for {algo} on {env}, got one for {config.algo} on {config.env}")
    return config.override(**overrides)


def start(config: TrainConfig, *, quiet: bool, ready: Callable[[], None] = lambda: None) -> Result:
    """Carry out a run; `ready` is called once nothing stands in its way.

    Raises:
        InvalidInput: The environment, the learners or the run folder are unfit; nothing was started.
        RunError: The run had to end early.
        KeyboardInterrupt: Ctrl-C, after everything was saved and ended.
    """
    interface = describe(config)
    require_devices(config, policy_network(config, interface).num_parameters, num_cores())
    run_dir = make_run_dir(config)
    config = config.override(num_actors=config.num_actors, run_dir=str(run_dir))
    (run_dir / "config.json").write_text(config.to_json())
    ready()
    if config.num_actors == 0:
        from drivetrain.train.loop import run_sequentially  # imports jax: only where it is needed

        return run_sequentially(config, interface, run_dir, quiet=quiet)
    from drivetrain.train.supervisor import supervise

    return supervise(config, interface, run_dir, quiet=quiet)


def make_run_dir(config: TrainConfig) -> Path:
    """Make the run's folder.

    Raises:
        InvalidInput: It exists and is not empty, or cannot be written.
    """
    path = Path(config.run.run_dir) if config.run.run_dir else _default_run_dir(config)
    try:
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise InvalidInput(f"run_dir: {path} is not empty; choose another folder, or remove what is there")
        (path / "logs").mkdir()
    except OSError as error:
        raise InvalidInput(f"run_dir: cannot write to {path}: {error.strerror}; choose another folder") from error
    return path.resolve()


def _default_run_dir(config: TrainConfig) -> Path:
    env = "".join(c if c.isalnum() or c in "-_." else "_" for c in config.env)
    moment = time.strftime("%Y%m%d-%H%M%S")
    return Path("runs") / f"{config.algo}-{env}-{moment}-{os.getpid()}"


def result(
    config: TrainConfig,
    run_dir: Path,
    returns: Sequence[float],
    counts: tuple[int, int],
    learning_s: float,
) -> Result:
    """Make the result, and check that the run kept its promise.

    Args:
        config: The run's.
        run_dir: Its folder.
        returns: Of the final evaluation.
        counts: Environment steps and updates done.
        learning_s: Seconds from the first step to the last update.
    """
    from drivetrain.train.ledger import Rules

    num_steps, num_updates = counts
    rules = Rules.of(config)
    assert num_steps == rules.total_steps, (num_steps, rules)
    assert num_updates == rules.due(num_steps), (num_updates, rules)
    after = num_steps - rules.warmup_steps
    return Result(
        run_dir=run_dir,
        returns=tuple(returns),
        num_steps=num_steps,
        num_updates=num_updates,
        update_ratio=num_updates / after if after > 0 else 0.0,
        learning_s=learning_s,
    )
