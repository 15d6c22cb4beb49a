"""Asks for times of a run's parts, each in a process of its own that computes as an actor or the learner would.

Question -> python -m drivetrain.train.sizing.worker -> its answer, a JSON object on standard output

Nothing of it reaches the run: random streams, environments and frameworks end with the process. Compiled updates
stay in the compilation cache, where the run's learner finds them.
"""

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from typing import IO, Any, Literal

from drivetrain.core.errors import RunError
from drivetrain.core.processes import begin, end
from drivetrain.core.signals import Signals, raise_for
from drivetrain.core.threads import one_thread_environment
from drivetrain.train.config import TrainConfig
from drivetrain.train.interface import Interface
from drivetrain.train.learner.devices import device_environment

_START_S = 60.0  # for an interpreter to load what it needs
_COMPILE_S = 600.0
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


def ask(question: Question) -> dict[str, Any]:
    """What a worker found out.

    Raises:
        RunError: The environment or the learner failed; says how.
        KeyboardInterrupt: Ctrl-C, after the worker was ended with all that it had started.
        SystemExit: SIGTERM or SIGHUP, likewise.
    """
    config = question.config
    threads = one_thread_environment(os.environ)
    if question.what == "updating":
        threads = device_environment(config, os.environ)
    timeout_s = _START_S + (config.run.step_timeout_s if question.what == "acting" else _COMPILE_S)
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as errors:  # pipes would be held open
        worker = "drivetrain.train.sizing.worker"
        with Signals(raise_for):  # SIGTERM by itself would leave what environments have started
            process = begin(worker, question, environment=threads, stdout=said, stderr=errors)
            try:
                code = process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                why = f"was to be measured for a moment, and has not come back for {timeout_s:g} s"
                raise RunError(f"{question.what} {why}; {_REMEDY}") from None
            finally:
                end(process)
        answered, words = (_read(file) for file in (said, errors))
    if code != 0 or not answered:  # an environment may leave by `os._exit(0)`
        last = words.strip().splitlines()[-1] if words.strip() else "it said nothing"
        raise RunError(f"{question.what} could not be measured (exit code {code}): {last}; {_REMEDY}")
    answer: dict[str, Any] = json.loads(answered)
    if "error" in answer:
        raise RunError(f"{question.what} could not be measured: {answer['error']}; {_REMEDY}")
    return answer


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")
