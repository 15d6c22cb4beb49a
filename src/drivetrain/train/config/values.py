"""What a setting takes, by its type: values of Python, of NumPy and of JSON that mean the same, or a sentence.

override(name=value) -> fitting -> the part's own checks (ranges, names)
"""

import functools
import json
import types
import typing
from collections.abc import Mapping
from fractions import Fraction
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from drivetrain.core.errors import InvalidInput
from drivetrain.core.words import fraction
from drivetrain.train.config.given import named, plain

_UNFIT = object()
_MOST_PARTS = 1_000
"""The largest denominator of a quotient that is known by its number; no decimal of ten digits is taken for one."""


def fitting(part: object, name: str, value: Any) -> Any:
    """A value as the setting's type has it: `np.int64(4)` and `1e5` are whole numbers, 1 is a real one.

    Args:
        part: The part of the configuration that has the setting.
        name: Of the setting.
        value: As given.

    Raises:
        InvalidInput: It is of another type.
    """
    if name in ("torso", "optimizer"):
        return named(name, value)
    kinds = _kinds(_hints(type(part))[name])
    for kind in kinds:
        found = _as(kind, value)
        if found is not _UNFIT:
            return found
    told = "; give its run_dir" if hasattr(value, "run_dir") else _scheduled(part, name, value)
    raise InvalidInput(f"{name}: expected {' or '.join(map(_words, kinds))}, got {value!r}{told}")


def _scheduled(part: object, name: str, value: Any) -> str:
    """What to give for a schedule, a function or a text as "lin_3e-4" of RL Baselines3 Zoo; "" where it is none."""
    if not (callable(value) or (isinstance(value, str) and value.startswith("lin_"))):
        return ""
    if hasattr(part, f"{name}_schedule"):
        return f'; give its first value, and {name}_schedule="linear", by which it falls to 0'
    of_updates = "optax.adam(optax.linear_schedule(rate, 0, num_updates))"
    return f"; give its first value, and optimizer=lambda rate: {of_updates}" if name == "learning_rate" else ""


@functools.cache
def _hints(part: type) -> dict[str, Any]:
    """The types of a part's settings."""
    return typing.get_type_hints(part)


def _kinds(hint: Any) -> list[Any]:
    """The types of which a value may be one."""
    return list(typing.get_args(hint)) if typing.get_origin(hint) in (typing.Union, types.UnionType) else [hint]


def _as(kind: Any, value: Any) -> Any:
    """The value as one of a type, _UNFIT if it is none."""
    if typing.get_origin(kind) is Literal:
        return plain(value) if isinstance(value, str) and value in typing.get_args(kind) else _UNFIT
    if typing.get_origin(kind) is tuple:
        return _several(typing.get_args(kind)[0], value)
    if typing.get_origin(kind) is dict:
        return _by_name(value)
    if kind is Fraction:
        return _fraction(value)
    if kind is str:
        return str(value) if isinstance(value, Path) else plain(value) if isinstance(value, str) else _UNFIT
    if kind is types.NoneType:
        return None if value is None else _UNFIT
    if kind is float and isinstance(value, str) and value in ("inf", "-inf"):
        return float(value)
    is_bool = isinstance(value, bool | np.bool_)
    if kind is bool:
        return bool(cast(Any, value)) if is_bool else _UNFIT
    return _UNFIT if is_bool or not isinstance(value, Real) else _number(kind, value)


def _number(kind: Any, value: Real) -> Any:
    try:
        if kind is float:
            return float(value)
        return int(cast(Any, value)) if isinstance(value, Integral) or float(value).is_integer() else _UNFIT
    except OverflowError:  # beyond what is real to a computer
        return _UNFIT


def _several(kind: Any, value: Any) -> Any:
    if not isinstance(value, list | tuple | np.ndarray) or (isinstance(value, np.ndarray) and value.ndim == 0):
        return _UNFIT
    found = [_as(kind, entry) for entry in cast("list[Any]", value)]
    return _UNFIT if _UNFIT in found else tuple(found)


def _by_name(value: Any) -> Any:
    """As it is read again from a file: lists for tuples."""
    if not isinstance(value, Mapping):
        return _UNFIT
    given: dict[Any, Any] = dict(cast("Mapping[Any, Any]", value))
    try:
        return json.loads(json.dumps(given, default=_plain, allow_nan=False)) if _is_named(given) else _UNFIT
    except (TypeError, ValueError, RecursionError):
        return _UNFIT


def _is_named(value: Any) -> bool:
    """Whether all keys are names, however deep: JSON would make names of others, as of 1, and take two for one."""
    if isinstance(value, Mapping):
        inside = cast("Mapping[Any, Any]", value)
        return all(isinstance(name, str) for name in inside) and all(map(_is_named, inside.values()))
    return not isinstance(value, list | tuple) or all(map(_is_named, cast("list[Any]", value)))


def _plain(value: Any) -> Any:
    """A number or array of NumPy's as JSON has it."""
    if isinstance(value, np.generic | np.ndarray):
        return cast(Any, value).tolist()
    raise TypeError


def _fraction(value: Any) -> Any:
    if isinstance(value, Fraction):
        return value
    try:
        written = fraction(str(value))
    except (ValueError, ZeroDivisionError):
        return _UNFIT
    if not isinstance(value, float | np.floating):
        return written
    divided = written.limit_denominator(_MOST_PARTS)  # what Python has made of 1 / 3
    return divided if np.asarray(float(divided), np.result_type(cast(Any, value))) == value else written


def _words(kind: Any) -> str:
    if typing.get_origin(kind) is Literal:
        return " or ".join(f'"{name}"' for name in typing.get_args(kind))
    if typing.get_origin(kind) is tuple:
        return "several whole numbers, as (64, 64)" if int in typing.get_args(kind) else 'names, as ("a", "b")'
    if typing.get_origin(kind) is dict:
        return 'values by name that JSON has, as {"continuous": True}'
    known = {int: "a whole number", float: "a number", bool: "True or False", str: "text", types.NoneType: "None"}
    return known.get(kind, 'an integer, a fraction as "1/4" or a decimal')
