"""When a checkpoint is written, by whom, and what it says of the run.

learner between two calls -> copy of its state -> Saver -> a thread of its own: checkpoint -> outcome

The state is copied before the thread starts; the replay is saved while actors insert and the learner
draws, so it may be some rows ahead of the counters, never behind.
"""

import re
import threading
import time
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

from drivetrain.core.aside import save_text
from drivetrain.core.errors import FileFormatError, InvalidInput
from drivetrain.replay import Replay
from drivetrain.train.config import TrainConfig
from drivetrain.train.experience.experience import Experience
from drivetrain.train.interface import Interface
from drivetrain.train.ledger.rules import Origin
from drivetrain.train.run_dir.archives import Arrays
from drivetrain.train.run_dir.checkpoint import has_checkpoint, save_checkpoint, saved_interface
from drivetrain.train.run_dir.spaces_in_words import difference


class Progress(NamedTuple):
    """Where a run is."""

    num_steps: int
    """Environment steps taken."""
    num_updates: int
    """Updates done."""
    elapsed_s: float
    """Seconds that the run has taken, over all its processes."""
    learning_s: float
    """Of these, from the first environment step on."""


class Saver:
    """Writes the checkpoints of a run.

    Args:
        run_dir: The run's folder.
        config: The run's.
        interface: What its environments look like.
        experience: What the run learns from; a rollout is not kept.
        origin: Where this part of the run began.
    """

    def __init__(
        self, run_dir: Path, config: TrainConfig, interface: Interface, experience: Experience, origin: Origin
    ) -> None:
        self._run_dir = run_dir
        self._config = config
        self._interval_s = config.run.checkpoint_interval_s
        self._warmup_steps = 0 if config.on_policy else config.updates.warmup_steps
        self._replay = experience if isinstance(experience, Replay) and config.replay.save_replay else None
        self._meta = {
            "num_resumes": origin.num_resumes,
            "encoder_frozen": origin.encoder_frozen,
            "config": config.to_dict(),
            "interface": describe_interface(interface),
        }
        self._saved_s: float | None = None
        self._thread: threading.Thread | None = None
        self._outcomes: list[dict[str, Any]] = []

    @property
    def is_due(self) -> bool:
        """Whether it is time for a checkpoint, and none is being written."""
        is_writing = self._thread is not None and self._thread.is_alive()
        return not is_writing and (self._saved_s is None or time.monotonic() - self._saved_s > self._interval_s)

    def is_due_at(self, num_steps: int) -> bool:
        """Whether one is due after so many steps, from the end of warm-up on, also where no update is."""
        return num_steps >= self._warmup_steps and self.is_due

    def begin(self, arrays: Arrays, progress: Progress) -> None:
        """Write a checkpoint in a thread; the arrays are its own from now on."""
        self.wait()
        self._thread = threading.Thread(target=self.save, args=(arrays, progress), name="checkpoint")
        self._thread.start()

    def save(self, arrays: Arrays, progress: Progress) -> None:
        """Write a checkpoint now, after the one being written; a failure is an outcome, no exception."""
        if threading.current_thread() is not self._thread:
            self.wait()
        start_s = time.monotonic()
        try:
            meta = {**self._meta, **progress._asdict()}
            nbytes, replay_nbytes = save_checkpoint(self._run_dir, arrays, meta, replay=self._replay)
            self._keep_config()
        except (OSError, MemoryError) as error:
            why = error.strerror if isinstance(error, OSError) else "not enough memory"
            folder = self._run_dir / "checkpoint"
            before = "the one before is whole" if has_checkpoint(self._run_dir) else "there is none before"
            sentence = f"{folder}: cannot be written: {why}; {before}, and the run goes on"
            self._outcomes.append({"note": sentence})
        except FileFormatError as error:  # of the one before, as where somebody has changed it
            self._outcomes.append({"note": f"{error}; none is written until that is mended, and the run goes on"})
        else:
            row = {
                "num_steps": progress.num_steps,
                "num_updates": progress.num_updates,
                "checkpoint_nbytes": nbytes,
                "checkpoint_replay_nbytes": replay_nbytes,
                "checkpoint_s": time.monotonic() - start_s,
            }
            self._outcomes.append(row)
        self._saved_s = time.monotonic()

    def _keep_config(self) -> None:
        """Write config.json again where it is gone: without it nobody takes the folder for a run's.

        Raises:
            OSError: It cannot be written.
        """
        path = self._run_dir / "config.json"
        if not path.exists():
            save_text(path, self._config.to_json())
            sentence = f"{path} was gone, as where the folder is moved away; the run goes on here, and wrote it again"
            self._outcomes.append({"note": sentence})

    def outcomes(self) -> list[dict[str, Any]]:
        """What came of the checkpoints since the last call: rows of metrics, or a {"note": sentence}."""
        found, self._outcomes = self._outcomes, []
        return found

    def wait(self) -> None:
        """Wait for the checkpoint that is being written."""
        if self._thread is not None:
            self._thread.join()


def latest_checkpoint(run_dir: Path) -> str:
    """Where a run that has ended early can go on from, in words."""
    path = run_dir / "checkpoint"
    return f"the latest checkpoint is {path}" if has_checkpoint(run_dir) else "there is no checkpoint yet"


def describe_interface(interface: Interface) -> dict[str, Any]:
    """What the environment looks like, in a form that can be compared after JSON."""
    return {entry.name: _plain(str(getattr(interface, entry.name))) for entry in fields(interface)}


def require_same(env: str, interface: Interface, saved: dict[str, str], *, remedy: str) -> None:
    """Refuse an environment that looks other than it did when a checkpoint was written.

    Args:
        env: Its name.
        interface: What it looks like now.
        saved: What the checkpoint says of it.
        remedy: What can be done.

    Raises:
        InvalidInput: Names what has changed.
    """
    if (changed := change(interface, saved)) is not None:
        raise InvalidInput(f"environment {env!r} has changed since the checkpoint: {changed}; {remedy}")


def change(interface: Interface, saved: dict[str, str]) -> str | None:
    """What an environment looks like that a checkpoint says otherwise, in words; None where there is nothing."""
    now = describe_interface(interface)
    for name in sorted({*now, *saved}):
        was = _plain(str(saved.get(name)))
        if now.get(name) != was:
            return difference(name, was, str(now.get(name)))
    return None


def require_as_learned(env: str, interface: Interface, run_dir: Path) -> None:
    """Refuse to act in an environment that looks other than that of the run; its policy would take it for the other.

    Raises:
        InvalidInput: Names what has changed.
    """
    saved = saved_interface(run_dir)
    if saved is not None:
        require_same(env, interface, saved, remedy="evaluate with the environment as it was")


def _plain(text: str) -> str:
    """Numbers of NumPy's as its version 1 shows them, without their type."""
    return re.sub(r"np\.\w+\(([^()]*)\)", r"\1", text)
