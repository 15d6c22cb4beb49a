"""Asks for times of a run's parts, each in a process of its own that computes as an actor or the learner would.

Question -> python -m drivetrain.train.sizing.worker -> its answer, a JSON object on standard output

Nothing of it reaches the run: random streams, environments and frameworks end with the process. Compiled updates
stay in the compilation cache, where the run's learner finds them.
"""

import contextlib
import json
import os
import subprocess
import tempfile
import time
from dataclasses import dataclass, replace
from typing import IO, Any, Literal

from drivetrain.core.errors import RunError
from drivetrain.core.processes import begin, end, how_ended
from drivetrain.core.signals import Signals, raise_for
from drivetrain.train.config import TrainConfig
from drivetrain.train.environments.watching import WatchClock
from drivetrain.train.interface import Interface
from drivetrain.train.learner.devices import environment_of
from drivetrain.train.sizing.beats import Beats

_START_S = 60.0  # for an interpreter to load what it needs
_COMPILE_S = 600.0
_LOOK_S = 0.1
_REMEDY = 'give num_actors and num_learners as numbers to start without measuring, in place of "auto"'


@dataclass(frozen=True, kw_only=True)
class Question:
    """What a worker measures; travels pickled through its standard input."""

    what: Literal["acting", "updating"]
    """As an actor, or as the learner."""
    config: TrainConfig
    """Resolved."""
    interface: Interface
    """What the environments look like."""
    sizes: tuple[int, ...] = ()
    """Numbers of environments to act on."""
    asked_by: int
    """Process id, with which the worker dies."""
    turns_fd: int = -1
    """The file of its `Beats`, which who asks opens."""


def ask(question: Question) -> dict[str, Any]:
    """What a worker found out.

    Raises:
        RunError: The environment or the learner failed; says how.
        KeyboardInterrupt: Ctrl-C, after the worker was ended with all that it had started.
        SystemExit: SIGTERM or SIGHUP, likewise.
    """
    variables = environment_of(question.config, os.environ, learns=question.what == "updating")
    with (  # pipes would be held open
        tempfile.TemporaryFile() as said,
        tempfile.TemporaryFile() as errors,
        tempfile.TemporaryFile() as turns,
    ):
        turns.truncate(Beats.NBYTES)
        told = replace(question, turns_fd=turns.fileno())
        worker = "drivetrain.train.sizing.worker"
        with Signals(raise_for):  # SIGTERM by itself would leave what environments have started
            process = begin(worker, told, environment=variables, stdout=said, stderr=errors, pass_fds=(turns.fileno(),))
            try:
                code = _code_of(process, question, Beats(turns.fileno()))
            finally:
                end(process)
        answered, words = (_read(file) for file in (said, errors))
    if code != 0 or not answered:  # an environment may leave by `os._exit(0)`
        last = "".join(f": {line}" for line in words.strip().splitlines()[-1:])
        silent = ": it said nothing" if code >= 0 else ""
        raise RunError(
            f"{question.what} could not be measured: its process {how_ended(code)}{last or silent}; {_REMEDY}"
        )
    answer: dict[str, Any] = json.loads(answered)
    if "error" in answer:
        raise RunError(f"{question.what} could not be measured: {answer['error']}; {_REMEDY}")
    return answer


def _code_of(process: subprocess.Popen[bytes], question: Question, turns: Beats) -> int:
    """The exit code of a worker that comes to its end.

    Raises:
        RunError: It does not, or one of its environments does not come back.
    """
    step_timeout_s, clock = question.config.run.step_timeout_s, WatchClock()
    timeout_s = _START_S + (step_timeout_s if question.what == "acting" else _COMPILE_S)
    end_s = time.monotonic() + timeout_s
    while time.monotonic() < end_s:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(_LOOK_S)
        clock.look()
        if clock.watched_s(0, turns.working_s) > step_timeout_s:
            why = f"one of its environments has not come back for {step_timeout_s:g} s (step_timeout_s)"
            raise RunError(f"{question.what} could not be measured: {why}; {_REMEDY}")
    why = f"was to be measured for a moment, and has not come back for {timeout_s:g} s"
    raise RunError(f"{question.what} {why}; {_REMEDY}")


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")
