"""The schema of a replay: which fields a row has, of what dtype and shape, and where.

A user's spec is a nested dict whose leaves are `(shape, dtype)`; a list in it stands for a tuple of
arrays, numbered. Fields are flattened to names joined by "/" (a "/" within a key becomes U+2215, which looks
alike), and packed into one row per transition, widest alignment first:

    spec {"obs": {"position": ((3,), "float32")}, "action": ((), "int64")}
    row  action | obs/position | next_obs/position | reward | discount | terminated | truncated

With shared observations (`frame_stack` >= 1) the observations lie in frames, packed alike, and a row
begins with links to its frames:

    row  links | action | reward | discount | terminated | truncated      frame  obs/position

With sequences each field of a row holds all its steps, but those kept for the first step alone.
"""

import math
import operator
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from drivetrain.core.errors import InvalidInput
from drivetrain.replay import _native, dtypes
from drivetrain.replay.sequences import SLASH, Sequences, is_within

Spec = Mapping[str, Any]
"""A nested dict whose leaves are `(shape, dtype)`; a list of specs stands for a tuple."""

FIRST, NEXT, REWARD, DISCOUNT, TERMINATED, TRUNCATED, FRAMES, NEXT_FRAMES, INITIAL, MASK = range(10)
"""Field kinds, as in cpp/include/drivetrain/rows.hpp."""

_FROM_PRODUCER = -1  # of no row
_OURS = {
    "reward": (REWARD, np.dtype(np.float32)),
    "discount": (DISCOUNT, np.dtype(np.float32)),
    "terminated": (TERMINATED, np.dtype(np.bool_)),
    "truncated": (TRUNCATED, np.dtype(np.bool_)),
}
_MAX_ROW_NBYTES = 2**31
_MAX_AXES = 30  # NumPy 1.26 has 32, and samples put two before these; sequences put three


@dataclass(frozen=True)
class Field:
    """One array of a row: where it comes from, what it holds, where it lies (in a row, or in a frame)."""

    name: str
    kind: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int
    steps: int | None = None
    """Steps of a sequence that it holds; None: one, without an axis for it."""

    @property
    def sampled_shape(self) -> tuple[int, ...]:
        """Shape of what one row shows in a sample."""
        return self.shape if self.steps is None else (self.steps, *self.shape)

    @property
    def step_nbytes(self) -> int:
        """Bytes of one step's item."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of what one row shows in a sample."""
        return self.step_nbytes * (self.steps or 1)

    @property
    def is_framed(self) -> bool:
        """Whether it lies in frames rather than in the row."""
        return self.kind in (FRAMES, NEXT_FRAMES)


PRIORITY = Field("priority", _FROM_PRODUCER, (), np.dtype(np.float32), 0)
"""What `add` takes besides when producers give new rows their priority; it goes to the tree, not into rows."""


@dataclass(frozen=True)
class Schema:
    """All fields of a row, in the order of the arrays that come out of sampling."""

    fields: tuple[Field, ...]
    frame_stack: int = 0
    """Frames in an observation; 0: rows hold their observations."""
    steps: int = 1
    """Steps in a row."""
    tuples: tuple[str, ...] = ()
    """Groups that users see as tuples, by flat name; what is in them is called 0, 1, ..."""

    @classmethod
    def from_spec(cls, spec: Spec, frame_stack: int = 0, sequence: "Sequences | None" = None) -> "Schema":
        """Lay out the rows for a user's spec.

        Raises:
            InvalidInput: Empty, reserved names, not `(shape, dtype)`, or a dtype without a size; or
                observations that are no stacks of `frame_stack`.
        """
        tuples: list[str] = []
        declared = dict(_leaves(spec, "", tuples))
        if not declared:
            raise InvalidInput('spec: expected at least one field, such as {"obs": ((4,), "float32")}, got none')
        if sequence:
            _require_sequences(declared, sequence)
        return cls._laid_out(declared, frame_stack, sequence, tuples)

    @classmethod
    def _laid_out(
        cls, declared: "_Declared", frame_stack: int, sequence: "Sequences | None", tuples: Sequence[str]
    ) -> "Schema":
        if sequence and any(map(_is_obs, declared)):
            frame_stack = max(1, frame_stack)  # windows overlap: their observations are shared in any case
        if frame_stack:
            _require_stacks(declared, frame_stack)

        def kind_of(name: str) -> int:
            if sequence and sequence.keeps_initial(name):
                return INITIAL
            if name.startswith("next_"):
                return NEXT
            return FRAMES if frame_stack and _is_obs(name) else FIRST

        entries = [(name, kind_of(name), shape, dtype) for name, (shape, dtype) in declared.items()]
        entries += [
            ("next_" + name, NEXT_FRAMES if frame_stack else NEXT, shape, dtype)
            for name, (shape, dtype) in declared.items()
            if _is_obs(name)
        ]
        entries += [(name, kind, (), dtype) for name, (kind, dtype) in _OURS.items()]
        if sequence:
            entries.append(("mask", MASK, (), np.dtype(np.bool_)))
        steps = sequence.num_steps if sequence else 1
        ends = {"row": _native.links_nbytes(2 * frame_stack * steps), "obs": 0, "next_obs": 0}
        fields = dict[str, Field]()
        for name, kind, shape, dtype in sorted(entries, key=lambda entry: -entry[3].alignment):
            framed = kind in (FRAMES, NEXT_FRAMES)
            place = name.split("/")[0] if framed else "row"
            field = Field(name, kind, shape, dtype, ends[place], steps if sequence and kind != INITIAL else None)
            fields[name] = field
            ends[place] += field.step_nbytes // frame_stack if framed else field.nbytes
        if max(ends.values()) > _MAX_ROW_NBYTES:
            raise InvalidInput(
                f"spec: one row would take {max(ends.values())} bytes; at most {_MAX_ROW_NBYTES} are possible"
            )
        next_tuples = ["next_" + name for name in tuples if _is_obs(name)]
        return cls(tuple(fields[name] for name, _, _, _ in entries), frame_stack, steps, (*tuples, *next_tuples))

    @cached_property
    def row_stride(self) -> int:
        """Bytes from one row to the next: whole cache lines unless that wastes a quarter."""
        fields = sum(field.nbytes for field in self.fields if field.kind not in (FRAMES, NEXT_FRAMES))
        return _stride(_native.ROW_HEADER_NBYTES + _native.links_nbytes(self.num_refs) + fields)

    @cached_property
    def frame_stride(self) -> int:
        """Bytes from one frame to the next, by the same rule; 0 without frames."""
        stacks = sum(field.step_nbytes for field in self.fields if field.kind == FRAMES)
        return _stride(stacks // self.frame_stack) if self.frame_stack else 0

    @property
    def num_refs(self) -> int:
        """Frames that a row refers to: those of `obs` and of `next_obs`, of all its steps."""
        return 2 * self.frame_stack * self.steps

    @cached_property
    def inputs(self) -> tuple[Field, ...]:
        """The fields a producer hands to `add`, in this order."""
        return tuple(field for field in self.fields if field.kind not in (DISCOUNT, MASK))

    @cached_property
    def is_nested(self) -> bool:
        """Whether any field lies inside a nested dict."""
        return any("/" in field.name for field in self.fields)

    def flatten(self, step: Mapping[str, Any]) -> dict[str, Any]:
        """Nested step to flat names; what is missing or too much is found by the caller."""
        return dict(_walk(step, "", self.tuples))

    def nest(self, arrays: list[npt.NDArray[Any]]) -> dict[str, Any]:
        """Arrays in field order to what users see."""
        data = self.nest_dicts(arrays)
        return self.as_declared(data) if self.is_respelled else data

    def nest_dicts(self, arrays: list[npt.NDArray[Any]]) -> dict[str, Any]:
        """Arrays in field order to nested dicts, as native code takes and gives them."""
        by_name = {field.name: array for field, array in zip(self.fields, arrays, strict=True)}
        return self.nested(by_name) if self.is_nested else by_name

    def nested(self, by_name: Mapping[str, Any]) -> dict[str, Any]:
        """What is by flat names, in nested dicts."""
        data: dict[str, Any] = {}
        for name, array in by_name.items():
            *groups, last = name.split("/")
            inner = data
            for group in groups:
                inner = inner.setdefault(group, {})
            inner[last] = array
        return data

    @cached_property
    def is_respelled(self) -> bool:
        """Whether users see more than nested dicts of flat names: tuples, or keys with a slash."""
        return bool(self.tuples) or any(SLASH in field.name for field in self.fields)

    def as_declared(self, data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
        """The same with tuples and keys as users see them; leaves `data` as it is."""
        converted: dict[str, Any] = {}
        for key, value in data.items():
            if isinstance(value, dict):
                value = self.as_declared(cast(dict[str, Any], value), f"{prefix}{key}/")
                if f"{prefix}{key}" in self.tuples:
                    value = tuple(value.values())
            converted[key.replace(SLASH, "/")] = value
        return converted

    def native_fields(self) -> list[tuple[int, int, int, str, np.dtype[Any], tuple[int, ...], tuple[int, ...]]]:
        """What the native table needs to know of each field."""
        names = [sys.intern(f.name) for f in self.fields]  # as those of keywords are
        return [
            (f.kind, f.offset, f.nbytes, name, f.dtype, f.sampled_shape, f.shape)
            for name, f in zip(names, self.fields, strict=True)
        ]

    def to_json(self) -> Any:
        """JSON-able form; `from_json` inverts it."""
        fields = [[f.name, f.kind, list(f.shape), dtypes.to_json(f.dtype), f.offset] for f in self.fields]
        return {"fields": fields, "tuples": list(self.tuples)} if self.tuples else fields

    @classmethod
    def from_json(cls, value: Any, frame_stack: int = 0, sequence: "Sequences | None" = None) -> "Schema":
        """The schema that `to_json` wrote.

        Raises:
            InvalidInput: No spec gives these fields: native code would reach elsewhere.
        """
        with_tuples = cast(dict[str, Any], value if isinstance(value, dict) else {"fields": value, "tuples": []})
        fields: list[list[Any]] = with_tuples["fields"]
        declared = {
            name: _leaf(name, (tuple(shape), dtypes.from_json(dtype)))
            for name, kind, shape, dtype, _ in fields
            if kind in (FIRST, FRAMES, INITIAL) or (kind == NEXT and not _is_next_obs(name))
        }
        tuples = [name for name in map(str, with_tuples["tuples"]) if not _is_next_obs(name)]
        schema = cls._laid_out(declared, frame_stack, sequence, tuples)
        if not all(_is_numbered(name, declared) for name in tuples) or schema.to_json() != value:
            raise InvalidInput("schema: this version of drivetrain lays out these fields in another way")
        return schema


_Declared = Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]]


def _is_obs(name: str) -> bool:
    return name == "obs" or name.startswith("obs/")


def _is_next_obs(name: str) -> bool:
    return name.split("/")[0] == "next_obs"


def _is_numbered(group: str, names: Iterable[str]) -> bool:
    """Whether what is in a group is called 0, 1, ... in this order."""
    inside = [name.removeprefix(group + "/").split("/")[0] for name in names if name.startswith(group + "/")]
    found = list(dict.fromkeys(inside))
    return found != [] and found == [str(index) for index in range(len(found))]


def _leaves(spec: Spec, prefix: str, tuples: list[str]) -> list[tuple[str, tuple[tuple[int, ...], np.dtype[Any]]]]:
    leaves: list[tuple[str, tuple[tuple[int, ...], np.dtype[Any]]]] = []
    for key, value in spec.items():
        if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            text, kind = str(key), type(key).__name__
            raise InvalidInput(f"spec field {prefix + text!r}: expected a str as name, got {kind}; call it {text!r}")
        name = prefix + key.replace("/", SLASH)
        if not prefix and (key in _OURS or key == "next_obs"):
            raise InvalidInput(
                f"spec field {name!r}: this name is reserved; reward, terminated, truncated, discount and next_obs "
                "exist by themselves"
            )
        if not key or SLASH in key or (not prefix and "/" in key):
            raise InvalidInput(
                f"spec field {prefix + key!r}: this name is reserved; names are not empty, nor hold U+2215, and those "
                'of whole fields have no "/"; choose another'
            )
        if isinstance(value, Mapping | list) and not value:
            raise InvalidInput(
                f"spec field {name!r}: expected at least one field in it, got an empty {type(value).__name__}; "  # pyright: ignore[reportUnknownArgumentType]
                "leave it out, or declare what an environment gives there"
            )
        if isinstance(value, Mapping):
            leaves += _leaves(value, name + "/", tuples)  # pyright: ignore[reportUnknownArgumentType]
        elif isinstance(value, list):
            tuples.append(name)
            numbered = _numbered(value)  # pyright: ignore[reportUnknownArgumentType]
            leaves += _leaves(numbered, name + "/", tuples)
        else:
            leaves.append((name, _leaf(name, value)))
    return leaves


def _numbered(values: Iterable[Any]) -> dict[str, Any]:
    return {str(index): value for index, value in enumerate(values)}


def _leaf(name: str, value: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    try:
        shape, dtype = value
        shape = tuple(operator.index(extent) for extent in (shape if np.iterable(shape) else (shape,)))
        if dtype is None:  # NumPy would take it for float64
            raise TypeError("no dtype")
        dtype = dtypes.called(name, dtype) if isinstance(dtype, str) else np.dtype(dtype)
    except InvalidInput:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        remedy = "write a pair of the shape, of integers, and the dtype, by the name that NumPy has for it"
        if name.endswith(("/shape", "/dtype")):  # of cpprb's dicts for each field
            remedy = "write both as one pair, with the shape first, in place of a dict of them"
        elif hasattr(value, "shape") and hasattr(value, "dtype"):  # an array, or a space of Gymnasium's
            remedy = "give its shape and dtype, or take the spec of an environment, spec_of(env)"
        elif name.rpartition("/")[2].isdecimal() and type(value) is not tuple:
            remedy = "in a list, which stands for a tuple of arrays, each needs a spec of its own"
        raise InvalidInput(
            f'spec field {name!r}: expected (shape, dtype) such as ((4,), "float32"), got {value!r}; {remedy}'
        ) from error
    if dtype.subdtype is not None:  # such as ("float32", (3,)): axes of the item
        dtype, inner = dtype.subdtype
        shape += inner
    if len(shape) > _MAX_AXES:
        raise InvalidInput(f"spec field {name!r}: expected at most {_MAX_AXES} axes, got {len(shape)}")
    if dtype.hasobject or dtype.itemsize == 0:
        remedy = "give the most that a text has, as U20" if dtype.kind in "SU" else "use a numeric dtype"
        raise InvalidInput(f"spec field {name!r}: dtype {dtype} has no fixed size in bytes; {remedy}")
    if min(shape, default=1) < 1:
        raise InvalidInput(f"spec field {name!r}: expected a shape of positive extents, got {shape}; leave it out")
    if not dtypes.survives_json(dtype):  # else files could not be loaded, nor other processes attach
        raise InvalidInput(
            f"spec field {name!r}: expected a dtype of NumPy's or ml_dtypes', got {dtype}, which other processes and "
            "files could not name; store its bytes, or cast it"
        )
    return shape, dtype


def _require_sequences(declared: _Declared, sequence: Sequences) -> None:
    for group in sequence.initial:
        if _is_obs(group) or not any(is_within(name, group) for name in declared):
            raise InvalidInput(
                f"Sequences.initial: expected fields of the spec other than obs, got {group!r}; "
                f"declared are {', '.join(declared).replace(SLASH, '/')}"
            )
    for name, (shape, _) in declared.items():
        if name.split("/")[0] == "mask":
            raise InvalidInput("spec field 'mask': this name is reserved with sequences; choose another")
        if len(shape) >= _MAX_AXES:
            raise InvalidInput(f"spec field {name!r}: expected fewer than {_MAX_AXES} axes, got {len(shape)}")


def _require_stacks(declared: _Declared, frame_stack: int) -> None:
    observations = {name: shape for name, (shape, _) in declared.items() if _is_obs(name)}
    if not observations:
        raise InvalidInput(
            'spec: expected "obs" to share between steps, got only '
            f"{', '.join(declared)}; declare obs, or leave share_next_obs and frame_stack out"
        )
    for name, shape in observations.items():
        if frame_stack > 1 and shape[:1] != (frame_stack,):
            raise InvalidInput(
                f"spec field {name!r}: expected a leading axis of frame_stack={frame_stack} frames, got shape "
                f"{list(shape)}; stack frames along the first axis, use share_next_obs without frame_stack, or declare "
                "what is no stack beside obs, with its next_ form"
            )


def _stride(packed: int) -> int:
    words, lines = -(-packed // 8) * 8, -(-packed // 64) * 64
    return lines if lines <= 1.25 * packed else words


def _walk(step: Mapping[str, Any], prefix: str, tuples: tuple[str, ...]) -> list[tuple[str, Any]]:
    flat: list[tuple[str, Any]] = []
    for key, value in step.items():
        text = key if isinstance(key, str) else str(key)  # pyright: ignore[reportUnnecessaryIsInstance]
        name = prefix + text.replace("/", SLASH) if prefix else key
        if isinstance(value, Mapping):
            flat += _walk(value, f"{name}/", tuples)  # pyright: ignore[reportUnknownArgumentType]
        elif name in tuples and isinstance(value, tuple | list):
            numbered = _numbered(cast(Iterable[Any], value))
            flat += _walk(numbered, f"{name}/", tuples)
        else:
            flat.append((name, value))
    return flat
