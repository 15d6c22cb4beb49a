"""What environments may not return or raise, and the sentences that say so.

Every step: environment -> encode (shape, dtype) -> reward -> once per batch: observations are numbers
"""

import inspect
import math
import traceback
from collections.abc import Mapping
from typing import Any, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from drivetrain.core.errors import RunError
from drivetrain.train.interface import Arrays, Interface, entries_of

_LARGEST = float(np.finfo(np.float32).max)
_MOST_SHOWN = 80
_MOST_NUMBERS = 8
_MADE = "_was_made_for_drivetrain"  # noted on the environment itself, so that it is forgotten with it
_OF_ANOTHER_KIND = (ValueError, TypeError, KeyError, IndexError)
"""What is raised where something of another form is looked at; says no more than what came does."""
REMEDY = "mend the environment, or wrap it"


class EnvironmentFault(RunError):
    """An environment did what no environment may; its cause is what it raised, if it did."""


class NoSuchCategory(ValueError):
    """An observation has a value that its discrete space does not have.

    Args:
        name: Of the entry of a dict or tuple; "" where there are none.
        value: What came.
        start: The least value that there is.
        count: How many there are.
    """

    def __init__(self, name: str, value: int, start: int, count: int) -> None:
        where = f" of {name!r}" if name else ""
        super().__init__(f"expected an observation{where} in {start}..{start + count - 1}, got {value}")


def require_new(env: object) -> None:
    """Refuse an environment that was made before, as one that a function has captured: several would step it at once.

    Raises:
        TypeError: It was, in this process.
    """
    own: dict[str, Any] = getattr(env, "__dict__", {})
    if _MADE in own:
        raise TypeError(
            "expected another environment each time that its function is called, and it returned one that it had "
            "returned before; make it within the function"
        )
    own[_MADE] = True


def require_reward(env_id: str, step: int, reward: Any) -> float:
    """The reward of a step as a finite number, also in float32.

    Raises:
        EnvironmentFault: It is none.
    """
    value = number_of(reward)
    if not abs(value) <= _LARGEST:
        which = "within float32 " if math.isfinite(value) else ""
        refuse(env_id, step, f"expected a finite number {which}as reward, got {shown(reward)}")
    return value


def number_of(value: Any) -> float:
    """As a float; NaN where it is no number, as text that Python would read for one."""
    if type(value) is float:
        return value
    try:
        number = value.item() if getattr(value, "size", 0) == 1 else value
        return float(number) if hasattr(number, "__float__") or hasattr(number, "__index__") else math.nan
    except Exception:  # a stranger's number, or one beyond floats
        return math.nan


def unfit_answer(env_id: str, step: int, answer: Any, told: str = "") -> NoReturn:
    """Say what is wrong with what came of a step that is not of Gymnasium's form; of a reset where `step` is 0.

    Args:
        env_id: The environment.
        step: Of the episode.
        answer: What came.
        told: Where a wrapper did not let it through: what that said instead.

    Raises:
        EnvironmentFault: Always.
    """
    form = "(observation, reward, terminated, truncated, info) of step" if step else "(observation, info) of reset"
    got = f"and a wrapper says: {told}" if told else f"got {kind_of(answer)}"
    refuse(env_id, step, f"expected {form}, as of Gymnasium and no longer of Gym, {got}")


def require_frame(env_id: str, step: int, drawn: Any) -> NDArray[np.uint8]:
    """What an environment has drawn as a picture uint8[height, width, 3]; of several, as a list, the last.

    Raises:
        EnvironmentFault: It is none.
    """
    several: list[Any] = cast("list[Any]", drawn) if isinstance(drawn, list) else [drawn]
    last: Any = several[-1] if several else None
    frame = cast("NDArray[np.uint8]", last if isinstance(last, np.ndarray) else np.empty(0))
    if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3 or frame.size == 0:
        refuse(env_id, step, f"expected a picture uint8[height, width, 3] from render(), got {kind_of(last)}")
    return frame


def require_ends(env_id: str, step: int, terminated: Any, truncated: Any) -> tuple[bool, bool]:
    """Whether an episode has ended, and how: True and False, of whatever kind, and nothing that only counts as that.

    Raises:
        EnvironmentFault: One is neither.
    """
    ends: list[Any] = [terminated, truncated]
    if not all(map(_is_end, ends)):
        got = " and ".join(map(_end_of, ends))
        refuse(env_id, step, f"expected True or False as terminated and as truncated, got {got}")
    return bool(terminated), bool(truncated)


def _is_end(end: Any) -> bool:
    try:
        array = np.asarray(end)
    except Exception:  # a stranger's
        return False
    return array.size == 1 and array.dtype.kind in "biuf" and array.item() in (0, 1)


def _end_of(end: Any) -> str:
    return shown(end) if end is None or isinstance(end, str | bool | int | float) else kind_of(end)


def unfit_observation(
    env_id: str,
    step: int,
    observation: Any,
    interface: Interface,
    shapes: Mapping[str, tuple[int, ...]],
    error: Exception,
) -> NoReturn:
    """Say what is wrong with an observation that could not be stored.

    Args:
        env_id: The environment.
        step: Of the episode.
        observation: What came.
        interface: What the environment looks like.
        shapes: Of the entries of its observations, as it declares them.
        error: What was raised where it was to be stored.

    Raises:
        EnvironmentFault: Always.
    """
    entries = entries_of(interface.observations)
    wanted = {name: f"{entry.stored[1]}{list(shapes.get(name, ()))}" for name, entry in entries.items()}
    expected = wanted[""] if "" in wanted else ", ".join(f"{name}: {text}" for name, text in wanted.items())
    told = "" if isinstance(error, _OF_ANOTHER_KIND) else f" ({what(error)})"
    refuse(env_id, step, f"expected an observation {expected}, got {kind_of(observation)}{told}")


def require_finite(env_id: str, observations: Arrays, steps: list[int]) -> None:
    """See to it that there is no NaN and no infinity among observations.

    Args:
        env_id: The environment.
        observations: Of several environments; rows beyond len(steps) do not matter.
        steps: Of its episode in which each environment is; 0: at its start.

    Raises:
        EnvironmentFault: There is one; names the step.
    """
    found = not_finite(observations, len(steps))
    if found is not None:
        lane, sentence = found
        refuse(env_id, steps[lane], sentence)


def not_finite(observations: Arrays, count: int) -> tuple[int, str] | None:
    """Which of the first `count` rows has a NaN or an infinity, and a sentence about it; None: none of them."""
    arrays = observations if isinstance(observations, dict) else {"": observations}
    for name, array in arrays.items():
        shown = array[:count]
        # Counting takes half of what all() takes on the few numbers of a step.
        if array.dtype.kind != "f" or np.count_nonzero(np.isfinite(shown)) == shown.size:
            continue
        is_bad = ~np.isfinite(shown).reshape(count, -1).all(1)
        lane = int(np.flatnonzero(is_bad)[0])
        numbers, where = np.ravel(array[lane]), f" in {name!r}" if name else ""
        first = int(np.flatnonzero(~np.isfinite(numbers))[0])
        start = 0 if first < _MOST_NUMBERS else first  # so that what is wrong is seen
        values = np.array2string(numbers[start : start + _MOST_NUMBERS], separator=", ")
        where = f" from number {start} on{where}" if start else where
        beyond = ", which numbers beyond float32 become, too" if np.isinf(array[lane]).any() else ""
        return lane, f"expected finite numbers in an observation, got {values}{where}{beyond}"
    return None


def refuse(env_id: str, step: int | str, sentence: str, cause: BaseException | None = None) -> NoReturn:
    """Say what is wrong with a step of an episode, of which 0 is its start, or with a function of the environment's.

    Raises:
        EnvironmentFault: Always.
    """
    where = step if isinstance(step, str) else f"step {step} of an episode" if step else "the start of an episode"
    raise EnvironmentFault(f"environment {env_id!r}, {where}: {sentence}; {REMEDY}") from cause


def raised(env_id: str, step: int | str, error: BaseException, env: object) -> NoReturn:
    """Say what an environment has raised, and where in its own file: what that called may be somebody else's.

    Raises:
        EnvironmentFault: Always.
    """
    frames = traceback.extract_tb(error.__traceback__)
    try:
        own = [frame for frame in frames if frame.filename == inspect.getfile(type(env))]
    except (OSError, TypeError):  # a class of a notebook, or of C
        own = []
    place = (own or frames)[-1]
    refuse(env_id, step, f"{what(error)} ({place.filename}, line {place.lineno})", error)


def what(error: BaseException) -> str:
    """An exception's kind and its message's first line."""
    return ": ".join([type(error).__name__, *message_of(error).strip().splitlines()[:1]])


def message_of(error: BaseException) -> str:
    """What an exception says; strangers' may fail to."""
    try:
        return str(error)
    except Exception:
        return "its message cannot be read"


def kind_of(observation: Any) -> str:
    """Shape and dtype of what came, as far as it has any, in words."""
    if isinstance(observation, dict):
        named = ", ".join(f"{name}: {kind_of(entry)}" for name, entry in cast("dict[Any, Any]", observation).items())
        return f"a dict of {len(observation)} entries ({named})"  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(observation, tuple):
        return f"a tuple of {len(observation)} entries"  # pyright: ignore[reportUnknownArgumentType]
    try:
        array = np.asarray(observation)
    except Exception:  # nested lists of uneven lengths, or a stranger's array
        return f"a {type(observation).__name__}"
    return f"{array.dtype}{list(array.shape)}"


def shown(value: Any) -> str:
    """What Python writes for a value, as far as a line has room; strangers' may fail to say it."""
    try:
        text = " ".join(repr(value).split())
    except Exception:
        return f"a {type(value).__name__}"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
