"""What `help` says of a class whose fields are explained by strings below them, which Python throws away.

class, with a string below each field -> with_fields -> __doc__: the class's own, and its fields with what they are
"""

import ast
import inspect
import itertools
import textwrap
from typing import Any, TypeVar

T = TypeVar("T", bound=type)


def with_fields(kind: T) -> T:
    """Decorate a class: its docstring ends with what its fields are, read from its source when somebody asks.

    Goes around `dataclass`. Nothing is read at import.
    """
    kind.__doc__ = _WithFields(kind.__doc__)  # pyright: ignore[reportAttributeAccessIssue]
    return kind


class _WithFields:
    """Stands where a class keeps its docstring, and makes it when it is asked for."""

    def __init__(self, own: str | None) -> None:
        self.own = own

    def __get__(self, instance: object, owner: type) -> str | None:
        fields = explained(owner)
        if self.own is None or not fields:  # as without sources, or with docstrings thrown away (-OO)
            return self.own
        lines = (f"{name}: {' '.join(text.split())}" for name, text in fields.items())
        wrap = textwrap.TextWrapper(110, initial_indent=" " * 4, subsequent_indent=" " * 8, break_on_hyphens=False)
        return "\n".join([inspect.cleandoc(self.own), "", "Attributes:", *map(wrap.fill, lines)])


def explained(kind: type[Any]) -> dict[str, str]:
    """Field -> the string below it, of a class alone; empty where there is no source."""
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    except (OSError, TypeError, SyntaxError):
        return {}
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    for pair in itertools.pairwise(tree.body):
        match pair:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = text
            case _:
                pass
    return found
