"""Dtypes in JSON, for files and segments: NumPy's, structures of them, and ml_dtypes'."""

import importlib
from typing import Any

import numpy as np

from drivetrain.core.errors import InvalidInput, MissingExtra


def to_json(dtype: np.dtype[Any]) -> Any:
    """JSON-able form; `from_json` inverts it, for dtypes that `survives_json`."""
    if dtype.subdtype is not None:
        return [to_json(dtype.subdtype[0]), list(dtype.subdtype[1])]
    if dtype.names is None or dtype.fields is None:
        is_numpys = np.dtype(dtype.str) == dtype
        return dtype.str if is_numpys else dtype.name  # ml_dtypes' bfloat16 calls itself a void of two bytes
    fields: Any = dtype.fields
    parts = [fields[name] for name in dtype.names]
    return {
        "names": list(dtype.names),
        "formats": [to_json(part[0]) for part in parts],
        "offsets": [part[1] for part in parts],
        "itemsize": dtype.itemsize,
        "aligned": dtype.isalignedstruct,  # decides its alignment, and so the layout of rows
    }


def from_json(value: Any) -> np.dtype[Any]:
    """The dtype that `to_json` wrote.

    Raises:
        MissingExtra: It is of ml_dtypes, which is not installed.
        TypeError: It is none.
    """
    if isinstance(value, str):
        return _named(value)
    if isinstance(value, list):
        element, shape = value  # pyright: ignore[reportUnknownVariableType]
        item: Any = (from_json(element), tuple(shape))  # pyright: ignore[reportUnknownArgumentType]
        return np.dtype(item)
    parts: Any = {**value, "formats": [from_json(part) for part in value["formats"]]}
    return np.dtype(parts, align=value["aligned"])


def called(field: str, name: str) -> np.dtype[Any]:
    """The dtype of that name, for a field of a spec.

    Raises:
        InvalidInput: There is none.
    """
    try:
        return from_json(name)
    except (TypeError, MissingExtra) as error:
        raise InvalidInput(
            f"spec field {field!r}: expected a dtype of NumPy's, or of ml_dtypes' where that is installed, such as "
            f'"float32", got {name!r}'
        ) from error


def survives_json(dtype: np.dtype[Any]) -> bool:
    """Whether files and other processes can name it."""
    try:
        return from_json(to_json(dtype)) == dtype
    except (TypeError, ValueError, MissingExtra):
        return False


def _named(name: str) -> np.dtype[Any]:
    try:
        return np.dtype(name)
    except TypeError:  # ml_dtypes' are known by their names once it is imported, as JAX does
        try:
            importlib.import_module("ml_dtypes")
        except ModuleNotFoundError as error:
            raise MissingExtra(
                f"this needs the dtype {name}, which NumPy alone does not have: pip install ml_dtypes"
            ) from error
        return np.dtype(name)
