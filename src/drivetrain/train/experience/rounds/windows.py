"""The last steps of every environment, from which the replay has not made rows yet.

A row of n steps is written when its last step is there; before, its steps stand in a writer, and are lost with it.
They are kept here, too, so that new writers can be given them again.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from drivetrain.replay.writer import Writer
from drivetrain.train.experience.rollout import Rollout

_PREFIX = "windows/"
Round = dict[str, Any]
"""Arguments of a writer's `add`, [num_envs, ...] each."""


class Windows:
    """The rounds that open windows may reach back to.

    Args:
        num_steps: Steps of a whole window, n.
    """

    def __init__(self, num_steps: int) -> None:
        self._rounds: deque[Round] = deque(maxlen=num_steps - 1)

    @property
    def rounds(self) -> tuple[Round, ...]:
        """What is kept, oldest first."""
        return tuple(self._rounds)

    def add(self, step: Round) -> None:
        """Keep a copy of a round."""
        self._rounds.append(_each(np.array, step))

    def give(self, writers: Sequence[Writer], lengths: Sequence[int]) -> None:
        """Give new writers, one for each environment, the steps of open windows: they write no row of them.

        Args:
            writers: One for each environment.
            lengths: Steps of each present episode so far.
        """
        for env, (writer, length) in enumerate(zip(writers, lengths, strict=True)):
            rounds = list(self._rounds)
            for step in rounds[len(rounds) - min(length, len(rounds)) :]:
                writer.add(**of_env(step, env))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What a checkpoint holds of them: [rounds, num_envs, ...] each."""
        rounds = [_flat(step) for step in self._rounds]
        return {_PREFIX + name: np.stack([step[name] for step in rounds]) for name in (rounds[0] if rounds else ())}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `arrays` gave."""
        found = {name.removeprefix(_PREFIX): array for name, array in arrays.items() if name.startswith(_PREFIX)}
        self._rounds.clear()
        for index in range(len(next(iter(found.values()), ()))):
            self._rounds.append(_nested({name: array[index] for name, array in found.items()}))


def changed_windows(
    arrays: Mapping[str, NDArray[Any]], num_steps: int, change: Callable[[Any], Any]
) -> dict[str, NDArray[Any]]:
    """A checkpoint's arrays with other observations in its windows, of `num_steps` steps: `change` of each round's."""
    windows, changed = Windows(num_steps), Windows(num_steps)
    windows.restore(arrays)
    for step in windows.rounds:
        changed.add({**step, "obs": change(step["obs"]), "next_obs": change(step["next_obs"])})
    others = {name: array for name, array in arrays.items() if not name.startswith(_PREFIX)}
    return {**others, **changed.arrays()}


def round_of(rollout: Rollout) -> Round:
    """The one step of all environments in a buffer of one row; views."""
    step = rollout._asdict()
    step["next_obs"] = step.pop("last_obs")
    return _each(itemgetter(0), step)


def of_env(step: Round, env: int) -> Round:
    """One environment's part of a round, [1, ...] each; views."""
    return _each(itemgetter(slice(env, env + 1)), step)


def _each(function: Any, step: Round) -> Round:
    return {name: _each(function, cast(Round, x)) if isinstance(x, dict) else function(x) for name, x in step.items()}


def _flat(step: Round) -> dict[str, NDArray[Any]]:
    """Entries of observations under "obs/NAME"."""
    flat: dict[str, NDArray[Any]] = {}
    for name, value in step.items():
        if isinstance(value, dict):
            flat |= {f"{name}/{entry}": array for entry, array in cast(Round, value).items()}
        else:
            flat[name] = value
    return flat


def _nested(flat: dict[str, NDArray[Any]]) -> Round:
    step: Round = {}
    for name, array in flat.items():
        field, slash, entry = name.partition("/")
        if slash:
            step.setdefault(field, {})[entry] = array
        else:
            step[field] = array
    return step
