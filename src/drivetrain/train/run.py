"""A run from the outside: its folder, its result, and who carries it out.

train(...) -> resolve the configuration -> supervisor (processes) | loop (sequential) -> Result
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from drivetrain.core.errors import InvalidInput, RunError
from drivetrain.core.garbage import uncollected
from drivetrain.core.machine import available_memory, num_cores
from drivetrain.train.archives import save_text
from drivetrain.train.callbacks import Callback, Callbacks, require_callbacks
from drivetrain.train.checkpoint import checkpoint_nbytes
from drivetrain.train.config import TrainConfig
from drivetrain.train.config.given import named
from drivetrain.train.devices import require_devices
from drivetrain.train.environments import describe, require_known_everywhere
from drivetrain.train.freezing import freeze_encoders
from drivetrain.train.interface import Interface
from drivetrain.train.policies import policy_network
from drivetrain.train.presets import preset
from drivetrain.train.recording import CHECKPOINT, STARTING, recorded
from drivetrain.train.results import Result
from drivetrain.train.rules import Origin, Rules
from drivetrain.train.run_dir import RunLock, make_run_dir, save_result
from drivetrain.train.sinks.wandb import require_wandb
from drivetrain.train.sizing.choose import settle
from drivetrain.train.topology import require_experience

_NBYTES_PER_PARAMETER = 4 * 5  # float32: itself, its gradient, two moments of Adam, the target network's


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
        raise InvalidInput(f"config: expected one for {algo} on {env}, got one for {config.algo} on {config.env}")
    elif name is not None:
        raise InvalidInput(f"preset: expected none beside a config, got {name!r}")
    return config.override(**fields)


@dataclass(frozen=True, kw_only=True)
class Job:
    """A run that is to be carried out, new or taken up again."""

    config: TrainConfig
    """Resolved."""
    interface: Interface
    """What its environments look like."""
    run_dir: Path
    """Its folder, absolute."""
    origin: Origin = field(default_factory=Origin)
    """Where it begins."""
    lock_fd: int
    """The lock on its folder."""
    callbacks: Callbacks
    """Whom to tell what happens."""
    quiet: bool
    """Whether to show nothing."""
    begins_anew: bool = False
    """It was begun before, and ended before its first checkpoint."""
    recording: Path | None = None
    """Where its processes note what they spend their time on."""

    @property
    def is_resumed(self) -> bool:
        """Whether it goes on from its checkpoint."""
        return self.origin.num_resumes > 0

    @property
    def checkpoint(self) -> Path | None:
        """The folder whose checkpoint it goes on from."""
        return self.run_dir if self.is_resumed else None

    @property
    def resume_at(self) -> int | None:
        """The step from which on its metrics are written anew."""
        return self.origin.num_steps if self.is_resumed or self.begins_anew else None


def start(
    config: TrainConfig,
    *,
    quiet: bool,
    ready: Callable[[TrainConfig], None] = lambda config: None,
    callbacks: Sequence[Callback] = (),
) -> Result:
    """Carry out a new run; `ready` is told its configuration once nothing stands in its way.

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
    here = Path.cwd()  # an environment may go elsewhere when it is made
    interface = describe(config)
    require_experience(config, interface)
    config = settled(config, interface, quiet=quiet)
    require_learner(config, interface)
    run_dir = make_run_dir(config, here)
    with RunLock(run_dir) as lock:
        asked, config = config, config.resolved().override(run_dir=str(run_dir))
        save_text(run_dir / "config.json", config.to_json())
        told = Callbacks(callbacks, config, run_dir)
        ready(asked)
        return carry_out(
            Job(config=config, interface=interface, run_dir=run_dir, lock_fd=lock.fd, callbacks=told, quiet=quiet)
        )


def require_learner(config: TrainConfig, interface: Interface) -> None:
    """Refuse an environment that the processes cannot make, and a torso, an optimizer or learners that cannot work.

    Raises:
        InvalidInput: There is one; nothing was started.
    """
    if config.num_actors > 0:
        require_known_everywhere(config.env)
    network = policy_network(config, interface)
    _require_room(network.num_parameters)
    require_devices(config, network.num_parameters, num_cores())
    if config.agent.optimizer != "adam" or config.agent.torso != "auto":
        from drivetrain.train.tried import require_updates  # imports jax: only where it is needed

        require_updates(config, interface)


def _require_room(num_parameters: int) -> None:
    """Refuse a network that does not fit before anybody draws its weights."""
    needed, available = num_parameters * _NBYTES_PER_PARAMETER, available_memory()
    if needed > available:
        raise InvalidInput(
            f"the network would have {num_parameters:,} parameters, which take {needed / 2**30:,.1f} GiB to learn, and "
            f"{available / 2**30:,.1f} GiB of memory are available; use narrower layers or smaller observations"
        )


def settled(config: TrainConfig, interface: Interface, *, quiet: bool) -> TrainConfig:
    """Numbers in place of "auto", and as many learners as are worthwhile; says why on standard error if it measures.

    Raises:
        InvalidInput: No setting is allowed.
        RunError: The environment or the learner failed while it was measured.
    """
    config, reason = settle(config, interface)
    if reason is not None and not quiet:
        sys.stderr.write(f"sized: {reason}\n")
    return config


def carry_out(job: Job) -> Result:
    """Do the work, with processes or without, note that it is done, and tell the callbacks."""
    try:
        with recorded(job.config, job.run_dir) as folder:
            done = _work(replace(job, recording=folder))
        _keep(done, job)
    except BaseException as error:
        try:
            job.callbacks.end(None)
        except BaseException as another:
            error.add_note(f"a callback raised when it was told of this: {another!r}")
        raise
    job.callbacks.end(done)
    return done


def _keep(done: Result, job: Job) -> None:
    """Note that the run is done; where there is no room for that, it is done all the same."""
    try:
        save_result(job.run_dir, done.to_dict())
    except OSError as error:
        if not job.quiet:
            sys.stderr.write(f"{job.run_dir / 'result.json'}: cannot be written: {error.strerror}\n")


def _work(job: Job) -> Result:
    """All of it; in two parts where encoders are frozen on the way."""
    rules = Rules.of(job.config, job.origin)
    if rules.switch_at is None:
        return _part(job)
    # Whoever was killed at the switch finds everything before it done.
    if (job.origin.num_steps, job.origin.num_updates) != (rules.switch_at, rules.due(rules.switch_at)):
        done = _part(job)
        if done.num_steps != rules.switch_at:  # a callback has ended it
            return done
    return _part(_with_embeddings(job))


def _part(job: Job) -> Result:
    """A run, or its part up to the switch or from there on, with processes or without."""
    if job.config.num_actors == 0:
        with STARTING, uncollected():
            from drivetrain.train.loop import run_sequentially  # imports jax: only where it is needed

        return run_sequentially(job)
    from drivetrain.train.supervisor import supervise

    return supervise(job)


@CHECKPOINT
def _with_embeddings(job: Job) -> Job:
    """The rest of a run, whose encoders are frozen from here on.

    Raises:
        RunError: The checkpoint could not be replaced.
    """
    try:
        origin, sentence = freeze_encoders(job.config, job.interface, job.run_dir)
    except OSError as error:
        why = f"{job.run_dir / 'checkpoint'}: the embeddings cannot be written: {error.strerror}"
        raise RunError(f"{why}; the checkpoint with images is whole, and `drivetrain resume` tries again") from error
    if not job.quiet:
        sys.stderr.write(f"{sentence}\n")
    return replace(job, origin=origin)


def result(job: Job, rules: Rules, returns: Sequence[float], counts: tuple[int, int], learning_s: float) -> Result:
    """Make the result, and check that the run kept its promise.

    Args:
        job: The run.
        rules: By which it has ended.
        returns: Of the final evaluation.
        counts: Environment steps and updates done.
        learning_s: Seconds from the first step to the last update.
    """
    num_steps, num_updates = counts
    assert num_steps == rules.total_steps, (num_steps, rules)
    assert num_updates == rules.due(num_steps), (num_updates, rules)
    after = num_steps - rules.warmup_steps
    nbytes, replay_nbytes = checkpoint_nbytes(job.run_dir)
    return Result(
        run_dir=job.run_dir,
        returns=tuple(returns),
        num_steps=num_steps,
        num_updates=num_updates,
        update_ratio=num_updates / after if after > 0 else 0.0,
        learning_s=learning_s,
        checkpoint_nbytes=nbytes,
        replay_nbytes=replay_nbytes,
    )
