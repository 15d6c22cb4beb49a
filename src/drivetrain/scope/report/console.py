"""Where reports are printed: operations have whatever names programs give them, "[/data]" and ":fire:" as well."""

import sys
from pathlib import Path
from typing import Any

import rich.console
import rich.text

from drivetrain.core.printable import printable

_LEAST_WIDTH = 80  # in columns; below, tables would leave out names and parts of numbers


class Console(rich.console.Console):
    """What becomes of a reader who went away is for the caller to say; rich would end the process itself."""

    def on_broken_pipe(self) -> None:
        """See rich."""
        raise BrokenPipeError


class _OfNames(Console):
    """What a terminal would obey in what is printed, cells of tables too, and ends of lines in it, are escapes."""

    def render_str(self, text: str, **options: Any) -> rich.text.Text:
        """See rich."""
        return super().render_str(printable(text), **options)


def console(*, stderr: bool = False) -> rich.console.Console:
    """A console that prints text as it is given, but for what a terminal would obey, which is an escape, and for what
    its encoding lacks, as the µ of µs, which is "?".

    Where the terminal is narrower than tables need, it parts their lines.
    """
    if (reconfigure := getattr(sys.stderr if stderr else sys.stdout, "reconfigure", None)) is not None:
        reconfigure(errors="replace")
    made = _OfNames(stderr=stderr, markup=False, emoji=False, highlight=False)
    made.width = max(made.width, _LEAST_WIDTH)
    return made


def path_shown(path: Path, where: rich.console.Console) -> str:
    """A path as text in which what is printed there cannot hold is an escape: with "?" it would be another's."""
    encoding = getattr(where.file, "encoding", None) or "utf-8"
    return printable(str(path)).encode(encoding, "backslashreplace").decode(encoding)
