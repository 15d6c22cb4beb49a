"""How much is run: what is planned, but for what the options give, and what of these is refused."""

from typing import Any, NamedTuple, TypeVar

from drivetrain.core.errors import InvalidInput

_Effort = TypeVar("_Effort", bound=NamedTuple)


def as_asked(planned: _Effort, options: Any) -> _Effort:
    """The plan, full or quick, with the options of its fields' names in place of its own where they are given."""
    given = {name: getattr(options, name) for name in planned._fields}
    return planned._replace(**{name: value for name, value in given.items() if value is not None})


def require_at_least(least: int, **counts: int | None) -> None:
    """Refuse counts that are too small, by the names of their options; None is as planned.

    Raises:
        InvalidInput: One of them is.
    """
    for name, count in counts.items():
        if count is not None and count < least:
            raise InvalidInput(f"--{name.replace('_', '-')}: expected at least {least}, got {count}")


def require_seconds(**durations: float) -> None:
    """Refuse what is no time, NaN among it, by the names of their options.

    Raises:
        InvalidInput: One of them is none.
    """
    for name, seconds in durations.items():
        if not seconds > 0:
            raise InvalidInput(f"--{name.replace('_', '-')}: expected seconds above 0, got {seconds:g}")
