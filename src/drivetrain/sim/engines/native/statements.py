"""Operations with loops of their own, as C++: puts, reductions, sorts and the like."""

from collections.abc import Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np

from drivetrain.sim.engines.native.dot import write_dot
from drivetrain.sim.engines.native.emitter import Emitter, Writer, owned_here
from drivetrain.sim.engines.native.expressions import compared, constant, expression, vector
from drivetrain.sim.engines.native.position import Index, Position, flat
from drivetrain.sim.ir.program import Op, Value, repeated_scalar

LEAST_PUT = 8
"""Elements of a put under a scalar mask that make it worth asking first whether any lane is meant."""
ASKED_EVERY = 16
"""Elements of an `any` or `all` after which to ask whether all lanes know the answer."""
MOST_PICKED = 16
"""Choices of a `pick` that become selects; more go through memory."""


def _threefry(at: Emitter, op: Op, _: str) -> None:
    def write(position: Position) -> str:
        words = at.new("w")
        at.line(f"const Words {words} = threefry({', '.join(at.element(value, position) for value in op.inputs)});")
        return words

    if not op.outputs[0].shape:
        words = write([])
        at.names.update(zip(op.outputs, (f"{words}.x", f"{words}.y"), strict=True))
        return
    names = [at.buffer(value) for value in op.outputs]
    with at.loops(op.outputs[0].shape) as index:
        words = write(index)
        place = flat(op.outputs[0], index)
        at.line(f"{names[0]}[{place}] = {words}.x, {names[1]}[{place}] = {words}.y;")
    at.names.update(zip(op.outputs, names, strict=True))


def _stack(at: Emitter, op: Op, _: str) -> None:
    name = at.buffer(op.out)
    for k, value in enumerate(op.inputs):
        at.line(f"{name}[{k}] = {at.scalar(value)};")
    at.names[op.out] = name


def _concat(at: Emitter, op: Op, _: str) -> None:
    axis: int = op.attrs["axis"]
    name, start = at.buffer(op.out), 0
    for part in op.inputs:
        with at.loops(part.shape) as index:
            moved = [i + Index(start=start) if k == axis else i for k, i in enumerate(index)]
            at.line(f"{name}[{flat(op.out, moved)}] = {at.element(part, index)};")
        start += part.shape[axis]
    at.names[op.out] = name


def _pick(at: Emitter, op: Op, _: str) -> None:
    index, *choices = op.inputs
    place, kind = at.scalar(index), vector(op.out.dtype)
    numbers = [at.numbers.get(choice) for choice in choices]
    if len(choices) > 4 and all(number is not None for number in numbers):
        table = at.static_table(np.asarray(numbers), op.out.dtype)
        text = f"lookup<{kind}>({table}, {place})"
    elif len(choices) <= MOST_PICKED:
        text = at.scalar(choices[-1])
        for k, choice in reversed(list(enumerate(choices[:-1]))):
            text = at.let(op.out.dtype, f"sel((vi)({place} == {k}), {at.scalar(choice)}, {text})")
    else:
        name = at.new("a")
        at.line(f"const {kind} {name}[] = {{{', '.join(map(at.scalar, choices))}}};")
        uniform = at.uniform(index, [])
        text = f"{name}[{uniform}]" if uniform else f"gather({name}, {place})"
    at.names[op.out] = at.let(op.out.dtype, text)


def _put(at: Emitter, op: Op, _: str) -> None:
    x, *others = op.inputs
    name = at.names.get(x, "")  # a table has none
    if x in others or not (name in at.writable and at.plan.is_last_read(x, op) and owned_here(at, x)):
        name = at.buffer(op.out)
        at.copy(x, name)
    put_into(at, name, op)
    at.names[op.out] = name


def put_into(at: Emitter, name: str, op: Op, within: str = "") -> None:
    """A put into memory that holds its array, in the lanes of a mask where one is given."""
    _, index, updates, mask = op.inputs
    always = at.number_of(mask)
    seldom = "" if always else scalar_mask(at, mask)
    with at.branch(seldom if index.size >= LEAST_PUT else ""), at.loops(index.shape) as position:
        new = at.element(updates, position)
        uniform = at.uniform(index, position)
        place = uniform or at.element(index, position)
        old = f"{name}[{place}]" if uniform else f"gather({name}, {place})"
        if op.attrs["kind"] != "set":
            new = at.let(op.out.dtype, combined(op.attrs["kind"], op.out, old, new))
        allowed = " & ".join(filter(None, ("" if always else at.element(mask, position), within)))
        if uniform:
            at.line(f"{name}[{place}] = {f'sel({allowed}, {new}, {old})' if allowed else new};")
        else:
            at.line(f"scatter({name}, {place}, {new}, {allowed or 'i_(-1)'});")


def scalar_mask(at: Emitter, mask: Value) -> str:
    """The name of the scalar that a mask repeats; empty if it does not repeat one."""
    if not mask.shape:
        return at.scalar(mask)
    scalar = None if mask in at.names else repeated_scalar(at.maker(mask))
    return "" if scalar is None else at.scalar(scalar)


START = {"sum": 0, "prod": 1, "and": -1, "or": 0, "xor": 0}
STEP = {"sum": "add", "prod": "mul"}


def combined(kind: str, like: Value, x: str, y: str) -> str:
    """Two elements of an array like this one as one, as C++."""
    return expression(Op(STEP.get(kind, kind), (like, like), (like,)), [x, y], [None, None])


def _reduce(at: Emitter, op: Op, _: str) -> None:
    if not op.out.shape:
        at.names[op.out] = row_reduced(at, op, [])
        return
    name = at.buffer(op.out)
    with at.loops(op.out.shape) as index:
        at.line(f"{name}[{flat(op.out, index)}] = {row_reduced(at, op, index)};")
    at.names[op.out] = name


def row_reduced(at: Emitter, op: Op, outer: Sequence[Index]) -> str:
    """The name of a variable that holds a reduced row."""
    (x,) = op.inputs
    kind: str = op.attrs["kind"]
    if kind in ("argmax", "argmin"):
        return argument(at, op, outer)
    if x.dtype == "bool":
        kind = {"sum": "or", "max": "or", "prod": "and", "min": "and"}.get(kind, kind)
    total, dtype = at.new("r"), op.out.dtype
    first = 0 if kind in START else 1
    start = constant(START[kind], dtype) if first == 0 else at.element(x, [*outer, Index()])
    if dtype == "bool":
        start = constant(bool(START[kind]), dtype)
    at.line(f"{vector(dtype)} {total} = {start};")
    undecided = {"or": f"~{total}", "and": total}.get(kind, "") if dtype == "bool" else ""
    with row(at, first, x.shape[-1], undecided) as name:
        each = at.element(x, [*outer, Index({name: 1})])
        at.line(f"{total} = {combined(kind, op.out, total, each)};")
    return total


@contextmanager
def row(at: Emitter, first: int, size: int, undecided: str = "") -> Any:
    """A loop over a row; the index. A long one ends where no lane is undecided any more, if that is given."""
    name = at.new("i")
    if not undecided or size < 2 * ASKED_EVERY:
        with at.braces(f"for (int {name} = {first}; {name} < {size}; ++{name})"):
            yield name
        return
    part = at.new("i")
    with at.braces(f"for (int {part} = {first}; {part} < {size} && any({undecided}); {part} += {ASKED_EVERY})"):
        end = f"{part} + {ASKED_EVERY} < {size} ? {part} + {ASKED_EVERY} : {size}"
        with at.braces(f"for (int {name} = {part}; {name} < ({end}); ++{name})"):
            yield name


def argument(at: Emitter, op: Op, outer: Sequence[Index]) -> str:
    """The first index of the largest or smallest element of a row; NaN counts as either."""
    (x,) = op.inputs
    best, where, name = at.new("r"), at.new("r"), at.new("i")
    at.line(f"{vector(x.dtype)} {best} = {at.element(x, [*outer, Index()])};")
    at.line(f"vi {where} = i_(0);")
    with at.braces(f"for (int {name} = 1; {name} < {x.shape[-1]}; ++{name})"):
        each = at.element(x, [*outer, Index({name: 1})])
        sign = ">" if (op.attrs["kind"] == "argmax") else "<"
        cast = "(vu)" if x.dtype == "bool" else ""
        nan = f" | (({each} != {each}) & ({best} == {best}))" if x.dtype == "float32" else ""
        better = at.let("int32", f"(vi)({cast}{each} {sign} {cast}{best}){nan}")
        at.line(f"{where} = sel({better}, i_({name}), {where});")
        at.line(f"{best} = sel({better}, {each}, {best});")
    return where


def _cumulate(at: Emitter, op: Op, _: str) -> None:
    (x,) = op.inputs
    kind: str = op.attrs["kind"]
    name, row = at.buffer(op.out), op.out.shape[-1]
    with at.loops(op.out.shape[:-1]) as outer:
        first = flat(op.out, [*outer, Index()])
        at.line(f"{name}[{first}] = {at.element(x, [*outer, Index()])};")
        i = at.new("i")
        with at.braces(f"for (int {i} = 1; {i} < {row}; ++{i})"):
            here = [*outer, Index({i: 1})]
            place = flat(op.out, here)
            each = at.element(x, here)
            at.line(f"{name}[{place}] = {combined(kind, op.out, f'{name}[{place} - 1]', each)};")
    at.names[op.out] = name


def _sort(at: Emitter, op: Op, _: str) -> None:
    """Batcher's merge exchange of rows that differ or are the same (`ir/passes/sorting.py`); alike in every lane."""
    names = [at.buffer(value) for value in op.outputs]
    for value, name in zip(op.inputs, names, strict=True):
        at.copy(value, name)
    size, num_rows = op.inputs[0].shape[-1], prod(op.inputs[0].shape[:-1])
    half = 1 << max(size - 1, 0).bit_length() >> 1
    row, p, q, rest, apart, begin, i = (at.new("i") for _ in range(7))
    rows = f"for (int {row} = 0; {row} < {num_rows * size}; {row} += {size})"
    steps = f"for (int {p} = {half}; {p} > 0; {p} /= 2)"
    first, then = f"{q} = {half}, {rest} = 0, {apart} = {p}", f"{apart} = {q} - {p}, {q} /= 2, {rest} = {p}"
    parts = f"for (int {begin} = {rest}; {begin} + {apart} < {size}; {begin} += 2 * {p})"
    each = f"for (int {i} = {row} + {begin}; {i} < {row} + {begin} + {p} && {i} + {apart} < {row} + {size}; ++{i})"
    with at.braces(f"{rows} {steps} for (int {first}; {apart} > 0; {then}) {parts} {each}"):
        places, columns = (f"{i}", f"{i} + {apart}"), list(zip(op.inputs, names, strict=True))
        pairs = [[at.let(value.dtype, f"{name}[{place}]") for place in places] for value, name in columns]
        swap = ""
        for value, pair in reversed(list(zip(op.inputs[: op.attrs["num_keys"]], pairs, strict=False))):
            greater, equal = compared("gt", pair, value.dtype), compared("eq", pair, value.dtype)
            swap = at.let("int32", f"{greater} | ({equal} & {swap})" if swap else greater)
        for name, (x, y) in zip(names, pairs, strict=True):
            at.line(f"{name}[{i}] = sel({swap}, {y}, {x}), {name}[{i} + {apart}] = sel({swap}, {x}, {y});")
    at.names.update(zip(op.outputs, names, strict=True))


STATEMENTS: dict[str, Writer] = {
    "threefry": _threefry, "stack": _stack, "concat": _concat, "pick": _pick, "put": _put, "reduce": _reduce,
    "cumulate": _cumulate, "sort": _sort, "dot": write_dot,
}  # fmt: skip
