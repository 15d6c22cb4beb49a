"""What a finished run has achieved."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from drivetrain.core.docstrings import with_fields


@with_fields
@dataclass(frozen=True, kw_only=True)
class Result:
    """What a finished run has achieved."""

    run_dir: Path
    """The run's folder."""
    returns: tuple[float, ...]
    """Return of each episode of the final evaluation of the best policy."""
    success_rate: float | None = None
    """Share of these episodes that succeeded, where the environment says so in the last step's info, as `is_success` or
    `success`; else None."""
    num_steps: int
    """Environment steps taken."""
    num_updates: int
    """Updates done; PPO's that `target_kl` left out are among them."""
    update_ratio: float
    """Updates per environment step after warm-up, as achieved."""
    learning_s: float
    """Seconds from the first environment step to the last update."""
    checkpoint_nbytes: int
    """Bytes of the checkpoint at the end; 0 where there was never room for one."""
    replay_nbytes: int
    """Of these, what the replay takes; 0 where it is not kept."""

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

    def to_dict(self) -> dict[str, Any]:
        """JSON-able: what result.json holds."""
        return {**dataclasses.asdict(self), "run_dir": str(self.run_dir), "mean_return": self.mean_return}
