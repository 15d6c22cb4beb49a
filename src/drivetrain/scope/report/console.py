"""Where reports are printed: operations have whatever names programs give them, "[/data]" and ":fire:" as well."""

import rich.console


def console(*, stderr: bool = False) -> rich.console.Console:
    """A console that prints text as it is given."""
    return rich.console.Console(stderr=stderr, markup=False, emoji=False, highlight=False)
