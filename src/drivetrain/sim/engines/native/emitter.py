"""Writes a block as C++: scalars as vectors of lanes, arrays as loops over buffers of such vectors.

    scalar               const vf v7 = v3 + v5;
    array with memory    vf a9[100]; for (int i = 0; ...) a9[i] = ...;
    array without        its elements appear inside the loop that reads them (plan.py)
    if                   if (any(p)) { ... } and a blend of the lanes
    while                until no lane goes on
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np

from drivetrain.sim.engines.native.expressions import ELEMENT, constant, expression, vector
from drivetrain.sim.engines.native.plan import Plan, dimension_map
from drivetrain.sim.ir.build import row_major
from drivetrain.sim.ir.ops import ELEMENTWISE
from drivetrain.sim.ir.program import Block, Op, Value, outer_uses

MOST_PICKED = 16
"""Choices of a `pick` that become selects; more go through memory."""


class Index:
    """A position: constants and loop variables with factors."""

    def __init__(self, terms: dict[str, int] | None = None, start: int = 0) -> None:
        """start + sum of variable times factor."""
        self.terms, self.start = terms or {}, start

    def __add__(self, other: "Index") -> "Index":
        terms = dict(self.terms)
        for name, factor in other.terms.items():
            terms[name] = terms.get(name, 0) + factor
        return Index(terms, self.start + other.start)

    def times(self, factor: int) -> "Index":
        """All of it times a number."""
        return Index({name: old * factor for name, old in self.terms.items()}, self.start * factor)

    def __str__(self) -> str:
        parts = [name if factor == 1 else f"{name} * {factor}" for name, factor in self.terms.items() if factor]
        return " + ".join(parts + ([str(self.start)] if self.start or not parts else []))


Position = Sequence[Index] | Index
"""One index per dimension, or one into the flat array."""


class Emitter:
    """Collects lines; knows the C++ name of every value."""

    def __init__(self) -> None:
        """Nothing is written."""
        self.lines: list[str] = []
        self.depth = 0
        self.names: dict[Value, str] = {}
        self.numbers: dict[Value, Any] = {}
        self.tables: dict[Value, str] = {}
        self.table_lines: list[str] = []
        self.writable: set[str] = set()
        self.plans: list[Plan] = []
        self.own_inputs: set[Value] = set()
        self.count = 0
        self.scratch_nbytes = 0

    # ---- text ----------------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        """One line."""
        self.lines.append("  " * self.depth + text)

    @contextmanager
    def braces(self, head: str = "") -> Any:
        """A block of C++."""
        self.line(f"{head} {{".strip())
        self.depth += 1
        yield
        self.depth -= 1
        self.line("}")

    def new(self, prefix: str = "v") -> str:
        """A name that nothing else has."""
        self.count += 1
        return f"{prefix}{self.count}"

    def let(self, dtype: str, text: str) -> str:
        """A constant of an expression; its name."""
        name = self.new()
        self.line(f"const {vector(dtype)} {name} = {text};")
        return name

    def buffer(self, value: Value) -> str:
        """Memory for an array, of this block's own."""
        name = self.new("a")
        self.line(f"{vector(value.dtype)} {name}[{max(value.size, 1)}];")
        self.scratch_nbytes += value.size * 4
        self.writable.add(name)
        return name

    @contextmanager
    def loops(self, shape: Sequence[int]) -> Any:
        """Nested loops over a shape; the index of each dimension."""
        index: list[Index] = []
        opened = 0
        for size in shape:
            if size == 1:
                index.append(Index())
                continue
            name = self.new("i")
            self.line(f"for (int {name} = 0; {name} < {size}; ++{name}) {{")
            self.depth += 1
            opened += 1
            index.append(Index({name: 1}))
        yield index
        for _ in range(opened):
            self.depth -= 1
            self.line("}")

    @property
    def plan(self) -> Plan:
        """That of the innermost block."""
        return self.plans[-1]

    # ---- reading values ------------------------------------------------------------------------------------

    def scalar(self, value: Value) -> str:
        """The name of a scalar."""
        if value in self.numbers:
            return constant(self.numbers[value], value.dtype)
        return self.names[value]

    def maker(self, value: Value) -> Op | None:
        """The operation that makes an array without memory, in whichever block."""
        for plan in reversed(self.plans):
            if value in plan.makers:
                return plan.makers[value]
        return None

    def element(self, value: Value, position: Position) -> str:
        """The element of a value at a position, computed here if it has no memory."""
        if not value.shape:
            return self.scalar(value)
        if value in self.names:
            return f"{self.names[value]}[{flat(value, position)}]"
        op = self.maker(value)
        assert op is not None, f"{value} has neither memory nor maker"
        if op.name == "const":
            return constant_at(self.table(op), value.dtype, str(flat(value, position)))
        if op.name == "view":
            return self.viewed(op, position)
        if op.name == "take":
            return self.let(value.dtype, self.taken(op, position))
        inputs = [self.element(part, position) for part in op.inputs]
        return self.let(value.dtype, expression(op, inputs, [self.number_of(part) for part in op.inputs]))

    def number_of(self, value: Value) -> Any:
        """The number that a value is everywhere, or None."""
        if value in self.numbers:
            return self.numbers[value]
        op = self.maker(value)
        return self.number_of(op.inputs[0]) if op is not None and op.name == "view" and not op.inputs[0].shape else None

    def viewed(self, op: Op, position: Position) -> str:
        """An element of a view."""
        (x,) = op.inputs
        if not x.shape:
            return self.scalar(x)
        if isinstance(position, Index) and set(op.attrs["strides"]) <= {0}:
            index = Index(start=op.attrs["offset"])
            return self.element(x, index if x in self.names else unflat(x, op.attrs["offset"]))
        assert not isinstance(position, Index) or not op.out.shape, "a view needs an index per dimension"
        parts: Sequence[Index] = [] if isinstance(position, Index) else position
        if x in self.names or self.is_table(x):
            index = Index(start=op.attrs["offset"])
            for part, stride in zip(parts, op.attrs["strides"], strict=True):
                index += part.times(stride)
            return self.element(x, index)
        mapped = dimension_map(op)
        assert mapped is not None
        dims = [sum((parts[dim].times(step) for dim, step in runs), Index(start=start)) for _, start, runs in mapped]
        return self.element(x, dims)

    def is_table(self, value: Value) -> bool:
        """Whether an array is constant."""
        op = self.maker(value)
        return op is not None and op.name == "const"

    def table(self, op: Op) -> str:
        """A constant array as a static table of numbers; Booleans as 0 and -1."""
        if op.out not in self.tables:
            self.tables[op.out] = self.static_table(op.attrs["value"], op.out.dtype)
        return self.tables[op.out]

    def static_table(self, array: Any, dtype: str) -> str:
        """A static table; its name."""
        name = self.new("c")
        texts = [constant(number, dtype)[3:-1] for number in array.reshape(-1)]
        kind = "int32_t" if dtype == "bool" else ELEMENT[dtype]
        self.table_lines.append(f"static const {kind} {name}[{len(texts)}] = {{{', '.join(texts)}}};")
        return name

    def taken(self, op: Op, position: Position) -> str:
        """An element of a take."""
        x, index = op.inputs
        source = self.maker(x)
        if self.is_table(index) and x in self.names:
            return f"{self.names[x]}[{self.table(self.must_make(index))}[{flat(index, position)}]]"
        place = self.element(index, position)
        if source is not None and source.name == "const":
            return f"lookup<{vector(x.dtype)}>({self.table(source)}, {place})"
        return f"gather({self.names[x]}, {place})"

    def must_make(self, value: Value) -> Op:
        """The operation that makes a value; there is one."""
        op = self.maker(value)
        assert op is not None
        return op

    # ---- writing operations --------------------------------------------------------------------------------

    def block(self, block: Block, mask: str = "") -> None:
        """All operations of a block.

        Args:
            mask: Name of the mask of lanes that run it; empty for all.
        """
        self.plans.append(Plan(block))
        for op in block.ops:
            self.op(op, mask)
        for value in block.outputs:
            self.give_memory(value)

    def give_memory(self, value: Value) -> None:
        """Make sure that an array lies in memory."""
        if value.shape and value not in self.names:
            name = self.buffer(value)
            self.fill(value, name)
            self.names[value] = name

    def op(self, op: Op, mask: str) -> None:
        """One operation; nothing for arrays that need no memory."""
        if op.name == "const":
            if not op.out.shape:
                self.numbers[op.out] = op.attrs["value"].reshape(-1)[0]
            return
        if len(op.outputs) == 1 and op.out in self.plan.virtual:
            self.memory_for_inputs(op)
            return
        if op.regions:
            for value in op.inputs:
                self.give_memory(value)
            REGIONS[op.name](self, op, mask)
            return
        self.memory_for_inputs(op)
        if op.name in STATEMENTS:
            STATEMENTS[op.name](self, op)
        elif op.out.shape:
            self.give_memory(op.out)
        elif op.name in ELEMENTWISE:
            inputs = [self.scalar(value) for value in op.inputs]
            numbers = [self.number_of(value) for value in op.inputs]
            self.names[op.out] = self.let(op.out.dtype, expression(op, inputs, numbers))
        elif op.name == "view":
            self.names[op.out] = self.let(op.out.dtype, self.viewed(op, []))
        elif op.name == "take":
            self.names[op.out] = self.let(op.out.dtype, self.taken(op, []))
        else:
            raise AssertionError(f"no way to write {op.name}")

    def memory_for_inputs(self, op: Op) -> None:
        """Arrays that are read at computed places lie in memory."""
        needs = {"take": op.inputs[:1], "put": op.inputs[:1], "sort": op.inputs}.get(op.name, ())
        for value in needs:
            if not (op.name == "take" and self.is_table(value)):
                self.give_memory(value)

    def fill(self, value: Value, name: str) -> None:
        """Compute every element of an array into memory, by one loop where a flat index is enough."""
        op = self.maker(value)
        assert op is not None, f"{value} has no maker"
        if op.name == "const":
            with self.loops([value.size]) as (index,):
                self.line(f"{name}[{index}] = {constant_at(self.table(op), value.dtype, str(index))};")
            return
        inputs = op.inputs[1:] if op.name == "take" else op.inputs
        if op.name != "view" and all(self.plan.is_flat(part, self.names) for part in inputs):
            with self.loops([value.size]) as (index,):
                self.line(f"{name}[{index}] = {self.computed(op, index)};")
            return
        with self.loops(value.shape) as index:
            self.line(f"{name}[{flat(value, index)}] = {self.computed(op, index)};")

    def computed(self, op: Op, position: Position) -> str:
        """An element of an operation's output, from its inputs."""
        if op.name == "view":
            return self.viewed(op, position)
        if op.name == "take":
            return self.taken(op, position)
        inputs = [self.element(part, position) for part in op.inputs]
        return expression(op, inputs, [self.number_of(part) for part in op.inputs])

    def copy(self, value: Value, name: str) -> None:
        """Copy an array in memory to other memory."""
        with self.loops([value.size]) as (index,):
            self.line(f"{name}[{index}] = {self.element(value, index)};")


def flat(value: Value, position: Position) -> Index:
    """A position as one index into the flat array."""
    if isinstance(position, Index):
        return position
    return sum((part.times(s) for part, s in zip(position, row_major(value.shape), strict=True)), Index())


def unflat(value: Value, place: int) -> list[Index]:
    """A flat position as an index per dimension."""
    return [Index(start=int(part)) for part in np.unravel_index(place, value.shape)]


def constant_at(table: str, dtype: str, index: str) -> str:
    """An element of a static table in every lane."""
    kind = {"vf": "f_", "vi": "i_", "vu": "u_"}[vector(dtype)]
    return f"{kind}({table}[{index}])"


# ---- operations with loops of their own ------------------------------------------------------------------


def _threefry(at: Emitter, op: Op) -> None:
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


def _stack(at: Emitter, op: Op) -> None:
    name = at.buffer(op.out)
    for k, value in enumerate(op.inputs):
        at.line(f"{name}[{k}] = {at.scalar(value)};")
    at.names[op.out] = name


def _concat(at: Emitter, op: Op) -> None:
    name, axis, start = at.buffer(op.out), op.attrs["axis"], 0
    for part in op.inputs:
        with at.loops(part.shape) as index:
            moved = [i + Index(start=start) if k == axis else i for k, i in enumerate(index)]
            at.line(f"{name}[{flat(op.out, moved)}] = {at.element(part, index)};")
        start += part.shape[axis]
    at.names[op.out] = name


def _pick(at: Emitter, op: Op) -> None:
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
        text = f"gather({name}, {place})"
    at.names[op.out] = at.let(op.out.dtype, text)


def _put(at: Emitter, op: Op) -> None:
    x, index, updates, mask = op.inputs
    name = at.names[x]
    if not (name in at.writable and at.plan.is_last_read(x, op) and owned_here(at, x)):
        name = at.buffer(op.out)
        at.copy(x, name)
    always = at.number_of(mask)
    with at.loops(index.shape) as position:
        new = at.element(updates, position)
        uniform = uniform_place(at, index, position)
        place = uniform or at.element(index, position)
        old = f"{name}[{place}]" if uniform else f"gather({name}, {place})"
        if op.attrs["kind"] != "set":
            new = at.let(op.out.dtype, expression(Op(op.attrs["kind"], (op.out, op.out), (op.out,)), [old, new], [None] * 2))
        allowed = "" if always else at.element(mask, position)
        if uniform:
            at.line(f"{name}[{place}] = {f'sel({allowed}, {new}, {old})' if allowed else new};")
        else:
            at.line(f"scatter({name}, {place}, {new}, {allowed or 'i_(-1)'});")
    at.names[op.out] = name


def owned_here(at: Emitter, value: Value) -> bool:
    """Whether memory belongs to the innermost block: what lies outside may be needed again."""
    return value in at.plan.makers or value in at.own_inputs


def uniform_place(at: Emitter, index: Value, position: Position) -> str:
    """A place that is the same in all lanes, as an integer expression; empty where lanes differ."""
    if not index.shape:
        return str(int(at.numbers[index])) if index in at.numbers else ""
    op = at.maker(index)
    if index in at.names or op is None or op.name != "const":
        return ""
    return f"{at.table(op)}[{flat(index, position)}]"


START = {"sum": 0, "prod": 1, "and": -1, "or": 0, "xor": 0}
STEP = {"sum": "add", "prod": "mul"}


def _reduce(at: Emitter, op: Op) -> None:
    (x,) = op.inputs
    if not op.out.shape:
        at.names[op.out] = row_reduced(at, op, [])
        return
    name = at.buffer(op.out)
    with at.loops(op.out.shape) as index:
        at.line(f"{name}[{flat(op.out, index)}] = {row_reduced(at, op, index)};")
    at.names[op.out] = name


def row_reduced(at: Emitter, op: Op, outer: Sequence[Index]) -> str:
    """The name of a variable that holds a reduced row."""
    (x,), kind = op.inputs, op.attrs["kind"]
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
    name = at.new("i")
    with at.braces(f"for (int {name} = {first}; {name} < {x.shape[-1]}; ++{name})"):
        each = at.element(x, [*outer, Index({name: 1})])
        step = Op(STEP.get(kind, kind), (op.out, op.out), (op.out,))
        at.line(f"{total} = {expression(step, [total, each], [None, None])};")
    return total


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


def _cumulate(at: Emitter, op: Op) -> None:
    (x,), kind = op.inputs, op.attrs["kind"]
    name, row = at.buffer(op.out), op.out.shape[-1]
    step = Op(STEP.get(kind, kind), (op.out, op.out), (op.out,))
    with at.loops(op.out.shape[:-1]) as outer:
        first = flat(op.out, [*outer, Index()])
        at.line(f"{name}[{first}] = {at.element(x, [*outer, Index()])};")
        i = at.new("i")
        with at.braces(f"for (int {i} = 1; {i} < {row}; ++{i})"):
            here = [*outer, Index({i: 1})]
            place = flat(op.out, here)
            each = at.element(x, here)
            at.line(f"{name}[{place}] = {expression(step, [f'{name}[{place} - 1]', each], [None, None])};")
    at.names[op.out] = name


def _sort(at: Emitter, op: Op) -> None:
    """Neighbours are exchanged until all rows are in order: stable, and the same steps in every lane."""
    names = [at.buffer(value) for value in op.outputs]
    for value, name in zip(op.inputs, names, strict=True):
        at.copy(value, name)
    size = op.inputs[0].shape[-1]
    num_rows = prod(op.inputs[0].shape[:-1])
    i, j, row = at.new("i"), at.new("i"), at.new("i")
    head = f"for (int {row} = 0; {row} < {num_rows}; ++{row}) for (int {i} = {size - 1}; {i} > 0; --{i}) "
    with at.braces(head + f"for (int {j} = {row} * {size}; {j} < {row} * {size} + {i}; ++{j})"):
        swap = "i_(0)"
        for name in reversed(names[: op.attrs["num_keys"]]):
            x, y = f"{name}[{j}]", f"{name}[{j} + 1]"
            swap = at.let("int32", f"(vi)({x} > {y}) | ((vi)({x} == {y}) & {swap})")
        for name, value in zip(names, op.inputs, strict=True):
            x, y = (at.let(value.dtype, f"{name}[{place}]") for place in (j, f"{j} + 1"))
            at.line(f"{name}[{j}] = sel({swap}, {y}, {x}), {name}[{j} + 1] = sel({swap}, {x}, {y});")
    at.names.update(zip(op.outputs, names, strict=True))


STATEMENTS: dict[str, Callable[[Emitter, Op], None]] = {
    "threefry": _threefry, "stack": _stack, "concat": _concat, "pick": _pick, "put": _put, "reduce": _reduce,
    "cumulate": _cumulate, "sort": _sort,
}  # fmt: skip


# ---- regions ---------------------------------------------------------------------------------------------


def in_place(at: Emitter, op: Op) -> dict[int, str]:
    """Arrays that an `if` passes on where its condition does not hold, and that nobody reads later."""
    then, other = op.regions
    used = outer_uses(then)
    found: dict[int, str] = {}
    for k, value in enumerate(other.outputs):
        if not value.shape or value in used or other.outputs.count(value) != 1 or other.ops:
            continue
        at.give_memory(value)
        name = at.names[value]
        if name in at.writable and owned_here(at, value) and at.plan.is_last_read(value, op):
            found[k] = name
    return found


def results(at: Emitter, op: Op, reused: Mapping[int, str] | None = None) -> list[str]:
    """Variables and memory for the outputs of a region operation, some of it given."""
    names: list[str] = []
    for k, value in enumerate(op.outputs):
        if reused and k in reused:
            names.append(reused[k])
        elif value.shape:
            names.append(at.buffer(value))
        else:
            names.append(at.new())
            at.line(f"{vector(value.dtype)} {names[-1]}{{}};")
    return names


def assign(at: Emitter, names: Sequence[str], values: Sequence[Value], mask: str = "") -> None:
    """Set variables and memory to values, in the lanes of a mask."""
    fresh: list[str] = []
    for name, value in zip(names, values, strict=True):  # all are read before one is set: they may be each other
        if not value.shape:
            fresh.append(at.let(value.dtype, at.scalar(value)))
        elif at.names[value] in names and at.names[value] != name:
            fresh.append(at.buffer(value))
            at.copy(value, fresh[-1])
        else:
            fresh.append(at.names[value])
    for name, value, text in zip(names, values, fresh, strict=True):
        if not value.shape:
            at.line(f"{name} = {f'sel({mask}, {text}, {name})' if mask else text};")
            continue
        if text == name:
            continue
        with at.loops([value.size]) as (index,):
            new = f"{text}[{index}]"
            at.line(f"{name}[{index}] = {f'sel({mask}, {new}, {name}[{index}])' if mask else new};")


@contextmanager
def inside(at: Emitter, region: Block, mask: str, own: Sequence[Value] = ()) -> Any:
    """A region's operations are written; then the body of this, which sees its values."""
    outer, names = at.own_inputs, dict(at.names)
    at.own_inputs = set(own)
    at.block(region, mask)
    yield
    at.plans.pop()
    at.own_inputs, at.names = outer, names  # what was declared inside the braces ends with them


def _if(at: Emitter, op: Op, mask: str) -> None:
    then, other = op.regions
    condition = at.scalar(op.inputs[0])
    names = results(at, op, in_place(at, op))
    if other.ops:
        outside = at.let("bool", f"~{condition}" + (f" & {mask}" if mask else ""))
        with at.braces(f"if (any({outside}))"), inside(at, other, outside):
            assign(at, names, other.outputs)
    else:
        with inside(at, other, mask):
            assign(at, names, other.outputs)
    within = at.let("bool", f"{condition} & {mask}") if mask else condition
    with at.braces(f"if (any({within}))"), inside(at, then, within):
        assign(at, names, then.outputs, within)
    at.names.update(zip(op.outputs, names, strict=True))


def _while(at: Emitter, op: Op, mask: str) -> None:
    condition, body = op.regions
    names = results(at, op)
    assign(at, names, op.inputs)
    active = at.new()
    at.line(f"vi {active} = {mask or 'i_(-1)'};")
    with at.braces("for (;;)"):
        at.names.update(zip(condition.inputs, names, strict=True))
        with inside(at, condition, active):
            at.line(f"{active} = {active} & {at.scalar(condition.outputs[0])};")
        at.line(f"if (!any({active})) break;")
        at.names.update(zip(body.inputs, names, strict=True))
        with inside(at, body, active):
            assign(at, names, body.outputs, active)
    at.names.update(zip(op.outputs, names, strict=True))


def _for(at: Emitter, op: Op, mask: str) -> None:
    (body,) = op.regions
    names = results(at, op)
    assign(at, names, op.inputs)
    i = at.new("i")
    with at.braces(f"for (int {i} = 0; {i} < {op.attrs['length']}; ++{i})"):
        at.names[body.inputs[0]] = at.let("int32", f"i_({i})")
        at.names.update(zip(body.inputs[1:], names, strict=True))
        with inside(at, body, mask, body.inputs[1:]):
            assign(at, names, body.outputs)
    at.names.update(zip(op.outputs, names, strict=True))


REGIONS: dict[str, Callable[[Emitter, Op, str], None]] = {"if": _if, "while": _while, "for": _for}
