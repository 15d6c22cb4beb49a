"""Taking a run up again where its checkpoint says it was, after any kind of death.

RUN/checkpoint -> Origin, weights, replay -> the same processes as for a new run

A run that died before its first checkpoint begins anew in its folder, by its config.json.
"""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from drivetrain.core.aside import save_text
from drivetrain.core.errors import FileFormatError, InvalidInput
from drivetrain.core.paths import given_path
from drivetrain.train.callbacks import Callback, Callbacks, require_callbacks
from drivetrain.train.config import TrainConfig
from drivetrain.train.config.given import NotGivenAgain
from drivetrain.train.config.values import fitting
from drivetrain.train.evaluate import policy_of
from drivetrain.train.interface import Interface
from drivetrain.train.job import Job
from drivetrain.train.learner.devices import require_platforms, reserve_devices
from drivetrain.train.ledger.rules import Origin, Rules
from drivetrain.train.run_dir.archives import is_count
from drivetrain.train.run_dir.checkpoint import (
    has_best_policy,
    has_checkpoint,
    load_checkpoint,
    load_replay,
    load_saved_policy,
)
from drivetrain.train.run_dir.folder import RunLock, load_result, require_run_dir
from drivetrain.train.run_dir.results import Result
from drivetrain.train.run_dir.saving import require_same
from drivetrain.train.runs.edited import edited
from drivetrain.train.runs.requirements import describe, placed, require_learner
from drivetrain.train.runs.run import carry_out
from drivetrain.train.telemetry.metrics import read_rows
from drivetrain.train.telemetry.sinks.wandb import WITHOUT, require_wandb


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


_NEEDED: dict[str, Callable[[Any], bool]] = {
    "num_resumes": is_count,
    "elapsed_s": _is_time,
    "learning_s": _is_time,
    "interface": lambda value: isinstance(value, dict),
}
"""What a checkpoint says of the run, beside what it says of itself, and whether that can be."""


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What a run may go on with that is other than before; None: as before."""

    total_steps: int | None = None
    """Environment steps of the whole run."""
    num_actors: int | None = None
    """Actor processes; 0: sequential. Rollouts and deterministic runs keep their environments, shared evenly by the
    actors; else each actor has as many as before."""
    num_learners: int | None = None
    """Learners; of deterministic runs, whose bits depend on it, as many as before."""
    scratch_dir: str | None = None
    """Folder on whose disk the replay lies, of a run whose replay does."""
    wandb: str | None = None
    """Project of Weights & Biases that the rows go to from here on; "" for none."""

    def applied(self, config: TrainConfig) -> TrainConfig:
        """The configuration with these changes.

        Raises:
            InvalidInput: It cannot have them.
        """
        changed: dict[str, Any] = {} if self.total_steps is None else {"total_steps": self.total_steps}
        num_actors, num_learners = self._count("num_actors"), self._count("num_learners")
        if num_actors is not None and num_actors != config.num_actors:
            changed["num_actors"] = num_actors
            if config.on_policy or config.run.deterministic:
                changed["envs_per_actor"] = _shared_evenly(config.num_envs, num_actors)
        if num_learners is not None and num_learners != config.num_learners:
            if config.run.deterministic:
                raise InvalidInput(
                    f"num_learners: expected {config.num_learners}, as before, in a deterministic run, whose bits "
                    f"depend on it, got {num_learners}; leave it out"
                )
            changed["num_learners"] = num_learners
        if self.scratch_dir is not None:
            if config.on_policy:
                raise InvalidInput(
                    f"scratch_dir: expected none for a run of {config.algo}, which has no replay, got "
                    f"{self.scratch_dir!r}; leave it out"
                )
            changed["scratch_dir"] = self.scratch_dir
        if self.wandb is not None:
            changed["wandb"] = self.wandb or None
        return placed(config.override(**changed))

    def _count(self, name: str) -> int | None:
        """As a number: "auto" and the like are settled when a run begins, and mean nothing here."""
        try:
            return fitting(self, name, getattr(self, name))
        except InvalidInput as error:
            raise InvalidInput(f"{error}; nothing is measured for a run that goes on: give a number") from error


def _shared_evenly(num_envs: int, num_actors: int) -> int:
    """Environments of each actor."""
    if num_actors > 0 and num_envs % num_actors:
        raise InvalidInput(
            f"num_actors: expected a divisor of the run's {num_envs} environments, which stay, got {num_actors}"
        )
    return num_envs // max(1, num_actors)


def prepare(run_dir: Path, changes: Changes, again: Mapping[str, Any]) -> tuple[TrainConfig, dict[str, Any] | None]:
    """The configuration that a run goes on with, and the description of its checkpoint; None: it never had one.

    Args:
        run_dir: The run's folder.
        changes: What is to be other than before.
        again: Settings of the run that were Python objects, see `TrainConfig.from_dict`.

    Raises:
        InvalidInput: There is no run to be taken up there, or it is finished, or cannot be changed so.
        FileFormatError: Its checkpoint is damaged, foreign, of a newer version, or, of a finished run, absent; or its
            config.json is.
    """
    require_run_dir(run_dir)
    if not has_checkpoint(run_dir):
        if load_result(run_dir) is not None:
            why = "the run is finished, and has no checkpoint to go on from: none could be written, or it was removed"
            raise FileFormatError(f"{run_dir}: {why}; begin a new run")
        config = TrainConfig.load(run_dir / "config.json", **again).override(run_dir=str(run_dir.resolve()))
        return changes.applied(config).resolved(), None
    arrays, meta = load_checkpoint(run_dir)
    try:
        config = TrainConfig.from_dict(meta.get("config"), **again).override(run_dir=str(run_dir.resolve()))
    except NotGivenAgain:
        raise
    except InvalidInput as error:
        raise FileFormatError(f"{run_dir / 'checkpoint'}: its configuration makes no sense: {error}") from error
    _require_whole(run_dir / "checkpoint", arrays, meta)
    _require_of_config(run_dir / "checkpoint", config, meta)
    config = changes.applied(_as_last_asked(config, run_dir, again))
    done, wanted = meta["num_steps"], config.run.total_steps
    if wanted < done:
        raise InvalidInput(f"total_steps: expected at least the {done:,} steps already taken, got {wanted:,}")
    # An environment that fails may leave updates that the step after it calls for.
    if not config.on_policy and (due := Rules.of(config).due(wanted)) < meta["num_updates"]:
        raise InvalidInput(
            f"total_steps: expected steps that call for the {meta['num_updates']:,} updates done, got {wanted:,}, "
            f"which call for {due:,}; give more"
        )
    if load_result(run_dir) is not None and wanted <= done:
        raise InvalidInput(f"{run_dir} is finished ({done:,} steps); give more total_steps to go on with it")
    return config.resolved(), meta


def _require_whole(folder: Path, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> None:
    """Refuse a manifest that lacks something, or has what cannot be, before a run trusts it.

    Raises:
        FileFormatError: It is such a one.
    """
    if absent := [name for name in _NEEDED if name not in meta]:
        raise FileFormatError(f"{folder}: its manifest lacks {', '.join(absent)}; use an older copy")
    if wrong := [f"{meta[name]!r} as {name}" for name, can_be in _NEEDED.items() if not can_be(meta[name])]:
        raise FileFormatError(f"{folder}: its manifest has {', '.join(wrong)}; use an older copy")
    learned = arrays.get("state/num_updates")
    if learned is not None and learned.tolist() != meta["num_updates"]:
        raise FileFormatError(
            f"{folder}: its manifest counts {meta['num_updates']:,} updates, and its state {learned.tolist()}; use an "
            "older copy"
        )


def _require_of_config(folder: Path, config: TrainConfig, meta: Mapping[str, Any]) -> None:
    """Refuse a manifest whose counts a run of its configuration cannot have come to: one of both was changed by hand.

    Raises:
        FileFormatError: It is such a one.
    """
    steps, updates = meta["num_steps"], meta["num_updates"]
    if config.on_policy and updates % config.updates_per_rollout:
        raise FileFormatError(
            f"{folder}: its manifest counts {updates:,} updates, and has settings with {config.updates_per_rollout:,} "
            "after each rollout; use an older copy"
        )
    after = None if config.on_policy else config.updates.freeze_encoder_after
    if meta.get("encoder_frozen") and (after is None or steps < after):
        told = "none" if after is None else f"{after:,}"
        raise FileFormatError(
            f"{folder}: its manifest says after {steps:,} steps that the encoder is frozen, and has settings with "
            f"{told} as freeze_encoder_after; use an older copy"
        )


def _as_last_asked(config: TrainConfig, run_dir: Path, again: Mapping[str, Any]) -> TrainConfig:
    """A checkpoint's configuration with what was asked for when it was taken up since, without writing one."""
    try:
        written = TrainConfig.load(run_dir / "config.json", **again)
        asked = Changes(
            total_steps=written.run.total_steps,
            num_actors=written.num_actors,
            num_learners=written.num_learners,
            scratch_dir=None if written.on_policy else written.replay.scratch_dir,
            wandb=written.run.wandb or "",
        )
        return asked.applied(config)
    except (FileFormatError, InvalidInput):  # damaged, or of something else
        return config


def origin_of(run_dir: Path, config: TrainConfig, meta: dict[str, Any] | None) -> Origin:
    """Where the run goes on: at its begin where there is no checkpoint.

    Raises:
        InvalidInput: The replay lacks rows, or was not kept, and too few steps are left to fill it.
        FileFormatError: The replay is absent or damaged.
        SegmentError: There is not enough memory for it.
    """
    if meta is None:
        return Origin()
    origin = Origin(
        num_steps=meta["num_steps"],
        num_updates=meta["num_updates"],
        num_resumes=meta["num_resumes"] + 1,
        elapsed_s=meta["elapsed_s"],
        learning_s=meta["learning_s"],
        encoder_frozen=meta.get("encoder_frozen", False),  # not in checkpoints from before there was freezing
    )
    if config.on_policy:  # earlier versions counted steps of a rollout that nothing was learned from
        return replace(origin, num_steps=Rules.of(config).calling_for(origin.num_updates))
    if "replay" not in meta["files"]:
        filled = _filled(config, origin, origin.num_steps, "has no replay")
        learns_at = max(origin.num_steps + config.updates.warmup_steps, filled)
        return replace(origin, num_lost=origin.num_steps, refill_until=min(learns_at, config.run.total_steps))
    if config.run.deterministic or origin.num_updates > 0:  # its windows are kept; it had a batch
        return origin
    replay = load_replay(run_dir, shared=False, scratch_dir=config.replay.scratch_dir)
    assert replay is not None
    with replay:
        num_rows = len(replay)
    if num_rows >= config.batch_size:
        return origin
    num_lost = origin.num_steps - num_rows  # windows that were open: of whoever had them, each time
    filled = _filled(config, origin, num_lost, f"has only {num_rows:,} rows in its replay")
    return replace(origin, num_lost=num_lost, refill_until=filled if filled > config.updates.warmup_steps else 0)


def _filled(config: TrainConfig, origin: Origin, num_lost: int, why: str) -> int:
    """The step after which a batch can be drawn, where so many rows are lost; at most the last, where none is due.

    Raises:
        InvalidInput: It is beyond the last, and updates are due.
    """
    total_steps, filled = config.run.total_steps, config.num_rows_before_learning + num_lost
    due = config.updates.update_ratio * max(0, total_steps - config.updates.warmup_steps)
    if filled > total_steps and int(due) > origin.num_updates:
        raise InvalidInput(
            f"the checkpoint {why}, and its {total_steps - origin.num_steps:,} steps left are fewer than the "
            f"{filled - origin.num_steps:,} after which a batch can be drawn again; raise total_steps"
        )
    return min(filled, total_steps)


def take_up(
    run_dir: Path,
    changes: Changes,
    again: Mapping[str, Any],
    *,
    ready: Callable[[Job], None] = lambda job: None,
    callbacks: Sequence[Callback] = (),
) -> Result:
    """Take a run up again; `ready` is called with the Job once nothing stands in its way.

    `again`: settings of the run that were Python objects, see `TrainConfig.from_dict`.

    Raises:
        MissingExtra: The run asks for what is not installed.
        InvalidInput: There is nothing to take up, somebody is at it, or the environment has changed.
        FileFormatError: The checkpoint cannot be read.
        RunError: The run had to end early.
        KeyboardInterrupt: Ctrl-C, after everything was saved and ended.
        BaseException: What a callback has raised, likewise.
    """
    require_callbacks(callbacks)
    require_run_dir(run_dir)
    run_dir = run_dir.resolve()  # before an environment is made, which may go elsewhere
    with RunLock(run_dir) as lock:
        config, meta = prepare(run_dir, changes, again)
        require_wandb(config, otherwise=WITHOUT)
        require_platforms(config)
        reserve_devices(config)
        interface = describe(config)
        require_learner(config, interface)
        if meta is not None:
            remedy = "resume with the environment as it was, or start a new run"
            require_same(config.env, interface, meta["interface"], remedy=remedy)
            policy_of(config, interface, load_saved_policy(run_dir, "last"))  # refuses one of another network
        require_best(config, interface, run_dir)
        _require_files(run_dir, config)
        origin = origin_of(run_dir, config, meta)
        _make_folders(run_dir)

        def begin() -> None:
            save_text(run_dir / "config.json", config.to_json())
            (run_dir / "result.json").unlink(missing_ok=True)

        job = Job(
            config=config,
            interface=interface,
            run_dir=run_dir,
            origin=origin,
            lock_fd=lock.fd,
            callbacks=Callbacks(callbacks, config, run_dir),
            begins_anew=meta is None,
            begin=begin,
        )
        ready(job)
        taken = {field.name for field in fields(Changes)}
        if meta is not None and (told := edited(run_dir, config, again, taken=taken)) is not None:
            sys.stderr.write(f"{told}\n")
        return carry_out(job)


def _make_folders(run_dir: Path) -> None:
    """Those that the run's processes write into: a copy may be without them.

    Raises:
        InvalidInput: One is a file, or cannot be made.
    """
    for name in ("best", "checkpoint", "logs", "tensorboard"):
        folder = run_dir / name
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise InvalidInput(f"{folder}: expected a folder: {error.strerror}; remove what is there") from error


def _require_files(run_dir: Path, config: TrainConfig) -> None:
    """Refuse what the run would stumble over after it has begun.

    Raises:
        InvalidInput: The folder for the replay is not there, or one stands where the table of metrics is to be.
        FileFormatError: The rows of before cannot be read; says what to do.
    """
    scratch_dir = None if config.on_policy else config.replay.scratch_dir
    if scratch_dir is not None and not given_path("scratch_dir", scratch_dir).is_dir():
        raise InvalidInput(
            f"scratch_dir: expected a folder, got {scratch_dir!r}; make it first, or give another (--scratch-dir)"
        )
    if config.run.csv and (table := run_dir / "metrics.csv").is_dir():
        raise InvalidInput(f"{table}: expected a file, got a folder; remove it")
    if (rows := run_dir / "metrics.jsonl").exists():
        try:
            read_rows(rows)
        except FileFormatError as error:
            raise FileFormatError(
                f"{error}; mend the line, or remove the file: the run goes on without the rows of before"
            ) from error


def require_best(config: TrainConfig, interface: Interface, run_dir: Path) -> None:
    """Refuse a best policy that cannot be read, or not by this network, before an evaluator finds that it cannot.

    Raises:
        FileFormatError: Says what to do.
    """
    if not has_best_policy(run_dir):
        return
    try:
        policy_of(config, interface, load_saved_policy(run_dir, "best"))
    except FileFormatError as error:
        raise FileFormatError(
            f"{error}; put an older copy there, or remove it to keep the best from here on"
        ) from error
