"""What environments may not return, and the sentences that say so.

Every step: environment -> encode (shape, dtype) -> reward -> once per batch: observations are numbers
"""

import math
from typing import Any, NoReturn

import numpy as np

from drivetrain.core.errors import RunError
from drivetrain.train.interface import Arrays, Interface, entries_of

REMEDY = "mend the environment, or wrap it"


def require_reward(env_id: str, step: int, reward: Any) -> float:
    """The reward of a step as a finite number.

    Raises:
        RunError: It is none.
    """
    try:
        value = float(reward)
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        refuse(env_id, step, f"expected a finite number as reward, got {reward!r}")
    return value


def unfit_observation(env_id: str, step: int, observation: Any, interface: Interface) -> NoReturn:
    """Say what is wrong with an observation that could not be stored.

    Raises:
        RunError: Always.
    """
    entries = entries_of(interface.observations)
    wanted = {name: f"{entry.stored[1]}{list(entry.stored[0])}" for name, entry in entries.items()}
    expected = wanted[""] if "" in wanted else ", ".join(f"{name}: {text}" for name, text in wanted.items())
    refuse(env_id, step, f"expected an observation {expected}, got {_kind_of(observation)}")


def require_finite(env_id: str, observations: Arrays, steps: list[int]) -> None:
    """See to it that there is no NaN and no infinity among observations.

    Args:
        env_id: The environment.
        observations: Of several environments; rows beyond len(steps) do not matter.
        steps: Of its episode in which each environment is; 0: at its start.

    Raises:
        RunError: There is one; names the step.
    """
    arrays = observations if isinstance(observations, dict) else {"": observations}
    for name, array in arrays.items():
        shown = array[: len(steps)]
        if array.dtype.kind != "f" or np.count_nonzero(np.isfinite(shown)) == shown.size:  # at once faster than all()
            continue
        is_bad = ~np.isfinite(shown).reshape(len(steps), -1).all(1)
        lane = int(np.flatnonzero(is_bad)[0])
        where = f" in {name!r}" if name else ""
        values = np.array2string(np.ravel(array[lane])[:8], separator=", ")
        refuse(env_id, steps[lane], f"expected finite numbers in an observation, got {values}{where}")


def refuse(env_id: str, step: int, sentence: str) -> NoReturn:
    """Raise the sentence about a step of an episode; 0 is its start."""
    where = f"step {step} of an episode" if step else "the start of an episode"
    raise RunError(f"environment {env_id!r}, {where}: {sentence}; {REMEDY}")


def _kind_of(observation: Any) -> str:
    """Shape and dtype of what came, as far as it has any."""
    if isinstance(observation, dict | tuple):
        return f"a {type(observation).__name__} of {len(observation)} entries"  # pyright: ignore[reportUnknownArgumentType]
    try:
        array = np.asarray(observation)
    except ValueError:  # nested lists of uneven lengths
        return f"a {type(observation).__name__}"
    return f"{array.dtype}{list(array.shape)}"
