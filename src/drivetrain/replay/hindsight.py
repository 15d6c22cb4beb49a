"""Hindsight: what an episode has reached becomes what it wanted (Andrychowicz et al. 2017, arXiv 1707.01495).

add(**step) ──▶ a writer of the steps as they are ──▶ rows
     └─ held until the episode ends ─▶ goals, rewards ─▶ a writer of the same steps with other goals ──▶ rows

Goals are chosen when an episode is over, so that rows are ordinary ones: prioritized, shared, saved.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, cast, get_args

import numpy as np
import numpy.typing as npt

from drivetrain.core.errors import InvalidInput
from drivetrain.replay import _native, arguments, checks
from drivetrain.replay.schema import Field, Schema
from drivetrain.replay.writer import add_in_turn, require_taken

_WANTED, _REACHED = "desired_goal", "achieved_goal"
_OTHER = (f"obs/{_WANTED}", f"next_obs/{_WANTED}")

Strategy = Literal["future", "episode", "final"]
"""Which of an episode's goals a step is given, see `Replay.hindsight_writer`."""

Judge = Callable[..., npt.ArrayLike]
"""From goals that were reached and goals that were wanted, `[N, ...]` each, to `[N]` numbers; with a parameter `steps`
also from the fields of these N steps, nested as they are declared. All are read-only."""


Arrays = dict[str, npt.NDArray[Any]]
"""By the names of fields."""


@dataclass(frozen=True, kw_only=True)
class Relabelling:
    """How steps get other goals; see `Replay.hindsight_writer`."""

    reward: Judge
    """This and the next take `steps`, by name."""
    terminated: Judge | None
    num_goals: int
    strategy: Strategy
    seed: int

    @classmethod
    def checked(cls, *, window: int, **values: Any) -> "Relabelling":
        """From a caller's arguments, for rows of so many steps.

        Raises:
            InvalidInput: A value does not fit.
        """
        for name in ("reward", "terminated"):
            if not callable(values[name]) and not (name == "terminated" and values[name] is None):
                raise InvalidInput(
                    f"{name}: expected a function of (achieved, desired), or of these and steps, got {values[name]!r}"
                )
        strategy = arguments.require_one_of("strategy", values["strategy"], get_args(Strategy))
        if window > 1 and strategy != "final":
            raise InvalidInput(
                f'strategy: expected "final", as rows of this replay are of up to {window} steps, which have one goal, '
                f"got {strategy!r}; or make it with num_step=1"
            )
        num_goals = arguments.require_int("num_goals", values["num_goals"], least=1, most=2**16)
        return cls(
            reward=_taking_steps("reward", values["reward"]),
            terminated=None if values["terminated"] is None else _taking_steps("terminated", values["terminated"]),
            num_goals=1 if strategy == "final" else num_goals,
            strategy=cast(Strategy, strategy),
            seed=arguments.require_int("seed", values["seed"], least=0),
        )


class HindsightWriter:
    """Adds the steps of environments with goals, and once an episode has ended, each of them again with goals that
    the episode has reached; see `Replay.hindsight_writer`. One thread at a time.
    """

    def __init__(
        self,
        schema: Schema,
        inputs: tuple[Field, ...],
        num_envs: int,
        as_they_are: _native.Writer,
        relabelled: _native.Writer,
        relabelling: Relabelling,
    ) -> None:
        self._schema, self._inputs, self._num_envs = schema, inputs, num_envs
        self._as_they_are, self._relabelled, self._relabelling = as_they_are, relabelled, relabelling
        self._rng = np.random.default_rng(relabelling.seed)
        held = [(field.name, field.dtype, field.shape) for field in inputs if field.name not in _OTHER]
        self._step = np.zeros(num_envs, held)  # the one that is added
        self._open: list[list[bytes]] = [[] for _ in range(num_envs)]  # of each environment, the steps of its episode

    def add(self, /, **step: Any) -> None:
        """Add one step of every environment, as `Writer.add`.

        Raises:
            InvalidInput: As there, and nothing was added; or `reward` or `terminated` has given what does not fit: then
                the step is added, and the episodes that have ended with it are without their other goals.
            SegmentError: As there; the steps of these episodes so far are without their other goals.
            Closed: The replay was closed.
        """
        self.add_some(np.ones(self._num_envs, np.bool_), **step)

    def add_some(self, where: npt.NDArray[np.bool_], /, **step: Any) -> None:
        """Add a step of the environments that `where` marks, as `Writer.add_some`.

        Raises:
            InvalidInput: As `add`.
            Closed: The replay was closed.
        """
        marks = checks.fitting_marks(where, self._num_envs)
        self._add(marks, checks.fitting_step(self._inputs, self._schema.flatten(step), (self._num_envs,), marks))

    def extend(self, /, **steps: Any) -> None:
        """Add several steps of every environment, one after the other, as `Writer.extend`.

        Raises:
            InvalidInput: As `add`: where `reward` or `terminated` has given what does not fit, the steps up to there
                are added.
            Closed: The replay was closed.
        """
        arrays = checks.fitting_steps(self._inputs, self._schema.flatten(steps), self._num_envs)
        for step in zip(*arrays.values(), strict=True):
            self._add(np.ones(self._num_envs, np.bool_), dict(zip(arrays, step, strict=True)))

    def _add(self, marks: npt.NDArray[np.bool_], arrays: Arrays) -> None:
        try:
            require_taken(self._as_they_are.add_some(marks, arrays))
            self._hold(marks, arrays)
        except BaseException:  # its windows are gone, as this step is (SegmentError); or Ctrl-C came
            self._forget(marks)
            raise
        ended = marks & (arrays["terminated"] | arrays["truncated"])
        try:
            for env in np.flatnonzero(ended).tolist():
                episode = np.frombuffer(b"".join(self._open[env]), self._step.dtype)
                add_in_turn(self._relabelled, self._with_other_goals(episode))
        except BaseException:  # with open windows, which are of that episode
            self._relabelled.drop_windows(np.ones(self._relabelling.num_goals, np.bool_))
            raise
        finally:
            self._forget(ended)

    def _hold(self, marks: npt.NDArray[np.bool_], arrays: Arrays) -> None:
        step, nbytes = self._step, self._step.itemsize
        for name in step.dtype.names or ():
            step[name] = checks.as_float32(arrays[name]) if name == "reward" else arrays[name]
        packed = step.view(np.uint8).data
        for env in np.flatnonzero(marks).tolist():
            self._open[env].append(bytes(packed[env * nbytes : (env + 1) * nbytes]))

    def drop_windows(self, where: npt.NDArray[np.bool_] | None = None) -> None:
        """Forget episodes that are not gone on with, as `Writer.drop_windows`: they get no other goals.

        Raises:
            InvalidInput: `where` does not fit.
            Closed: The replay was closed.
        """
        marks = checks.fitting_marks_or_all(where, self._num_envs)
        self._as_they_are.drop_windows(marks)
        self._forget(marks)

    def _forget(self, marks: npt.NDArray[np.bool_]) -> None:
        for env in np.flatnonzero(marks).tolist():
            self._open[env] = []

    def __reduce__(self) -> NoReturn:
        raise InvalidInput(
            "a HindsightWriter cannot be pickled or copied; send replay.handle(), and make one of "
            "Replay.attach(handle) there"
        )

    def _with_other_goals(self, episode: npt.NDArray[Any]) -> Arrays:
        """The steps of an episode with each of their other goals, [steps, goals, ...]."""
        how = self._relabelling
        reached, num_steps, num_goals = episode[f"next_obs/{_REACHED}"], len(episode), how.num_goals
        goals = reached[self._goals_of(num_steps)]

        def repeated(field: Field) -> npt.NDArray[Any]:
            shape = (num_steps, num_goals, *field.shape)
            return np.array(np.broadcast_to(episode[field.name][:, None], shape), order="C")

        steps = {field.name: goals if field.name in _OTHER else repeated(field) for field in self._inputs}
        num, item = num_steps * num_goals, goals.shape[2:]
        pairs = _kept(np.repeat(reached, num_goals, axis=0)), _kept(goals.reshape(num, *item))
        flat = {name: _kept(array.reshape(num, *array.shape[2:])) for name, array in steps.items()}
        judged = self._schema.as_declared(self._schema.nested(flat))
        reward = _judged("reward", how.reward, pairs, judged).reshape(-1, num_goals)
        if how.terminated is not None:
            ends = _judged("terminated", how.terminated, pairs, judged) != 0
            steps["terminated"] = ends.reshape(-1, num_goals)
        steps["reward"] = reward
        steps["truncated"][-1] |= ~steps["terminated"][-1]  # an episode of its own
        return steps

    def _goals_of(self, num_steps: int) -> npt.NDArray[np.int64]:
        """The step whose goal each step gets, [steps, goals]."""
        strategy = self._relabelling.strategy
        if strategy == "final":
            return np.full((num_steps, 1), num_steps - 1)
        first = np.arange(num_steps)[:, None] if strategy == "future" else 0
        return self._rng.integers(first, num_steps, (num_steps, self._relabelling.num_goals))


def _taking_steps(name: str, judge: Judge) -> Judge:
    """The function, or around one that has no parameter `steps` one that has.

    Raises:
        InvalidInput: It takes other arguments; said now rather than when an episode has ended.
    """
    try:
        signature = inspect.signature(judge)
    except ValueError:  # of what is written in C
        signature = None
    if signature is not None:
        takes_steps = "steps" in signature.parameters
        try:
            signature.bind(None, None, **({"steps": None} if takes_steps else {}))
        except TypeError as error:
            raise InvalidInput(
                f"{name}: expected a function of (achieved, desired), or of these and steps, got one of {signature} "
                f"({error}); put one around it, as lambda achieved, desired: compute_reward(achieved, desired, {{}})"
            ) from None
        if takes_steps:
            return judge

    def of_goals(achieved: npt.NDArray[Any], desired: npt.NDArray[Any], steps: dict[str, Any]) -> npt.ArrayLike:
        del steps
        return judge(achieved, desired)

    return of_goals


def require_goals(inputs: tuple[Field, ...]) -> None:
    """Refuse observations without goals.

    Raises:
        InvalidInput: Says which fields there are.
    """
    fields = {field.name: field for field in inputs}
    goals = [fields.get(f"obs/{name}") for name in (_WANTED, _REACHED)]
    if None in goals:
        raise InvalidInput(
            f"hindsight_writer: expected observations with {_REACHED} and {_WANTED}, as of a goal environment, got the "
            f"fields {', '.join(fields)}"
        )
    wanted, reached = (f"{field.dtype}{list(field.shape)}" for field in goals if field is not None)
    if wanted != reached:
        raise InvalidInput(f"hindsight_writer: expected {_WANTED} to be as {_REACHED}, {reached}, got {wanted}")


def _judged(name: str, judge: Judge, pairs: tuple[Any, Any], steps: dict[str, Any]) -> npt.NDArray[np.float32]:
    """What a function of the caller's says of some steps."""
    num = len(pairs[0])
    array = np.asarray(judge(*pairs, steps=steps))
    if array.shape != (num,) or array.dtype.kind not in "fiub":
        raise InvalidInput(
            f"{name}: expected {num} numbers of (achieved, desired), one for each of their rows, got "
            f"{array.dtype}{list(array.shape)}; "
            f"{checks.no_last_axis(array.shape, (num,)) or 'have it work along the last axis'}"
        )
    checks.require_finite(name, array)
    return checks.as_float32(array)


def _kept(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A view that nobody writes through: what a caller's function is shown is stored afterwards."""
    view = np.ascontiguousarray(array)[...]
    view.flags.writeable = False
    return view
