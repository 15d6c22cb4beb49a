"""Sorts without ties: where rows differ, any network of exchanges sorts them as a stable sort does.

A sort by keys becomes one by int32 keys in the same order, and then by the places that rows come from. A key of at most
16 bits and the place are one number, and so are floats that are sorted alone: of these, XLA's order tells apart neither
zeros of both signs nor NaN, which stay as they came.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from drivetrain.sim.ir.build import Builder
from drivetrain.sim.ir.evaluate import affine_positions
from drivetrain.sim.ir.passes.dead_code import uses_of
from drivetrain.sim.ir.program import Block, Op, Value, map_regions, remade

NARROW = ("bool", "int8", "int16", "uint8", "uint16")
MOST_PACKED = 1 << 15
"""Elements of a row whose places fit beside a narrow key."""
CODED = range(9, 1 << 20)
"""Floats of a row that are coded and decoded; of fewer it is less to exchange places beside them, more have no code."""
LEAST, MOST, NAN = -(2**31), 2**31 - 1, 0x7FC00000


def merge_exchange(size: int) -> Iterator[tuple[int, int]]:
    """Pairs of places to compare, and to exchange where the first is the larger, until a row is in order.

    Batcher's merge exchange: about n log(n)^2 / 4 pairs, 19 of 8 elements and 191 of 32.
    Source: Knuth, The Art of Computer Programming, volume 3, 5.2.2, algorithm M.
    """
    half = 1 << max(size - 1, 0).bit_length() >> 1
    p = half
    while p:
        q, rest, apart = half, 0, p
        while True:
            yield from ((k, k + apart) for k in range(size - apart) if k & p == rest)
            if q == p:
                break
            apart, q, rest = q - p, q // 2, p
        p //= 2


def untie(block: Block) -> Block:
    """The block with sorts in which all rows differ, or equal ones are the same; in regions too."""
    builder = Builder()
    makers = {value: op for op in block.ops for value in op.outputs}
    used = uses_of(block)
    for old in block.ops:
        builder.where, op = old.where, map_regions(old, untie)
        if op.name != "sort" or op.outputs[0].shape[-1] < 2 or is_of_numbers(op):
            builder.ops.append(op)
        elif len(op.inputs) == 1 and op.outputs[0].shape[-1] in CODED:
            _sort_floats(builder, op)
        else:
            _sort_by_place(builder, op, [_are_places(makers, value) for value in op.inputs], used)
    return remade(block, builder.ops, {})


def is_of_numbers(op: Op) -> bool:
    """Whether a sort has one column of which equal elements are the same."""
    return len(op.inputs) == 1 and op.inputs[0].dtype != "float32"


def _sort_floats(b: Builder, op: Op) -> None:
    """Floats alone: what is below zero, zeros as they came, what is above, and NaN as it came.

    NaN keeps its sign; its other bits become those of `jnp.nan`, which are what arithmetic gives.
    """
    (x,), shape = op.inputs, op.outputs[0].shape
    zero, least, nan, all_but_one = (b.const(np.int32(k)) for k in (0, LEAST, NAN, 31))
    last = b.const(np.int32(2 * shape[-1] - 1))
    bits = b.emit("bitcast", (x,), shape, "int32")
    place = b.const(2 * _places(shape))
    place = b.elementwise("sub", place, b.elementwise("shr_arithmetic", bits, all_but_one))  # odd where negative
    falling, rising = b.elementwise("sub", least, bits), b.elementwise("add", bits, last)
    code = b.elementwise("select", b.elementwise("lt", bits, zero), falling, rising)
    code = b.elementwise("select", b.elementwise("eq", x, b.const(np.float32(0))), place, code)
    code = b.elementwise("select", b.elementwise("ne", x, x), b.elementwise("add", place, nan), code)
    (code,) = b.emit_regions("sort", [code], [code], (), num_keys=1)
    sign = b.elementwise("shl", code, all_but_one)
    rising, of_nan = b.elementwise("sub", code, last), b.elementwise("or", sign, nan)
    bits = b.elementwise("select", b.elementwise("lt", code, nan), rising, of_nan)
    bits = b.elementwise("select", b.elementwise("le", code, last), sign, bits)
    bits = b.elementwise("select", b.elementwise("lt", code, zero), b.elementwise("sub", least, code), bits)
    b.ops.append(Op("bitcast", (bits,), op.outputs, {}, (), op.where))


def _sort_by_place(b: Builder, op: Op, are_places: list[bool], used: set[Value]) -> None:
    """By keys, and then by the place that a row comes from; what nobody uses stays away."""
    num_keys, shape = op.attrs["num_keys"], op.outputs[0].shape
    places = [value for value, is_place in zip(op.outputs, are_places, strict=True) if is_place and value in used]
    moved = [k for k, value in enumerate(op.outputs) if value in used and not are_places[k]]
    own = b.const(_places(shape))
    if num_keys == 1 and op.outputs[0].dtype in NARROW and shape[-1] <= MOST_PACKED:
        width = (shape[-1] - 1).bit_length()
        key = b.elementwise("shl", b.convert(op.inputs[0], "int32"), b.const(np.int32(width)))
        keys = [b.elementwise("or", key, own)]
    else:
        width, keys = 31, [*(_key(b, x) for x in op.inputs[:num_keys]), own]
    fresh = [Value(shape, "int32") for _ in keys]
    columns = (*keys, *(op.inputs[k] for k in moved))
    outputs = (*fresh, *(op.outputs[k] for k in moved))
    b.ops.append(Op("sort", columns, outputs, {"num_keys": len(keys)}, (), op.where))
    for value in places:
        mask = b.full(shape, (1 << width) - 1, "int32")
        b.ops.append(Op("and", (fresh[-1], mask), (value,), {}, (), op.where))


def _places(shape: Sequence[int]) -> npt.NDArray[np.int32]:
    """The place of every element in its row."""
    return np.broadcast_to(np.arange(shape[-1], dtype=np.int32), shape)


def _are_places(makers: Mapping[Value, Op], value: Value) -> bool:
    """Whether a column holds nothing but the place of each row."""
    op = makers.get(value)
    if op is None or value.dtype != "int32":
        return False
    if op.name == "const":
        return bool((op.attrs["value"] == _places(value.shape)).all())
    source = makers.get(op.inputs[0]) if op.name == "view" else None
    if source is None or source.name != "const":
        return False
    found = affine_positions(value.shape, op.attrs["offset"], op.attrs["strides"])
    return bool((source.attrs["value"].reshape(-1)[found] == _places(value.shape)).all())


def _key(b: Builder, x: Value) -> Value:
    """int32 in the same order; NaN last and equal to itself, zeros of both signs equal."""
    if x.dtype == "uint32":
        return b.elementwise("xor", b.emit("bitcast", (x,), x.shape, "int32"), b.const(np.int32(LEAST)))
    if x.dtype != "float32":
        return b.convert(x, "int32")
    bits = b.emit("bitcast", (x,), x.shape, "int32")
    falling = b.elementwise("sub", b.const(np.int32(LEAST)), bits)
    key = b.elementwise("select", b.elementwise("lt", bits, b.const(np.int32(0))), falling, bits)
    return b.elementwise("select", b.elementwise("ne", x, x), b.const(np.int32(MOST)), key)
