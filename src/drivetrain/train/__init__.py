"""Training: parallel actors and a learner around one shared replay.

    actor processes -> replay -> learner process -> weights -> actor processes

`train` carries out a run, `train_seeds` one from each of several seeds, `resume` goes on with one, and `load_policy`
gives what one has learned.
Importing this package is cheap: frameworks load when a run starts.
"""

import os
from typing import TYPE_CHECKING, Any

from drivetrain.core.extras import naming_extra as _naming_extra
from drivetrain.core.importing import require_not_importing as _require_not_importing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from drivetrain.train.callbacks import Callback
    from drivetrain.train.config import TrainConfig
    from drivetrain.train.interface import Interface
    from drivetrain.train.run_dir.checkpoint import Which
    from drivetrain.train.run_dir.results import Result
    from drivetrain.train.runs.seeds import SeedsResult
    from drivetrain.train.runs.trained import TrainedPolicy

__all__ = ["load_policy", "resume", "train", "train_seeds"]


def train(
    algo: str,
    env: "str | Callable[[], Any]",
    *,
    config: "TrainConfig | None" = None,
    callbacks: "Sequence[Callback]" = (),
    **overrides: Any,
) -> "Result":
    """Train a policy, and evaluate the best one found.

    Starts actor, learner and evaluator processes (`num_actors=0`: none, everything here and
    reproducible), waits for them, and leaves none behind.

    Args:
        algo: "dqn", "ddpg", "td3", "sac" or "ppo".
        env: Gymnasium id; "module:Id" imports the module first, in every process; "module:function", or a function,
            makes an environment, in every process; "drivetrain/NAME", "drivetrain/module:Name" or "gymnax/NAME": a
            compiled simulator.
        config: All settings. None: the preset of the environment, or the defaults.
        callbacks: Functions of an Event, told of each record, evaluation and checkpoint, and of the end, here in the
            caller's process and thread. One that returns "stop" ends the run early.
        overrides: Fields of the configuration by name, as total_steps=50_000, seed=1; num_actors="auto" and
            num_learners="auto" measure first; preset="rainbow" starts from that variant of the algorithm.

    Returns:
        The run's folder, the returns of its final evaluation, and its counts.

    Raises:
        MissingExtra: The extra "train" is not installed.
        InvalidInput: A setting, the environment or the folder is unfit; nothing was started.
        RunError: The run had to end early; says what happened and where the checkpoint is.
        KeyboardInterrupt: Ctrl-C, after the actors stopped and the checkpoint was saved.
        BaseException: What a callback has raised, likewise.
    """
    _require_not_importing("train")
    with _naming_extra():
        from drivetrain.train.runs.run import resolve, start

    return start(resolve(algo, env, config, overrides), callbacks=callbacks)


def train_seeds(
    algo: str,
    env: "str | Callable[[], Any]",
    *,
    seeds: "str | Iterable[int]",
    config: "TrainConfig | None" = None,
    callbacks: "Sequence[Callback]" = (),
    **overrides: Any,
) -> "SeedsResult":
    """Train from several seeds, one run after the other, since each takes the machine's cores.

    A run that fails does not end the others; Ctrl-C ends all. The runs' folders are `run_dir`/seed-S.

    Args:
        algo: As for `train`.
        env: As for `train`.
        seeds: "1..5", "1,2,5", or whole numbers.
        config: As for `train`; its seed gives way.
        callbacks: As for `train`, in every run; what one raises ends that run alone, and is its failure.
        overrides: As for `train`, but `seed`.

    Returns:
        The result, or the error, of each seed, and what those that finished reach together.

    Raises:
        MissingExtra: The extra "train" is not installed.
        InvalidInput: A setting, a seed, the environment or a folder is unfit; nothing was started.
        RunError: No seed finished.
        KeyboardInterrupt: Ctrl-C; the run that was going on can be resumed.
    """
    from pathlib import Path

    from drivetrain.core.errors import InvalidInput

    _require_not_importing("train_seeds")
    with _naming_extra():
        from drivetrain.train.learner.devices import reserve_devices
        from drivetrain.train.runs.remarks import remark
        from drivetrain.train.runs.requirements import describe
        from drivetrain.train.runs.run import resolve, settled
        from drivetrain.train.runs.seed_lists import checked_seeds, parse_seeds
        from drivetrain.train.runs.seeds import SeedsResult, run_seeds, seed_configs

    if "seed" in overrides:
        raise InvalidInput(f"seed: expected none beside seeds, got {overrides['seed']!r}")
    found = parse_seeds(seeds) if isinstance(seeds, str) else checked_seeds(seeds)
    config = resolve(algo, env, config, overrides)
    if config.is_open or config.weighs_learners:  # once for all of them: seeds of one setting are compared
        reserve_devices(config)
        config = settled(config, describe(config))
    configs = seed_configs(config, found)

    def began(config: "TrainConfig", interface: "Interface") -> None:
        if config.run.seed == found[0]:
            remark(config, interface)

    outcomes = tuple(run_seeds(configs, began=began, callbacks=callbacks))
    return SeedsResult(run_dir=Path(outcomes[0].run_dir).parent, outcomes=outcomes).require_one()


def resume(
    run_dir: str | os.PathLike[str],
    *,
    total_steps: int | None = None,
    num_actors: int | None = None,
    num_learners: int | None = None,
    scratch_dir: str | None = None,
    wandb: str | None = None,
    callbacks: "Sequence[Callback]" = (),
    **again: Any,
) -> "Result":
    """Take a run up again from its checkpoint, after Ctrl-C, a failure, or a kill of everything.

    Weights, optimiser, targets, random streams, counts, replay and metrics go on from there; what was
    done after the checkpoint is done again. Steps and updates come out as if nothing had happened. A run that
    ended before its first checkpoint begins anew.

    Args:
        run_dir: The run's folder.
        total_steps: Environment steps of the whole run, if they are to be others than at first.
        num_actors: Actor processes (0: sequential), if they are to be others than before, as on another machine.
            Rollouts and deterministic runs keep their environments, shared evenly by the actors; else each actor has
            as many as before.
        num_learners: Learners, likewise; of deterministic runs they stay.
        scratch_dir: Folder on whose disk the replay lies, if it is to be another than before.
        wandb: Project of Weights & Biases that the rows go to from here on, if it is to be another; "" for none.
        callbacks: As for `train`; those of before were not kept.
        again: `env`, `torso` and `optimizer`, where they were Python objects: a file only mentions those.

    Returns:
        As `train`.

    Raises:
        MissingExtra: The extra "train" is not installed, or "wandb", if the run sends rows there.
        InvalidInput: There is no run, it is finished or being worked on, its environment has changed, or it cannot
            have these processes.
        FileFormatError: The checkpoint, or config.json, is damaged, foreign or of a newer version.
        RunError: The run had to end early, again.
        KeyboardInterrupt: Ctrl-C, after the actors stopped and the checkpoint was saved.
        BaseException: What a callback has raised, likewise.
    """
    _require_not_importing("resume")
    with _naming_extra():
        from drivetrain.train.run_dir.folder import given_run_dir
        from drivetrain.train.runs.resuming import Changes, take_up

    changes = Changes(
        total_steps=total_steps, num_actors=num_actors, num_learners=num_learners, scratch_dir=scratch_dir, wandb=wandb
    )
    return take_up(given_run_dir(run_dir), changes, again, callbacks=callbacks)


def load_policy(run_dir: str | os.PathLike[str], which: "Which" = "best", **again: Any) -> "TrainedPolicy":
    """The policy of a run, to act with: `action = policy(observation)`.

    Makes one environment, to see its spaces. Nothing computes but NumPy, where the network is not one's own.

    Args:
        run_dir: The run's folder, or a copy of it.
        which: "best", by periodic evaluation, or "last", of the checkpoint.
        again: `env` and `torso`, where they were Python objects: a file only mentions those. An `optimizer` is not
            needed.

    Raises:
        MissingExtra: The extra "train" is not installed.
        InvalidInput: There is no run, or its environment cannot be made, or looks other than it did; or `which` or
            `again` are none of these.
        FileFormatError: Its files are absent or damaged, or the environment has changed.
    """
    with _naming_extra():
        from drivetrain.train.run_dir.folder import given_run_dir
        from drivetrain.train.runs.trained import TrainedPolicy

    return TrainedPolicy(given_run_dir(run_dir), which, again)
