"""Where reports are printed: operations have whatever names programs give them, "[/data]" and ":fire:" as well."""

import sys
from pathlib import Path

import rich.console

from drivetrain.core.printable import printable

_LEAST_WIDTH = 80  # in columns; below, tables would leave out names and parts of numbers


class Console(rich.console.Console):
    """What becomes of a reader who went away is for the caller to say; rich would end the process itself."""

    def on_broken_pipe(self) -> None:
        """See rich."""
        raise BrokenPipeError


def console(*, stderr: bool = False) -> rich.console.Console:
    """A console that prints text as it is given, and "?" for what the terminal's encoding lacks, as the µ of µs.

    Where the terminal is narrower than tables need, it parts their lines.
    """
    if (reconfigure := getattr(sys.stderr if stderr else sys.stdout, "reconfigure", None)) is not None:
        reconfigure(errors="replace")
    made = Console(stderr=stderr, markup=False, emoji=False, highlight=False)
    made.width = max(made.width, _LEAST_WIDTH)
    return made


def path_shown(path: Path, where: rich.console.Console) -> str:
    """A path as text in which what is printed there cannot hold is an escape: with "?" it would be another's."""
    encoding = getattr(where.file, "encoding", None) or "utf-8"
    return printable(str(path)).encode(encoding, "backslashreplace").decode(encoding)
