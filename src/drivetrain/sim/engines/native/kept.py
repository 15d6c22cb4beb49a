"""Sources of kernels on disk, by the program they were written from: passes over a large program take seconds.

A file's name is the hash of the traced program, its constants and everything of ours that turns it into C++; its last
line is the hash of the rest, so a file cut short is noticed and written again.
"""

import functools
import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import jax

from drivetrain.core.errors import CompileError
from drivetrain.sim.engines.native.toolchain import cache_folder
from drivetrain.sim.trace import Traced, text_of

MARK = "// sha256 "
OURS = (Path(__file__).parents[2] / "ir", Path(__file__).parent, Path(__file__).parents[1] / "cuda")
"""What turns a program into C++, or CUDA C++."""


def kept_source(traced: Traced, write: Callable[[Traced], str], suffix: str = ".cpp") -> str:
    """The source of a traced step, written by `write` now or before.

    Args:
        suffix: Of the file, which tells what different writers have written apart.

    Raises:
        CompileError: `write` does, or there is no place to keep the result.
    """
    path = cache_folder() / f"{program_hash(traced)}{suffix}"
    try:
        kept = undamaged(path.read_text())
    except (OSError, UnicodeDecodeError):
        kept = None
    if kept is not None:
        return kept
    source = write(traced)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, draft = tempfile.mkstemp(dir=path.parent, suffix=".draft")
        with os.fdopen(handle, "w") as file:
            file.write(f"{source}{MARK}{hashlib.sha256(source.encode()).hexdigest()}\n")
        os.replace(draft, path)
    except OSError as error:
        raise CompileError(
            f"sources of kernels cannot be kept in {path.parent}: {error}; set DRIVETRAIN_CACHE to a folder that this "
            'user may write to, or compile with engine="xla"'
        ) from error
    return source


def undamaged(text: str) -> str | None:
    """A kept source without its last line; None where the two do not fit."""
    source, mark, digest = text.rpartition(MARK)
    return source if mark and hashlib.sha256(source.encode()).hexdigest() == digest.strip() else None


def program_hash(traced: Traced) -> str:
    """Of everything that a source depends on."""
    text, constants = text_of(traced.jaxpr)
    leaves = [len(jax.tree.leaves(tree)) for tree in (traced.state, traced.action, traced.record, traced.shared)]
    hashed = hashlib.sha256("\n".join([own_hash(), jax.__version__, str(leaves), text]).encode())
    for constant in constants:
        hashed.update(hashlib.sha256(constant).digest())
    return hashed.hexdigest()


@functools.cache
def own_hash() -> str:
    """Of our importer, passes and emitter."""
    hashed = hashlib.sha256()
    for path in sorted(path for folder in OURS for path in folder.rglob("*.py")):
        hashed.update(path.read_bytes())
    return hashed.hexdigest()
