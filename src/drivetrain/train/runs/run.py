"""A run from the outside: its folder, its result, and who carries it out.

train(...) -> resolve the configuration -> supervisor (processes) | loop (sequential) -> Result
"""

import contextlib
import sys
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any

from drivetrain.core.aside import save_text
from drivetrain.core.errors import InvalidInput, RunError
from drivetrain.core.garbage import uncollected
from drivetrain.core.paths import back_here, folder_here
from drivetrain.core.signals import Interruption, Signals
from drivetrain.train.callbacks import Callback, Callbacks, require_callbacks
from drivetrain.train.config import TrainConfig
from drivetrain.train.config.given import named
from drivetrain.train.config.presets import preset
from drivetrain.train.experience.experience import require_experience
from drivetrain.train.interface import Interface
from drivetrain.train.job import Job
from drivetrain.train.learner.devices import require_platforms, reserve_devices
from drivetrain.train.ledger.rules import Rules
from drivetrain.train.run_dir.folder import RunLock, make_run_dir, save_result
from drivetrain.train.run_dir.initial import save_initial
from drivetrain.train.run_dir.results import Result
from drivetrain.train.runs.beginning import beginning
from drivetrain.train.runs.freezing import freeze_encoders
from drivetrain.train.runs.remarks import remark
from drivetrain.train.runs.requirements import describe, placed, require_learner
from drivetrain.train.sizing.choose import settle
from drivetrain.train.telemetry.recording import CHECKPOINT, STARTING, never_failing, recorded
from drivetrain.train.telemetry.sinks.wandb import require_wandb


def resolve(
    algo: str, env: str | Callable[[], Any], config: TrainConfig | None, overrides: dict[str, Any]
) -> TrainConfig:
    """The configuration of a run: the given one, or the environment's preset, with overrides.

    Raises:
        InvalidInput: A field is unknown or out of range, or `config` is of another run.
    """
    fields = dict(overrides)
    name = fields.pop("preset", None)
    if config is None:
        config = preset(algo, env, name)
    elif not isinstance(config, TrainConfig):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(
            f"config: expected a TrainConfig, got {type(config).__name__}; settings are arguments by name, as "
            "total_steps=50_000"
        )
    elif (config.algo, config.env) != (algo, named("env", env)):
        raise InvalidInput(
            f"config: expected one for {algo} on {env}, got one for {config.algo} on {config.env}; give config.algo "
            "and config.env again"
        )
    elif name is not None:
        raise InvalidInput(f"preset: expected none beside a config, got {name!r}")
    else:
        config = config.override(**config.settings)  # its parts take what a setting takes, as 0.25 for Fraction(1, 4)
    return config.override(**fields)


def start(
    config: TrainConfig,
    *,
    ready: Callable[[TrainConfig, Interface], None] = remark,
    callbacks: Sequence[Callback] = (),
) -> Result:
    """Carry out a new run; `ready` is told its configuration and interface once nothing stands in its way.

    Without one, what will come to nothing is said on standard error.

    Raises:
        MissingExtra: The run asks for what is not installed; nothing was started.
        InvalidInput: The environment, what learns, the callbacks or the run folder are unfit; nothing was started.
        SegmentError: There is not enough memory for the replay, the rollout or the batches; nothing was started.
        RunError: The run had to end early.
        KeyboardInterrupt: Ctrl-C, after everything was saved and ended.
        BaseException: What a callback has raised, likewise.
    """
    require_callbacks(callbacks)
    require_wandb(config)
    require_platforms(config)
    reserve_devices(config)
    here = folder_here()  # or says that it was removed
    config = placed(config)
    interface = describe(config)
    begins_with = beginning(config, interface)
    require_experience(config, interface)
    config = settled(config, interface)
    require_learner(config, interface)
    run_dir = make_run_dir(config, here)
    with RunLock(run_dir) as lock:
        asked, config = config, config.resolved().override(run_dir=str(run_dir))
        if begins_with is not None:
            save_initial(run_dir, begins_with.arrays, begins_with.meta)
            sys.stderr.write(f"{begins_with}\n")
        save_text(run_dir / "config.json", config.to_json())
        told = Callbacks(callbacks, config, run_dir)
        ready(asked, interface)
        return carry_out(Job(config=config, interface=interface, run_dir=run_dir, lock_fd=lock.fd, callbacks=told))


def settled(config: TrainConfig, interface: Interface) -> TrainConfig:
    """Numbers in place of "auto", and as many learners as are worthwhile; says why on standard error if it measures.

    Raises:
        InvalidInput: No setting is allowed.
        RunError: The environment or the learner failed while it was measured.
    """
    config, reason = settle(config, interface)
    if reason is not None:
        sys.stderr.write(f"sized: {reason}\n")
    return config


def carry_out(job: Job) -> Result:
    """Do the work, with processes or without, note that it is done, and tell the callbacks."""
    try:
        with _timed(job) as timed:
            done = _work(timed)
        _keep(done, job)
    except BaseException as error:
        try:
            job.callbacks.end(None)
        except BaseException as another:
            error.add_note(f"a callback raised when it was told of this: {another!r}")
        raise
    job.callbacks.end(done)
    return done


@contextlib.contextmanager
def _timed(job: Job) -> Generator[Job]:
    """The run with its time recorded, and the report of it when it is over, however that comes about."""
    folder = None
    try:
        with recorded(job.config, job.run_dir) as folder:
            yield replace(job, recording=folder)
    finally:
        if folder is not None:
            with never_failing():
                _write_report(job)


def _write_report(job: Job) -> None:
    """Write the page; where there is no room for it, say how it can be had, as what it is made from is there."""
    from drivetrain.train.telemetry.time_report import REPORT, write  # the report's parts, which nothing else needs

    page = job.run_dir / REPORT
    try:
        write(job.run_dir)
    except OSError as error:
        if error.filename != str(page):
            raise
        remedy = "`drivetrain report RUN --html FILE` writes it, when there is room or elsewhere"
        sys.stderr.write(f"{page}: cannot be written: {error.strerror}; {remedy}\n")


def _keep(done: Result, job: Job) -> None:
    """Note that the run is done; where there is no room for that, it is done all the same."""
    try:
        save_result(job.run_dir, done.to_dict())
    except OSError as error:
        sys.stderr.write(f"{job.run_dir / 'result.json'}: cannot be written: {error.strerror}\n")


def _work(job: Job) -> Result:
    """All of it; in two parts where encoders are frozen on the way."""
    rules = Rules.of(job.config, job.origin)
    if rules.switch_at is None:
        return _part(job)
    # Whoever was killed at the switch finds everything before it done.
    counts = rules.switch_at, rules.due(rules.switch_at)
    if (job.origin.num_steps, job.origin.num_updates) != counts:
        done = _part(job)
        if done.num_steps != rules.switch_at:  # a callback has ended it
            return done
    return _part(_with_embeddings(job, counts))


def _part(job: Job) -> Result:
    """A run, or its part up to the switch or from there on, with processes or without."""
    if job.config.num_actors == 0:
        interruption = Interruption()
        with STARTING, uncollected(), Signals(interruption.note), interruption.held():
            from drivetrain.train.loop import run_sequentially  # imports jax: only where it is needed

        with back_here():  # its environments, which are in this process, may go elsewhere
            return run_sequentially(job, interruption)
    from drivetrain.train.processes.supervisor import supervise

    return supervise(job)


@CHECKPOINT
def _with_embeddings(job: Job, counts: tuple[int, int]) -> Job:
    """The rest of a run, whose encoders are frozen from here on, after so many steps and updates.

    Raises:
        RunError: The checkpoint could not be written, or not be replaced.
    """
    try:
        origin, sentence = freeze_encoders(job.config, job.interface, job.run_dir, counts)
    except OSError as error:
        why = f"{job.run_dir / 'checkpoint'}: the embeddings cannot be written: {error.strerror}"
        raise RunError(f"{why}; the checkpoint with images is whole, and `drivetrain resume` tries again") from error
    sys.stderr.write(f"{sentence}\n")
    return replace(job, origin=origin)
