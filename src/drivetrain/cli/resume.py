"""`drivetrain resume RUN`: go on with a run from its checkpoint."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from drivetrain.cli.flags import read_flags
from drivetrain.cli.train import describe, prepare_this_process, show

if TYPE_CHECKING:
    from drivetrain.train.job import Job


@dataclass(frozen=True, kw_only=True)
class _Flags:
    """Go on with a run from its checkpoint, whatever has ended it."""

    run_dir: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The run's folder."""
    total_steps: int | None = None
    """Environment steps of the whole run, if they are to be others than at first."""
    num_actors: int | None = None
    """Actor processes (0: sequential), if they are to be others than before, as on another machine."""
    num_learners: int | None = None
    """Learners, likewise."""
    scratch_dir: str | None = None
    """Folder on whose disk the replay lies, if it is to be another than before."""
    wandb: str | None = None
    """Project of Weights & Biases that the rows go to from here on, if it is to be another; "" for none."""
    env: str | None = None
    """The environment again, as module:name, where it was a Python object."""
    torso: str | None = None
    """The torso again, likewise."""
    optimizer: str | None = None
    """The optimizer again, likewise."""


_STAYS = (
    "a run goes on with its own settings, and takes no others than --total-steps, --num-actors, --num-learners, "
    "--scratch-dir and --wandb"
)


def run(argv: list[str]) -> int:
    """Take the run up, and print what came of it."""
    flags = read_flags(_Flags, argv, prog="drivetrain resume", otherwise=_STAYS)
    from drivetrain.train.runs.resuming import Changes, prepare, take_up

    again: dict[str, Any] = {"env": flags.env, "torso": flags.torso, "optimizer": flags.optimizer}
    changes = Changes(
        total_steps=flags.total_steps,
        num_actors=flags.num_actors,
        num_learners=flags.num_learners,
        scratch_dir=flags.scratch_dir,
        wandb=flags.wandb,
    )
    config, _ = prepare(flags.run_dir, changes, again)
    prepare_this_process(config)
    show(take_up(flags.run_dir, changes, again, ready=announce), on_policy=config.on_policy)
    return 0


def announce(job: "Job") -> None:
    """Say where the run goes on, and what is missing."""
    config, origin = job.config, job.origin
    if job.begins_anew:
        where = f"begun anew, since it ended before its first checkpoint; {config.run.total_steps:,} steps"
    else:
        where = f"resumed at step {origin.num_steps:,} of {config.run.total_steps:,}"
        where += f", after {origin.num_updates:,} updates"
    print(f"{config.algo} on {config.env}: {describe(config)}; {where}", flush=True)
    if origin.refill_until:
        kept = config.replay.save_replay
        why = "n-step windows that were open are lost" if kept else "the checkpoint has no replay"
        print(
            f"{why}: nothing is learned before step {origin.refill_until:,}, while it fills{'' if kept else ' again'}; "
            "the updates due are done then",
            flush=True,
        )
