"""A producer's way into a replay: one step of its environments at a time.

add(**step) ──▶ native code ──▶ windows ──▶ rows
└─ does not fit ─▶ checks: made to fit, or an error ─▶ native code

extend(**steps) ──▶ checks ──▶ native code, step by step
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from drivetrain.core.errors import InvalidInput
from drivetrain.replay import _native, checks
from drivetrain.replay.schema import Field, Schema


class Writer:
    """One producer's way into a replay; one thread at a time.

    Owns the n-step windows of its environments: they end with the episode (terminated or truncated),
    and are lost with the writer, or by `drop_windows`. They lie in its process: of a fork's two sides only one
    may go on with a writer that has open windows, or their rows are added twice.
    """

    def __init__(self, schema: Schema, inputs: tuple[Field, ...], num_envs: int, native: _native.Writer) -> None:
        self._native, self._num_envs = native, num_envs
        self._add = functools.partial(_add, native.add, schema, inputs, num_envs, None)
        self._fitting = (schema, inputs, num_envs)
        if not schema.is_nested:  # the method below in native code, which spares a dict of the keywords
            self.add = native.keyword_add(self._add, inspect.cleandoc(Writer.add.__doc__ or ""))

    def add(self, /, **step: Any) -> None:
        """Add one step of every environment; every array has the leading axis `[num_envs]`.

        Takes exactly the fields of the spec, `reward`, `terminated`, `truncated`, and `next_obs` iff
        there is `obs`. `next_obs` is the true next observation, the final one where an episode ended,
        not the first of the next: see `add_some` for vector environments. Rows become visible when
        their window is full or the episode ends, with the replay's `initial_priority`. Where that is
        "given", there is one more array, `priority`: of the row that begins at this step, whenever its
        window ends; finite and >= 0. Of sequences only some steps begin a row, and the priorities of the
        others are not used.

        Args:
            step: Arrays of the declared dtypes; reward and priority may be any real dtype and are kept
                as float32. Rewards are finite.

        Raises:
            InvalidInput: A field is missing, too much, or of the wrong dtype or shape, or a reward is NaN
                or infinite; nothing was added.
            SegmentError: For ten seconds every slot was in the hands of processes that were stopped. Rows of this step
                may be missing, and the windows that were open are gone, as by `drop_windows`.
            Closed: The replay was closed.
        """
        self._add(**step)

    def add_some(self, where: npt.NDArray[np.bool_], /, **step: Any) -> None:
        """Add a step of the environments that `where` marks; the others are left as they are, windows and all.

        For environments that did not step: those of a vector environment that only began a new episode
        (Gymnasium's `AutoresetMode.NEXT_STEP`), or that are slower than others.

        Args:
            where: `[num_envs]` Booleans.
            step: As for `add`, with the leading axis `[num_envs]`; what is not marked has to fit and means nothing.

        Raises:
            InvalidInput: As `add`, and if `where` does not fit; nothing was added.
            Closed: The replay was closed.
        """
        marks = checks.fitting_marks(where, self._num_envs)
        _add(functools.partial(self._native.add_some, marks), *self._fitting, marks, **step)

    def extend(self, /, **steps: Any) -> None:
        """Add several steps of every environment, one after the other: as that many calls of `add`.

        For data that is there already: of a file, of a rollout.

        Args:
            steps: As for `add`, with the leading axes `[steps, num_envs]`.

        Raises:
            InvalidInput: As `add`; nothing was added.
            Closed: The replay was closed.
        """
        schema, inputs, num_envs = self._fitting
        arrays = checks.fitting_steps(inputs, schema.flatten(steps), num_envs)
        add_in_turn(self._native, arrays)

    def drop_windows(self, where: npt.NDArray[np.bool_] | None = None) -> None:
        """Forget the steps whose windows are open, because their episode is not gone on with.

        As where an environment is reset before its episode has ended: what comes next belongs to another one. The
        last n - 1 steps make no rows then. To keep them, say `truncated` with the last step instead.

        Args:
            where: `[num_envs]` Booleans; None: every environment.

        Raises:
            InvalidInput: `where` does not fit.
            Closed: The replay was closed.
        """
        self._native.drop_windows(checks.fitting_marks_or_all(where, self._num_envs))

    def __reduce__(self) -> NoReturn:
        raise InvalidInput(
            "a Writer cannot be pickled or copied; send replay.handle(), and make one of Replay.attach(handle) there"
        )


def add_in_turn(native: _native.Writer, steps: Mapping[str, npt.NDArray[Any]]) -> None:
    """Add steps that fit, `[steps, num_envs, ...]` each, by their flat names."""
    for step in zip(*steps.values(), strict=True):
        require_taken(native.add(dict(zip(steps, step, strict=True))))


def require_taken(taken: bool) -> None:
    """See to it that native code has taken what the checks let through."""
    if not taken:
        raise AssertionError("a step that fits was turned down; nothing was added")


def _add(
    add: Callable[[dict[str, Any]], bool],
    schema: Schema,
    inputs: tuple[Field, ...],
    num_envs: int,
    marks: npt.NDArray[np.bool_] | None,
    /,
    *unnamed: Any,
    **step: Any,
) -> None:
    """Add a step of any nesting, after making it fit if it does not; no method, to refer to no Writer."""
    if unnamed:
        raise TypeError("Writer.add takes the fields of a step by their names, as in add(**step)")
    if schema.is_nested:
        step = schema.flatten(step)
    if not add(step):
        fitting = checks.fitting_step(inputs, step, (num_envs,), marks)
        require_taken(add(fitting))
