"""The caller's own functions, told what happens in a run as it goes.

    rows of metrics, the end -> Event -> each callback, in the process and thread that called `train`

Never in an actor, the learner or the evaluator: those are other processes, which know nothing of it.
Between two looks at these processes, callbacks hold up reports, and nothing else as long as they are short.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from drivetrain.core.docstrings import with_fields
from drivetrain.core.errors import InvalidInput
from drivetrain.train.config import TrainConfig
from drivetrain.train.run_dir.results import Result

Kind = Literal["record", "evaluation", "checkpoint", "end"]


@with_fields
@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened in a run."""

    kind: Kind
    """"record": the log interval has passed; "evaluation": the policy was evaluated; "checkpoint": one was
    written; "end": the run is over, whichever way."""
    run_dir: Path
    """The run's folder."""
    config: TrainConfig
    """All of its settings, resolved; `config.run.seed` tells the runs of several seeds apart."""
    row: Mapping[str, float]
    """The row of metrics.jsonl, as {"num_steps": ..., "eval_return": ...}; at the end, the last one. A copy for
    each callback."""
    result: Result | None = None
    """At the end of a run that finished, or that a callback stopped; None if it failed or was interrupted."""

    @property
    def num_steps(self) -> int:
        """Environment steps taken; 0 where there was no row."""
        return int(self.row.get("num_steps", 0))


class Callback(Protocol):
    """Any function of an Event."""

    def __call__(self, event: Event, /) -> Literal["stop"] | None:
        """Do what is to be done about an event, and return soon.

        Returns:
            "stop" to end the run early: steps under way are taken, the updates due are done, the checkpoint
            is saved and the best policy evaluated, as at any end. None to go on.

        Raises:
            BaseException: Anything: the run ends as after Ctrl-C, with a checkpoint, and the caller gets it.
        """
        ...


class Callbacks:
    """The callbacks of one run, and what they have asked for.

    Args:
        callbacks: Called in this order.
        config: The run's.
        run_dir: Its folder.

    Raises:
        InvalidInput: One is no function.
    """

    def __init__(self, callbacks: Sequence[Callback], config: TrainConfig, run_dir: Path) -> None:
        self._waiting = list(require_callbacks(callbacks))
        self._config = config
        self._run_dir = run_dir
        self._row: dict[str, float] = {}
        self.wants_stop = False
        self.error: BaseException | None = None

    def tell(self, row: Mapping[str, float]) -> None:
        """Call them with a row of metrics; nobody is called any more once one has raised."""
        self._row = {name: value for name, value in row.items() if math.isfinite(value)}
        if self.error is None:
            self._call(_kind_of(row), None)

    def end(self, result: Result | None) -> None:
        """Tell all but one that has raised that the run is over.

        Raises:
            BaseException: What the first of them that raises then does; of others it has notes.
        """
        known, self.error = self.error, None
        self._call("end", result)
        self.require_none_raised()
        self.error = known

    def require_none_raised(self) -> None:
        """Raise what one of them has raised, and let go of it: its traceback holds the run, with all of its memory."""
        error, self.error = self.error, None
        try:
            if error is not None:
                raise error
        finally:
            del error

    def _call(self, kind: Kind, result: Result | None) -> None:
        for callback in tuple(self._waiting):
            row = dict(self._row)  # its own, which it may change
            event = Event(kind=kind, run_dir=self._run_dir, config=self._config, row=row, result=result)
            try:
                self.wants_stop |= _is_stop(callback(event))
            except BaseException as error:  # kept until the run has ended in good order
                self._waiting = [other for other in self._waiting if other is not callback]
                if self.error is None:
                    self.error = error
                else:
                    self.error.add_note(f"another callback raised, too: {error!r}")
                if kind != "end":
                    return


def require_callbacks(callbacks: Sequence[Callback]) -> Sequence[Callback]:
    """Callbacks, if all of them can be called.

    Raises:
        InvalidInput: One cannot, or this is no sequence.
    """
    given: Any = callbacks
    if not isinstance(given, list | tuple) or not all(callable(callback) for callback in callbacks):
        raise InvalidInput(f"callbacks: expected a list of functions of an Event, got {given!r}")
    return callbacks


def _kind_of(row: Mapping[str, float]) -> Kind:
    if "eval_return" in row:
        return "evaluation"
    return "checkpoint" if "checkpoint_s" in row else "record"


def _is_stop(answer: Any) -> bool:
    """What a callback has answered; others than ours mean other things by True and False."""
    if answer is not None and not (isinstance(answer, str) and answer == "stop"):
        raise InvalidInput(f'callback: expected "stop" to end the run, or None to go on, got {answer!r}')
    return answer is not None
