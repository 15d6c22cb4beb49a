"""How much is run: what is planned, but for what the options give."""

from typing import Any, NamedTuple, TypeVar

_Effort = TypeVar("_Effort", bound=NamedTuple)


def as_asked(planned: _Effort, options: Any) -> _Effort:
    """The plan, full or quick, with the options of its fields' names in place of its own where they are given."""
    given = {name: getattr(options, name) for name in planned._fields}
    return planned._replace(**{name: value for name, value in given.items() if value is not None})
