"""`if`, `while` and `for` as C++: branches over whole tiles, and blends of the lanes that took them."""

from collections.abc import Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

from drivetrain.sim.engines.native.emitter import Emitter, Writer, owned_here
from drivetrain.sim.engines.native.expressions import vector
from drivetrain.sim.engines.native.statements import put_into
from drivetrain.sim.ir.passes.predicated_put import puts_below
from drivetrain.sim.ir.passes.sinking import users_of
from drivetrain.sim.ir.program import Block, Op, Value, repeated_scalar


class Built(NamedTuple):
    """An array that a branch builds of one number or a constant, by puts that read nothing that the branch changes."""

    constant: Value
    puts: Sequence[Op]
    read: Sequence[Value]
    """Arrays that these read, and that the branch computes."""


def in_place(at: Emitter, op: Op) -> dict[int, str]:
    """Arrays that an `if` passes on where its condition does not hold, and that nobody reads later.

    The branch may read them: all it gives lies in memory of its own before the first of them is changed.
    """
    _, other = op.regions
    found: dict[int, str] = {}
    for k, value in enumerate(other.outputs):
        if not value.shape or other.outputs.count(value) != 1 or other.ops:
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
        elif value not in at.names:
            fresh.append("")  # a table of constants, read where it is
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
            new = f"{text}[{index}]" if text else at.element(value, index)
            at.line(f"{name}[{index}] = {f'sel({mask}, {new}, {name}[{index}])' if mask else new};")


@contextmanager
def inside(at: Emitter, region: Block, mask: str, own: Sequence[Value] = ()) -> Any:
    """A region's operations are written; then the body of this, which sees its values."""
    outer, names = at.own_inputs, dict(at.names)
    at.own_inputs = set(own)
    with at.heap.scope() if at.heap else nullcontext(), at.block(region, mask):
        yield
    at.own_inputs, at.names = outer, names  # what was declared inside the braces ends with them


def built_of_constants(at: Emitter, then: Block) -> dict[int, Built]:
    """The outputs of a branch, by place, that can be built where the result lies, in the lanes that take it.

    A start's observation is such: zeros, and a few ones. Built elsewhere, all of it would be written, read and blended.
    """
    makers = {value: op for op in then.ops for value in op.outputs}
    users = users_of(then)

    def is_fixed(value: Value) -> bool:
        op = makers.get(value) or at.maker(value)
        if not value.shape or op is None:
            return not value.shape
        return op.name == "const" or repeated_scalar(op) is not None

    found: dict[int, Built] = {}
    for k, value in enumerate(then.outputs):
        puts = puts_below(makers, users, value)
        if puts and value.shape and is_fixed(constant := puts[0].inputs[0]):
            read = [part for put in puts for part in put.inputs[1:] if not is_fixed(part)]
            if all(part in makers for part in read):
                found[k] = Built(constant, puts, read)
    return found


def without(then: Block, built: Mapping[int, Built]) -> Block:
    """A branch but for arrays that are built later, with what is put into them."""
    later = {put for array in built.values() for put in array.puts}
    outputs = [value for k, value in enumerate(then.outputs) if k not in built]
    read = dict.fromkeys(part for array in built.values() for part in array.read)
    return Block(then.inputs, tuple(op for op in then.ops if op not in later), (*outputs, *read))


def build(at: Emitter, name: str, array: Built, within: str) -> None:
    """Such an array, in memory that holds what other lanes have."""
    with at.loops([array.constant.size]) as (index,):
        at.line(f"{name}[{index}] = sel({within}, {at.element(array.constant, index)}, {name}[{index}]);")
    for put in array.puts:
        put_into(at, name, put, within)


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
    built = built_of_constants(at, then)
    with at.braces(f"if (any({within}))"), inside(at, without(then, built), within):
        others = [k for k in range(len(names)) if k not in built]
        assign(at, [names[k] for k in others], [then.outputs[k] for k in others], within)
        for k, array in built.items():
            build(at, names[k], array, within)
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
        at.counters[body.inputs[0]] = i
        at.names.update(zip(body.inputs[1:], names, strict=True))
        with inside(at, body, mask, body.inputs[1:]):
            assign(at, names, body.outputs)
    at.names.update(zip(op.outputs, names, strict=True))


REGIONS: dict[str, Writer] = {"if": _if, "while": _while, "for": _for}
