"""Sources of kernels on disk, by the program they were written from: passes over a large program take seconds."""

from collections.abc import Callable

from drivetrain.core.caches import kernel_cache
from drivetrain.core.errors import CompileError
from drivetrain.sim.kept_files import read_kept, write_kept
from drivetrain.sim.recalling import Recalled
from drivetrain.sim.trace import Traced


class SourceGone(CompileError):
    """A source that was kept with a trace is no longer there, or damaged; tracing again writes it again."""


def kept_source(traced: Traced | Recalled, write: Callable[[Traced], str], suffix: str = ".cpp") -> str:
    """The source of a traced step, written by `write` now or before.

    Args:
        suffix: Of the file, which tells what different writers have written apart.

    Raises:
        CompileError: `write` does, or there is no place to keep the result.
        SourceGone: The step was recalled, and its source is no longer there.
    """
    path = kernel_cache() / f"{traced.digest}{suffix}"
    kept = read_kept(path)
    if kept is not None:
        return kept
    if isinstance(traced, Recalled):
        raise SourceGone(f"the source of a kernel is gone from {path.parent}, or damaged: call sim.compile again")
    source = write(traced)
    try:
        write_kept(path, source)
    except OSError as error:
        raise CompileError(
            f"sources of kernels cannot be kept in {path.parent}: {error}; set DRIVETRAIN_CACHE to a folder that this "
            'user may write to, or compile with engine="xla"'
        ) from error
    return source
