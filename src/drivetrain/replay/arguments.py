"""Single values that callers give: each comes back as what it stands for, or InvalidInput says what was expected."""

import math
import operator
from pathlib import Path
from typing import Any, SupportsFloat, cast

import numpy as np

from drivetrain.core.errors import InvalidInput
from drivetrain.core.paths import given_path


def require_bool(name: str, value: Any) -> bool:
    """`value` as a bool; 0 and 1 will do, and NumPy's. Texts such as "no" would count as true."""
    if isinstance(value, bool | np.bool_ | int | np.integer) and value in (0, 1):
        return bool(cast(Any, value))
    raise InvalidInput(f"{name}: expected True or False, got {value!r}")


def require_folder(name: str, value: Any) -> Path | None:
    """`value` as the path of a folder there is; None stays None."""
    if value is None:
        return None
    path = given_path(name, value, "the path of a folder")
    if not path.is_dir():
        raise InvalidInput(f"{name}: expected a folder, got {str(path)!r}; make it first")
    return path


def require_one_of(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """`value` as one of some names; a member of an enumeration that is a str comes back as its text."""
    if not isinstance(value, str) or value not in choices:
        wanted = " or ".join(f'"{choice}"' for choice in choices)
        raise InvalidInput(f"{name}: expected {wanted}, got {value!r}")
    return choices[choices.index(value)]


def require_int(name: str, value: Any, *, least: int, most: int | None = None) -> int:
    """`value` as an int within bounds."""
    try:
        number = -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = -1
    if number < least or (most is not None and number > most):
        bounds = f"an integer >= {least}" if most is None else f"an integer in {least}..{most}"
        is_whole = isinstance(value, float) and value.is_integer() and least <= value <= (most or value)  # as 1e6 is
        remedy = f"; write {int(value)}" if is_whole else ""
        raise InvalidInput(f"{name}: expected {bounds}, got {value!r}{remedy}")
    return number


def real_number(value: Any) -> float:
    """`value` as a float; NaN of what is no single real number, or has no place in one."""
    if not isinstance(value, SupportsFloat) or isinstance(value, str | bytes | np.complexfloating):
        return math.nan
    try:
        return float(value) if np.ndim(cast(Any, value)) == 0 else math.nan
    except (TypeError, ValueError, OverflowError):
        return math.nan


def require_seconds(name: str, value: Any) -> float:
    """`value` as a duration."""
    number = math.nan if isinstance(value, bool) else real_number(value)
    if not 0.0 <= number < math.inf:
        raise InvalidInput(f"{name}: expected a number of seconds >= 0, got {value!r}")
    return number


def require_fraction(name: str, value: Any, *, meaning: str) -> float:
    """`value` as a float in [0, 1]."""
    number = real_number(value)
    if not 0.0 <= number <= 1.0:
        raise InvalidInput(f"{name}: expected a number in [0, 1] ({meaning}), got {value!r}")
    return number
