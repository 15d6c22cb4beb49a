"""Filling a replay with the rows of another whose observations were other ones.

    rows of the source ──▶ stacks of its frames, each once, oldest first ──▶ change ──▶ frames of the target
                     └───────────────── everything else, priorities, counters ──────────▶ rows of the target

For observations that are replaced for good, as images by what a frozen encoder makes of them.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from drivetrain.core.errors import InvalidInput
from drivetrain.replay import _native
from drivetrain.replay.files.format import pieces
from drivetrain.replay.files.frames import refs_of
from drivetrain.replay.schema import FRAMES, Schema

Change = Callable[[Any], Any]
"""From observations [N, ...], nested as the source's spec, to those of the target."""


class Side(NamedTuple):
    """A replay's memory, and what is in it."""

    table: _native.Table
    schema: Schema
    capacity: int


def convert(source: Side, target: Side, change: Change) -> None:
    """Fill an empty replay; nobody else may use either of them meanwhile.

    Rows, their order and their priorities stay, and draws go on from the same random numbers.

    Args:
        source: Keeps its observations in frames; stays as it is.
        target: Of the same capacity and fields but for `obs`; keeps whole observations in frames.
        change: Is called with some observations at a time, oldest first, each once.

    Raises:
        InvalidInput: They do not fit each other.
    """
    _require_fit(source, target)
    stats = source.table.stats()
    alpha = source.table.alpha()
    rows, leaves = _rows(source, alpha, stats["next_slot"])
    stacks = refs_of(rows, source.schema).reshape(2 * len(rows), source.schema.frame_stack)
    unique, which = np.unique(stacks, axis=0, return_inverse=True)
    age = (unique.astype(np.int64) - stats["next_frame"]) % source.table.num_frames
    order = np.argsort(age.max(1, initial=0), kind="stable")  # by the newest frame of each
    keys = np.empty(len(unique), np.uint64)
    stack_nbytes = max(side.schema.frame_stride * side.schema.frame_stack for side in (source, target))
    for piece in pieces(0, len(order), stack_nbytes):
        some = order[piece]
        keys[some] = _store(target, change(_observations(source, unique[some])), len(some))
    refs = np.ascontiguousarray(keys[which.reshape(-1)].reshape(len(rows), 2))
    if stats["unit_exponent"] is not None:
        target.table.restore_unit(stats["unit_exponent"])
    for some in pieces(0, len(rows), target.schema.row_stride):
        target.table.import_rows(_other_fields(rows[some], source.schema, target.schema), leaves[some], refs[some])
    next_slot = stats["next_slot"] if len(rows) == target.capacity else len(rows)
    target.table.restore(stats["max_priority"], stats["random_block"], stats["num_inserted"], next_slot)
    target.table.set_alpha(alpha, False)


def _require_fit(source: Side, target: Side) -> None:
    """Refuse what cannot be converted."""
    one_step = source.schema.steps == target.schema.steps == 1
    if not one_step:
        raise InvalidInput(
            "take_over: expected replays of transitions, got one of sequences; have the observations of each sample "
            "changed instead"
        )
    if source.schema.frame_stack < 1 or target.schema.frame_stack != 1:
        raise InvalidInput(
            "take_over: expected a replay whose observations are shared (share_next_obs, frame_stack), and a target "
            "with share_next_obs and without a stack"
        )
    if source.capacity != target.capacity:
        wanted, got = target.capacity, source.capacity
        raise InvalidInput(f"take_over: expected a source of capacity {wanted}, as this, got {got}")
    if num_rows := target.table.size():
        raise InvalidInput(f"take_over: expected this replay to be empty, got {num_rows} rows; make a new one")
    mine, other = (
        {f"{f.name} {f.dtype}{list(f.shape)}" for f in side.schema.fields if not _is_obs(f.name)}
        for side in (target, source)
    )
    if mine != other:
        raise InvalidInput(
            "take_over: expected a source with the same fields but for obs; only here are "
            f"{_listed(mine - other)}, only there {_listed(other - mine)}"
        )


def _listed(fields: set[str]) -> str:
    return ", ".join(sorted(fields)) or "none"


def _is_obs(name: str) -> bool:
    return name.split("/")[0] in ("obs", "next_obs")


def _rows(side: Side, alpha: float, oldest: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32]]:
    """Bytes of all whole rows, and their leaves by alpha: oldest first, or by their slots where every slot has one."""
    rows = np.empty((side.capacity, side.schema.row_stride - _native.ROW_HEADER_NBYTES), np.uint8)
    leaves, generations = np.empty(side.capacity, np.float32), np.empty(side.capacity, np.uint32)
    for some in pieces(0, side.capacity, side.schema.row_stride):
        side.table.export_rows(some.start, alpha, rows[some], leaves[some], generations[some])
    if generations.all():
        return rows, leaves
    slots = np.roll(np.arange(side.capacity), -oldest)
    slots = slots[generations[slots] > 0]
    return rows[slots], leaves[slots]


def _observations(side: Side, stacks: npt.NDArray[np.uint32]) -> Any:
    """The observations that consist of these frames [N, k]: [N, *shape], nested as in the spec."""
    slots, which = np.unique(stacks, return_inverse=True)
    frames = np.empty((len(slots), side.schema.frame_stride), np.uint8)
    side.table.export_frames(slots, frames, np.empty(len(slots), np.uint32))
    stacked = frames[which.reshape(stacks.shape)]
    arrays: dict[str, npt.NDArray[Any]] = {}
    for field in side.schema.fields:
        if field.kind == FRAMES:
            nbytes = field.step_nbytes // side.schema.frame_stack
            part = np.ascontiguousarray(stacked[:, :, field.offset : field.offset + nbytes])
            arrays[field.name] = part.view(field.dtype).reshape(len(stacks), *field.shape)
    return side.schema.as_declared(side.schema.nested(arrays))["obs"]


def _store(side: Side, observations: Any, count: int) -> npt.NDArray[np.uint64]:
    """Put observations behind those that the table has: their keys."""
    fields = {field.name: field for field in side.schema.fields if field.kind == FRAMES}
    arrays = side.schema.flatten({"obs": observations})
    if arrays.keys() != fields.keys():
        raise InvalidInput(
            f"take_over: expected change to return {', '.join(fields)}, got {', '.join(arrays) or 'nothing'}"
        )
    frames = np.zeros((count, side.schema.frame_stride), np.uint8)
    for name, field in fields.items():
        array = np.asarray(arrays[name])
        if array.shape != (count, *field.shape) or array.dtype != field.dtype:
            wanted, got = [count, *field.shape], list(array.shape)
            raise InvalidInput(
                f"take_over: expected change to return {name} as {field.dtype}{wanted}, got {array.dtype}{got}"
            )
        whole = np.ascontiguousarray(array).reshape(count, -1)
        frames[:, field.offset : field.offset + field.step_nbytes] = whole.view(np.uint8)
    keys = np.empty(count, np.uint64)
    side.table.import_frames(frames, keys)
    return keys


def _other_fields(rows: npt.NDArray[np.uint8], source: Schema, target: Schema) -> npt.NDArray[np.uint8]:
    """Rows of the target with all that does not lie in frames; their links are filled in as they are imported."""
    converted = np.zeros((len(rows), target.row_stride - _native.ROW_HEADER_NBYTES), np.uint8)
    places = {field.name: field.offset for field in source.fields}
    for field in target.fields:
        if not field.is_framed:
            start = places[field.name]
            converted[:, field.offset : field.offset + field.nbytes] = rows[:, start : start + field.nbytes]
    return converted
