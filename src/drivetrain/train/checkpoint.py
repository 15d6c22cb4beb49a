"""Checkpoints and policies on disk: one .npz file each, replaced in one step, never with pickle.

    RUN/checkpoint/state.npz   all that learning changes, and the counters
    RUN/best/policy.npz        the parameters of the best policy by periodic evaluation

A file is written aside, synced and renamed, so a reader finds the old one or the new one whole.
"""

import io
import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from drivetrain.core.errors import FileFormatError

Which = Literal["best", "last"]
_FORMAT = 1
_META = "meta.json"
_CHECKPOINT = Path("checkpoint") / "state.npz"
_BEST = Path("best") / "policy.npz"


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


def save_checkpoint(run_dir: Path, arrays: Mapping[str, NDArray[Any]], meta: dict[str, Any]) -> None:
    """Replace the run's checkpoint.

    Args:
        run_dir: The run's folder.
        arrays: All that learning changes; "params" is the network's vector.
        meta: JSON-able counters and random states; num_steps and num_updates at least.
    """
    _save(run_dir / _CHECKPOINT, "checkpoint", arrays, meta)


def load_checkpoint(run_dir: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The run's checkpoint: (arrays, meta).

    Raises:
        FileFormatError: It is absent, truncated, foreign, or of a newer version.
    """
    return _load(run_dir / _CHECKPOINT, "checkpoint")


def save_policy(
    run_dir: Path, vector: NDArray[np.float32], mean_return: float, num_steps: int, num_updates: int
) -> None:
    """Replace the run's best policy."""
    meta = {"mean_return": mean_return, "num_steps": num_steps, "num_updates": num_updates}
    _save(run_dir / _BEST, "policy", {"params": vector}, meta)


def load_policy(run_dir: Path, which: Which) -> SavedPolicy:
    """The best policy of a run, or the last one from its checkpoint.

    Raises:
        FileFormatError: It is absent, truncated, foreign, or of a newer version.
    """
    best = which == "best"
    path = run_dir / (_BEST if best else _CHECKPOINT)
    arrays, meta = _load(path, "policy" if best else "checkpoint")
    try:
        return SavedPolicy(
            vector=arrays["params"],
            num_steps=meta["num_steps"],
            num_updates=meta["num_updates"],
            mean_return=meta.get("mean_return", float("nan")),
        )
    except KeyError as error:
        raise FileFormatError(f"{path}: expected an entry {error}, found none") from error


def _save(path: Path, kind: str, arrays: Mapping[str, NDArray[Any]], meta: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    text = json.dumps({"format": _FORMAT, "kind": kind, **meta})
    named: dict[str, Any] = {_META: np.frombuffer(text.encode(), np.uint8), **arrays}
    with aside.open("wb") as file:
        np.savez(file, **named)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the rename itself
    finally:
        os.close(folder)


def _load(path: Path, kind: str) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    try:
        # Read whole first: a checkpoint replaced meanwhile must not give half of each.
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
            arrays: dict[str, NDArray[Any]] = {name: file[name] for name in file.files}
        meta = json.loads(bytes(arrays.pop(_META)))
    except FileNotFoundError as error:
        raise FileFormatError(f"{path}: there is no {kind} here (yet)") from error
    except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile) as error:
        sentence = " ".join(str(error).split())
        raise FileFormatError(f"{path}: truncated, or no {kind} of drivetrain: {sentence}") from error
    if meta.get("kind") != kind:
        raise FileFormatError(f"{path}: expected a {kind}, got a {meta.get('kind')!r}")
    if meta["format"] > _FORMAT:
        raise FileFormatError(
            f"{path}: format {meta['format']} is newer than this drivetrain reads ({_FORMAT}); upgrade it"
        )
    return arrays, meta
