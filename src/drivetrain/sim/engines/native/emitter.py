"""Writes a block as C++: scalars as vectors of lanes, arrays as loops over buffers of such vectors.

scalar               const vf v7 = v3 + v5;
array with memory    vf a9[100]; for (int i = 0; ...) a9[i] = ...;
array without        its elements appear inside the loop that reads them (plan.py)
if                   if (any(p)) { ... } and a blend of the lanes
while                until no lane goes on
"""
# Over 400 lines: one class whose readers of values and writers of operations call each other.

from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from drivetrain.sim.engines.native.expressions import (
    ELEMENT,
    INFIX,
    constant,
    expression,
    of_numbers,
    repeated,
    signed,
    vector,
)
from drivetrain.sim.engines.native.heap import Heap
from drivetrain.sim.engines.native.plan import Plan, dimension_map, is_reshape
from drivetrain.sim.engines.native.position import Index, Position, flat, unflat
from drivetrain.sim.ir.ops import ELEMENTWISE
from drivetrain.sim.ir.program import Block, Op, Value, repeated_scalar

Writer = Callable[["Emitter", Op, str], None]
"""Writes one operation; the text is the name of the mask of lanes that run, empty for all."""


class Emitter:
    """Collects lines; knows the C++ name of every value."""

    def __init__(self, writers: Mapping[str, "Writer"], table_head: str = "static const") -> None:
        """`writers` write the operations that are neither elementwise nor reads of memory; tables begin with a head."""
        self.writers, self.table_head = writers, table_head
        self.lines: list[str] = []
        self.depth = 0
        self.names: dict[Value, str] = {}
        self.numbers: dict[Value, Any] = {}
        self.tables: dict[Value, str] = {}
        self.shared: dict[Value, str] = {}  # pointers to arrays of a call that are the same for all environments
        self.table_lines: list[str] = []
        self.writable: set[str] = set()
        self.plans: list[Plan] = []
        self.own_inputs: set[Value] = set()
        self.counters: dict[Value, str] = {}
        self.in_registers: dict[Value, str] = {}  # arrays of which the element at the position being written is at hand
        self.start = 0  # where lines go that a turn runs once
        self.count = 0
        self.scratch_nbytes = 0
        self.heap: Heap | None = None  # where large arrays lie, if not on the stack

    # ---- text ----------------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        """One line."""
        self.lines.append("  " * self.depth + text)

    def text(self) -> str:
        """All lines, tables first."""
        return "\n".join([*self.table_lines, *self.lines]) + "\n"

    @contextmanager
    def braces(self, head: str = "") -> Any:
        """A block of C++."""
        self.line(f"{head} {{".strip())
        self.depth += 1
        yield
        self.depth -= 1
        self.line("}")

    @contextmanager
    def branch(self, mask: str) -> Any:
        """Lines that run where any lane of a mask is set; always without one."""
        if not mask:
            yield
            return
        with self.braces(f"if (any({mask}))"):
            yield

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
        """Memory for an array, of this block's own: new, or of an array that nobody reads any more."""
        kind, size, memory = vector(value.dtype), max(value.size, 1), self.plan.memory
        free = memory.again(kind, size, self.names, self.plan.last_read)
        if free is not None:
            return free
        name = self.new("a")
        memory.add(name, kind, size)
        self.array(kind, name, size)
        self.scratch_nbytes += value.size * 4
        self.writable.add(name)
        return name

    def array(self, kind: str, name: str, size: int) -> None:
        """Declare an array of vectors, on the stack or on the heap."""
        place = None if self.heap is None else self.heap.place_for(size)
        self.line(
            f"{kind} {name}[{size}];" if place is None else f"{kind}* const {name} = ({kind}*)heap.whole + {place};"
        )

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
        if value in self.in_registers:
            return self.in_registers[value]
        if value in self.names:
            return f"{self.names[value]}[{flat(value, position)}]"
        if value in self.shared:
            return shared_at(self.shared[value], value.dtype, str(flat(value, position)))
        op = self.maker(value)
        assert op is not None, f"{value} has neither memory nor maker"
        if op.name == "const":
            return self.fixed(op, flat(value, position))
        text = self.computed(op, position)
        return text if op.name == "view" else self.let(value.dtype, text)

    def fixed(self, op: Op, index: Index) -> str:
        """An element of a constant array."""
        is_repeated = op.out in self.numbers
        return self.scalar(op.out) if is_repeated else constant_at(self.table(op), op.out.dtype, str(index))

    def number_of(self, value: Value) -> Any:
        """The number that a value is everywhere, or None."""
        if value in self.numbers:
            return self.numbers[value]
        scalar = repeated_scalar(self.maker(value))
        return None if scalar is None else self.number_of(scalar)

    def viewed(self, op: Op, position: Position) -> str:
        """An element of a view."""
        (x,) = op.inputs
        if not x.shape:
            return self.scalar(x)
        if is_reshape(op) and (isinstance(position, Index) or dimension_map(op) is None):
            return self.element(x, flat(op.out, position))
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
        """Whether an array is constant, or is shared and lies like one: read where it is."""
        if value in self.shared:
            return ELEMENT[value.dtype] in ("float", "int32_t", "uint32_t")
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
        kind = {"vf": "float", "vi": "int32_t", "vu": "uint32_t"}[vector(dtype)]
        self.table_lines.append(f"{self.table_head} {kind} {name}[{len(texts)}] = {{{', '.join(texts)}}};")
        return name

    def taken(self, op: Op, position: Position) -> str:
        """An element of a take."""
        x, index = op.inputs
        source = self.maker(x)
        uniform = self.uniform(index, position)
        if uniform and x in self.names:
            return f"{self.names[x]}[{uniform}]"
        table = "" if x in self.names else self.shared.get(x, "")
        if source is not None and source.name == "const":
            table = self.table(source)
        if table:
            if uniform:
                return constant_at(table, x.dtype, uniform)
            return f"lookup<{vector(x.dtype)}>({table}, {self.element(index, position)})"
        return f"gather({self.names[x]}, {self.element(index, position)})"

    def uniform(self, value: Value, position: Position) -> str:
        """An integer that is the same in all lanes, as a C++ expression; empty where lanes may differ.

        Indices of loops, constants, and sums, differences and products of such.
        """
        if value in self.counters:
            return self.counters[value]
        if value.dtype != "int32" or (value.shape and value in self.names):
            return ""
        if value in self.numbers:
            return str(int(self.numbers[value]))
        op = self.maker(value)
        if op is None:
            return ""
        if op.name == "const":
            return f"{self.table(op)}[{flat(value, position)}]"
        if scalar := repeated_scalar(op):
            return self.uniform(scalar, [])
        if op.name not in ("add", "sub", "mul"):
            return ""
        parts = [self.uniform(part, position) for part in op.inputs]
        return f"({parts[0]} {INFIX[op.name]} {parts[1]})" if all(parts) else ""

    def in_all_lanes(self, op: Op) -> str:
        """A scalar that loops' indices and constants make, as a C++ expression; empty where lanes may differ.

        So what a table says how far a turn of a loop rolls a board is a number, and the rolled board is loaded, not
        gathered.
        """
        if len(op.outputs) != 1 or op.out.shape or op.out.dtype not in ("int32", "bool"):
            return ""
        texts = [self.counters.get(value, "") for value in op.inputs]
        if not any(texts):
            return ""
        numbers = [self.numbers.get(value) for value in op.inputs]
        maker = self.maker(op.inputs[0])
        if op.name == "take" and maker is not None and maker.name == "const":
            return entry(self.table(maker), texts[1], op.out.dtype)
        if op.name == "pick" and texts[0] and all(number is not None for number in numbers[1:]):
            return entry(self.static_table(np.asarray(numbers[1:]), op.out.dtype), texts[0], op.out.dtype)
        if op.name not in ELEMENTWISE:
            return ""
        known = zip(texts, numbers, strict=True)
        texts = [text or ("" if number is None else signed(int(number))) for text, number in known]
        return of_numbers(op, texts, numbers) if all(texts) else ""

    # ---- writing operations --------------------------------------------------------------------------------

    @contextmanager
    def block(self, block: Block, mask: str = "") -> Any:
        """All operations of a block; then the body of this, which sees its values.

        Args:
            mask: Name of the mask of lanes that run it; empty for all.
        """
        plan = Plan(block)
        self.plans.append(plan)
        for position, op in enumerate(block.ops):
            plan.memory.now = position
            self.op(op, mask)
        plan.memory.now = plan.end
        for value in block.outputs:
            if not self.is_table(value):
                self.give_memory(value)
        yield
        self.plans.pop()

    def give_memory(self, value: Value) -> None:
        """Make sure that an array lies in memory."""
        if value.shape and value not in self.names:
            name = self.buffer(value)
            self.fill(value, name)
            self.names[value] = name

    def op(self, op: Op, mask: str) -> None:
        """One operation; nothing for arrays that need no memory."""
        if op.name == "const":
            number = repeated(op.attrs["value"])
            if number is not None:
                self.numbers[op.out] = number
            return
        if len(op.outputs) == 1 and op.out in self.plan.virtual:
            self.memory_for_inputs(op)
            return
        if op.regions:
            for value in op.inputs:
                self.give_memory(value)
            self.writers[op.name](self, op, mask)
            return
        text = self.in_all_lanes(op)
        if text:
            name = self.new("u")
            self.line(f"const int32_t {name} = {text};")
            self.counters[op.out] = name
            self.names[op.out] = self.let(op.out.dtype, f"i_({'-' if op.out.dtype == 'bool' else ''}{name})")
            return
        self.memory_for_inputs(op)
        if op.name in self.writers:
            self.writers[op.name](self, op, mask)
        elif op.out.shape:
            self.give_memory(op.out)
        else:
            assert op.name in ELEMENTWISE or op.name in ("view", "take"), f"no way to write {op.name}"
            self.names[op.out] = self.let(op.out.dtype, self.computed(op, []))

    def memory_for_inputs(self, op: Op) -> None:
        """Arrays that are read at computed places, or across their dimensions, lie in memory."""
        firsts = dict.fromkeys(("take", "put", "dot"), op.inputs[:1])
        needs = {**firsts, "sort": op.inputs}.get(op.name, ())
        if op.name == "view" and dimension_map(op) is None and not self.plan.is_read_flat(op):
            needs = op.inputs
        for value in needs:
            if op.name == "sort" or not self.is_table(value):
                self.give_memory(value)

    def fill(self, value: Value, name: str) -> None:
        """Compute every element of an array into memory, by one loop where a flat index is enough."""
        op = self.maker(value)
        if value in self.shared or (op is not None and op.name == "const"):
            self.copy(value, name)
            return
        assert op is not None, f"{value} has no maker"
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
        """Copy an array to memory, element by element where it lies."""
        with self.loops([value.size]) as (index,):
            self.line(f"{name}[{index}] = {self.element(value, index)};")


def entry(table: str, index: str, dtype: str) -> str:
    """An element of a static table of int32 or Booleans as a number of C++."""
    return f"{'-' if dtype == 'bool' else ''}{table}[{index}]"


def constant_at(table: str, dtype: str, index: str) -> str:
    """An element of a static table in every lane."""
    kind = {"vf": "f_", "vi": "i_", "vu": "u_"}[vector(dtype)]
    return f"{kind}({table}[{index}])"


def shared_at(pointer: str, dtype: str, index: str) -> str:
    """An element of a shared array in every lane; Booleans are bytes there."""
    return f"i_(-(int32_t){pointer}[{index}])" if dtype == "bool" else constant_at(pointer, dtype, index)


def owned_here(at: Emitter, value: Value) -> bool:
    """Whether memory belongs to the innermost block: what lies outside may be needed again."""
    return value in at.plan.makers or value in at.own_inputs
