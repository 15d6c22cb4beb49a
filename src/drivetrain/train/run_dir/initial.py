"""What a run begins with of another's, kept in its own folder: it can begin again, whatever becomes of the other.

another run's checkpoint -> of_networks -> RUN/initial.npz -> weights channel, moments, learner
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from drivetrain.train.config import TrainConfig
from drivetrain.train.ledger.rules import Origin
from drivetrain.train.run_dir.archives import Arrays, load_archive, save_archive

T = TypeVar("T")

INITIAL = "initial.npz"
"""The file's name in the run's folder."""
_KIND = "beginning"
STATE = "state/"
"""What the names of a learner's arrays begin with."""
_OF_A_RUN = ("state/optimizer", "state/key", "state/num_updates")
_PUBLISHED = ("params", "moments")


def of_networks(arrays: Mapping[str, T]) -> dict[str, T]:
    """What of a checkpoint is in the networks, or what they take their inputs for: not optimizers, streams, counts."""
    return {
        name: array
        for name, array in arrays.items()
        if name in _PUBLISHED or (name.startswith(STATE) and not name.startswith(_OF_A_RUN))
    }


def save_initial(run_dir: Path, arrays: Arrays, meta: Mapping[str, Any]) -> None:
    """Keep what a new run begins with.

    Args:
        run_dir: The new run's folder.
        arrays: Of the networks.
        meta: JSON-able; whose they are.

    Raises:
        OSError: They cannot be written.
    """
    save_archive(run_dir / INITIAL, _KIND, arrays, meta)


def initial_arrays(config: TrainConfig, run_dir: Path, origin: Origin) -> Arrays | None:
    """What a run begins with; None where it draws its first networks, or goes on from a checkpoint.

    Args:
        config: The run's.
        run_dir: Its folder.
        origin: Where it begins.

    Raises:
        FileFormatError: It is gone or damaged.
    """
    if config.run.init_from is None or origin.num_resumes > 0:
        return None
    return load_archive(run_dir / INITIAL, _KIND)[0]
