"""The switch to stored embeddings: from a checkpoint with images to one with what frozen encoders make of them.

RUN/checkpoint: networks, images --encoders--> RUN/checkpoint: layers above, frozen encoders, embeddings

Between two parts of a run, when no process works on it. The checkpoint is replaced in one step: whoever is killed
meanwhile finds the one with images, and makes the switch again.
"""

import time
from pathlib import Path

from drivetrain.core.errors import RunError
from drivetrain.core.words import size
from drivetrain.train.config import TrainConfig
from drivetrain.train.experience.experience import make_replay
from drivetrain.train.experience.rounds.windows import changed_windows
from drivetrain.train.interface import Interface
from drivetrain.train.learner.devices import leaving_gpus
from drivetrain.train.ledger.rules import Origin
from drivetrain.train.policies.embeddings import Encoders, embedded, without_encoders
from drivetrain.train.run_dir.checkpoint import has_checkpoint, load_checkpoint, load_replay, save_checkpoint
from drivetrain.train.run_dir.saving import latest_checkpoint


def freeze_encoders(
    config: TrainConfig, interface: Interface, run_dir: Path, counts: tuple[int, int]
) -> tuple[Origin, str]:
    """Replace the checkpoint of a run by one whose replay holds embeddings.

    Needs memory for both replays at once.

    Args:
        config: The run's.
        interface: What its environments look like.
        run_dir: Its folder.
        counts: Environment steps and updates at the switch, which the checkpoint is to be of.

    Returns:
        Where the run goes on, and a sentence that says what this took and saves.

    Raises:
        RunError: The checkpoint is of before, or there is none, as where the disk was full.
        FileFormatError: The checkpoint cannot be read.
        SegmentError: There is not enough memory.
        OSError: The checkpoint cannot be written; it is as it was.
    """
    start_s = time.monotonic()
    arrays, meta = load_checkpoint(run_dir) if has_checkpoint(run_dir) else ({}, {})
    if (meta.get("num_steps"), meta.get("num_updates")) != counts:
        raise RunError(
            f"{run_dir / 'checkpoint'}: expected one of step {counts[0]:,}, after which the encoder is frozen, and it "
            f"could not be written; free some room, and `drivetrain resume` goes on; {latest_checkpoint(run_dir)}"
        )
    encoders = Encoders.learned(config, interface, arrays)
    images = load_replay(run_dir, shared=False, scratch_dir=config.replay.scratch_dir)
    assert images is not None, "a run that stores embeddings saves its replay"
    with leaving_gpus(config), images, make_replay(config, embedded(config, interface), shared=False) as embeddings:
        embeddings.take_over(images, encoders.embed)
        origin = Origin(
            num_steps=meta["num_steps"],
            num_updates=meta["num_updates"],
            num_resumes=meta["num_resumes"] + 1,
            elapsed_s=meta["elapsed_s"] + time.monotonic() - start_s,
            learning_s=meta["learning_s"],
            encoder_frozen=True,
        )
        now = {name: getattr(origin, name) for name in ("num_resumes", "elapsed_s", "encoder_frozen")}
        above = changed_windows(without_encoders(arrays), config.replay.num_step, encoders.embed)
        save_checkpoint(run_dir, {**above, **encoders.arrays()}, {**meta, **now}, replay=embeddings)
        sizes = f"{size(images.nbytes)} of replay become {size(embeddings.nbytes)}"
        told = f"{len(embeddings):,} rows in {time.monotonic() - start_s:.1f} s; {sizes}"
    return origin, f"the encoder is frozen after step {meta['num_steps']:,}: {told}"
