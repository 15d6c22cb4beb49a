"""Where reports are printed: operations have whatever names programs give them, "[/data]" and ":fire:" as well."""

import sys

import rich.console

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
    if (reconfigure := getattr(sys.stdout, "reconfigure", None)) is not None:
        reconfigure(errors="replace")
    made = Console(stderr=stderr, markup=False, emoji=False, highlight=False)
    made.width = max(made.width, _LEAST_WIDTH)
    return made
