"""The checkpoint of a run, in generations, and the policies that are read from a run's folder.

    RUN/checkpoint/manifest.json    which files make up the checkpoint, and the counters
    RUN/checkpoint/state-8.npz      all that learning changes
    RUN/checkpoint/replay-8         what is remembered, if that is kept
    RUN/best/policy.npz             the parameters of the best policy by periodic evaluation

A generation's files are written under new names, then the manifest that names them is replaced in one
step, then those of the generation before are removed: whatever is killed, the old checkpoint or the new
one is there completely. The replay's file goes on from generation to generation under a second name for
the same file, to which a save adds what has changed; the manifest says which save of it counts. One that
somebody else has a name for, as in a copy of hard links, stays theirs as it is.
"""

import contextlib
import json
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from drivetrain.core.aside import save_text
from drivetrain.core.errors import FileFormatError
from drivetrain.replay import Replay
from drivetrain.train.run_dir.archives import Arrays, checked, is_count, load_archive, save_archive

Which = Literal["best", "last"]
_FORMAT = 2
_KIND = "checkpoint"
_MANIFEST = "manifest.json"
_OLDER = "state.npz"  # where a checkpoint of before there were manifests was
_BEST = Path("best") / "policy.npz"
_OURS = re.compile(r"\.?(state-\d+\.npz|state\.npz|replay-\d+|manifest\.json)(\..+\.tmp)?")
"""Files of a checkpoint, and those that are written aside; what else somebody keeps beside them stays."""


@dataclass(frozen=True, kw_only=True)
class SavedPolicy:
    """A saved policy."""

    vector: NDArray[np.float32]
    """The network's parameters."""
    num_steps: int
    """Environment steps of the run when it was saved."""
    num_updates: int
    """Updates behind it."""
    mean_return: float
    """On the selection seeds; NaN where it was not evaluated."""


def save_checkpoint(
    run_dir: Path,
    arrays: Mapping[str, NDArray[Any]],
    meta: Mapping[str, Any],
    *,
    replay: Replay | None = None,
) -> tuple[int, int]:
    """Replace the run's checkpoint.

    Args:
        run_dir: The run's folder.
        arrays: All that learning changes; "params" is the acting network's vector.
        meta: JSON-able counters and settings; num_steps and num_updates at least. What a manifest says of its own
            files is replaced in it: that of another checkpoint may be given.
        replay: Saved too; others may go on inserting meanwhile. Only what has changed is written if this
            object was saved to the present checkpoint.

    Returns:
        Bytes of the checkpoint, and how many of them the replay takes.

    Raises:
        OSError: It cannot be written; the old one is as it was.
    """
    folder = run_dir / "checkpoint"
    folder.mkdir(parents=True, exist_ok=True)
    before = _in_force(folder)
    generation = before["generation"] + 1
    _remove_all_but(folder, before["files"].values())  # what somebody who was killed left
    files = {"state": f"state-{generation}.npz"}
    try:
        mark = {"generation": generation, "save": secrets.token_hex(8)}
        nbytes = save_archive(folder / files["state"], "state", arrays, mark)
        manifest: dict[str, Any] = {**meta, "format": _FORMAT, "kind": _KIND, **mark, "files": files}
        replay_nbytes = 0
        if replay is not None:
            files["replay"] = f"replay-{generation}"
            _save_replay(folder, before, files["replay"], replay)
            replay_nbytes = (folder / files["replay"]).stat().st_size
            manifest["replay_save"] = replay.save_number
        save_text(folder / _MANIFEST, json.dumps(manifest, indent=1) + "\n")
    except BaseException:  # Ctrl-C, too: it may come when the new manifest is there already
        with contextlib.suppress(OSError, FileFormatError):
            _remove_all_but(folder, _in_force(folder)["files"].values())
        raise
    _remove_all_but(folder, files.values())
    return nbytes + replay_nbytes, replay_nbytes


def has_checkpoint(run_dir: Path) -> bool:
    """Whether a checkpoint was written, of whatever version, also where somebody has taken its manifest away.

    Its folder alone, or with files of the first generation, is what a full disk or a kill leaves.
    """
    folder = run_dir / "checkpoint"
    return any((folder / name).exists() for name in (_MANIFEST, _OLDER)) or _has_lost_manifest(folder)


def checkpoint_nbytes(run_dir: Path) -> tuple[int, int]:
    """Bytes of the run's checkpoint, and how many of them the replay takes; 0 and 0 where there is none.

    What somebody has taken away of it, as a callback that keeps the replay elsewhere, takes none.

    Raises:
        FileFormatError: It is damaged.
    """
    folder = run_dir / "checkpoint"
    if not has_checkpoint(run_dir):
        return 0, 0
    paths = {key: folder / name for key, name in _manifest(folder)["files"].items()}
    sizes = {key: path.stat().st_size for key, path in paths.items() if path.exists()}
    return sum(sizes.values()), sizes.get("replay", 0)


def load_checkpoint(run_dir: Path) -> tuple[Arrays, dict[str, Any]]:
    """The run's checkpoint without its replay: (arrays, meta).

    Raises:
        FileFormatError: It is absent, damaged, foreign, or of another version.
    """
    folder = run_dir / "checkpoint"
    while True:
        manifest = _manifest(folder)
        try:
            path = folder / manifest["files"]["state"]
            arrays, meta = load_archive(path, "state")
            if meta.get("save", manifest.get("save")) != manifest.get("save"):  # none in those of before
                raise FileFormatError(
                    f"{path}: expected the state that was saved with {_MANIFEST}, got another; use a copy of the whole "
                    "folder"
                )
            return arrays, manifest
        except FileFormatError:
            if _manifest(folder)["generation"] == manifest["generation"]:  # else it was replaced meanwhile
                raise


def saved_interface(run_dir: Path) -> dict[str, str] | None:
    """What the run's checkpoint says of the environment; None where there is no checkpoint, or it is damaged."""
    try:
        found: Any = _manifest(run_dir / "checkpoint").get("interface")
    except FileFormatError:
        return None
    return cast("dict[str, str]", found) if isinstance(found, dict) else None


def load_replay(run_dir: Path, *, shared: bool, scratch_dir: str | None = None) -> Replay | None:
    """The replay of the run's checkpoint; None if it was not kept.

    Args:
        run_dir: The run's folder.
        shared: Put it where other processes can attach.
        scratch_dir: Folder on whose disk it is to lie, or None.

    Raises:
        FileFormatError: It is absent or damaged.
        SegmentError: There is not enough memory, or room on the disk.
        InvalidInput: `scratch_dir` is no folder.
    """
    folder = run_dir / "checkpoint"
    manifest = _manifest(folder)
    name = manifest["files"].get("replay")
    if name is None:
        return None
    if not (folder / name).exists():
        raise FileFormatError(f"{folder / name}: the checkpoint's replay is gone; use an older copy of the folder")
    if (folder / name).is_dir():
        raise FileFormatError(
            f"{folder / name}: expected the file of the checkpoint's replay, got a folder; use an older copy of the "
            "checkpoint"
        )
    return Replay.load(folder / name, shared=shared, scratch_dir=scratch_dir, save_number=manifest["replay_save"])


def save_policy(
    run_dir: Path, vector: NDArray[np.float32], mean_return: float, num_steps: int, num_updates: int
) -> None:
    """Replace the run's best policy."""
    meta = {"mean_return": mean_return, "num_steps": num_steps, "num_updates": num_updates}
    save_archive(run_dir / _BEST, "policy", {"params": vector}, meta)


def has_best_policy(run_dir: Path) -> bool:
    """Whether a best policy was saved; its folder alone is what a run leaves that was killed before it was."""
    return (run_dir / _BEST).exists()


def load_saved_policy(run_dir: Path, which: Which) -> SavedPolicy:
    """The best policy of a run, or the last one from its checkpoint.

    Raises:
        FileFormatError: It is absent, truncated, foreign, or of a newer version.
    """
    arrays, meta = load_archive(run_dir / _BEST, "policy") if which == "best" else load_checkpoint(run_dir)
    try:
        vector, counts = arrays["params"], [meta[name] for name in ("num_steps", "num_updates")]
    except KeyError as error:
        raise FileFormatError(f"{run_dir}: expected an entry {error} in the {which} policy, found none") from error
    mean_return = meta.get("mean_return", float("nan"))
    if vector.dtype != np.float32 or not all(map(is_count, counts)) or not isinstance(mean_return, int | float):
        raise FileFormatError(
            f"{run_dir}: expected float32 parameters, two counts and a return in the {which} policy, got "
            f"{vector.dtype}, {counts} and {mean_return!r}; use an older copy"
        )
    return SavedPolicy(vector=vector, num_steps=counts[0], num_updates=counts[1], mean_return=mean_return)


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / _MANIFEST
    try:
        manifest = checked(path, _KIND, json.loads(path.read_bytes()), _FORMAT)
        found: Any = manifest["files"]
        files = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
        if "state" not in files:
            raise ValueError("it names no state")
        if not all(isinstance(name, str) for name in files.values()):
            raise ValueError("the names of its files are no text")
        counts = ("generation", "num_steps", "num_updates", *(["replay_save"] if "replay" in files else []))
        if not all(is_count(manifest[name]) for name in counts):
            raise ValueError("its counts are no whole numbers from 0")
    except (FileNotFoundError, NotADirectoryError) as error:
        what = "there is no checkpoint here (yet)"
        if (folder / _OLDER).exists():
            what = "there is a checkpoint of an older drivetrain, which this one cannot read"
        elif _has_lost_manifest(folder):
            what = f"its {_MANIFEST} is gone; use an older copy of the folder, or remove it to begin the run anew"
        raise FileFormatError(f"{folder}: {what}") from error
    except KeyError as error:
        raise FileFormatError(f"{path}: damaged, or no checkpoint of drivetrain: it has no {error}") from error
    except (OSError, ValueError) as error:
        raise FileFormatError(f"{path}: damaged, or no checkpoint of drivetrain: {error}") from error
    return manifest


def _in_force(folder: Path) -> dict[str, Any]:
    """The manifest that is there, or one that names nothing."""
    return _manifest(folder) if (folder / _MANIFEST).exists() else {"generation": 0, "files": {}}


def _has_lost_manifest(folder: Path) -> bool:
    """Whether there is a generation that another must have come before, and no manifest."""
    later = any(path.name != "state-1.npz" for path in folder.glob("state-*.npz"))
    return later and not (folder / _MANIFEST).exists()


def _save_replay(folder: Path, before: dict[str, Any], name: str, replay: Replay) -> None:
    """Save to a new name; what the old name has is part of it where the file system can do that.

    Not where a save was made since that no manifest names: a file keeps only two apart. Nor where the file is in a copy
    of the folder, too, as `cp -al` makes one: saves from here on would push out the one that the copy's manifest names.
    """
    old = before["files"].get("replay")
    if old is not None and before.get("replay_save") == replay.save_number:
        with contextlib.suppress(OSError):
            if os.stat(folder / old).st_nlink == 1:
                os.link(folder / old, folder / name)
    replay.save(folder / name, incremental=True)


def _remove_all_but(folder: Path, names: Any) -> None:
    kept = {*names, _MANIFEST}
    with os.scandir(folder) as entries:
        for entry in entries:
            is_ours = _OURS.fullmatch(entry.name) and entry.name not in kept
            if is_ours and entry.is_file(follow_symlinks=False):
                os.unlink(entry.path)
