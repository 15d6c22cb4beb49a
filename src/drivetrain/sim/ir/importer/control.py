"""Control flow: branches stay branches and loops stay loops, each with blocks of its own."""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false, reportPrivateImportUsage=false

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from drivetrain.sim.ir.build import Builder
from drivetrain.sim.ir.importer.importer import Importer, Parts, flat, handles, like, zeros
from drivetrain.sim.ir.program import Block, Value


@handles("cond")
def _cond(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    """Branches stay branches; more than two are chosen among by halves. Of those for platforms the CPU's is taken."""
    (which,), arguments = inputs[0], inputs[1:]
    platforms = eqn.params.get("branches_platforms")
    if platforms is not None:
        branch = eqn.params["branches"][of_cpu(platforms)]
        return at.inline(branch.jaxpr, branch.consts, arguments)
    whole = one_of([at.region(branch, arguments) for branch in eqn.params["branches"]], which, at.builder.where)
    at.builder.ops += whole.ops
    return like(eqn.outvars, whole.outputs)


def one_of(blocks: Sequence[Block], which: Value, where: str, first: int = 0) -> Block:
    """The block that a number chooses, counted from `first` on.

    JAX clamps the number, so everything up to the first is that. By halves, since blocks in a chain of hundreds would
    be inside each other as deep.
    """
    if len(blocks) == 1:
        return blocks[0]
    b, half = Builder(where), len(blocks) // 2
    if which.dtype == "bool":
        is_lower = b.elementwise("not", which)
    else:
        is_lower = b.elementwise("le", which, b.const(np.asarray(first + half - 1, which.dtype)))
    regions = one_of(blocks[:half], which, where, first), one_of(blocks[half:], which, where, first + half)
    values = b.emit_regions("if", (is_lower,), blocks[0].outputs, regions)
    return Block((), tuple(b.ops), tuple(values))


def of_cpu(platforms: Sequence[Sequence[str] | None]) -> int:
    """Which of the branches of `jax.lax.platform_dependent` is the CPU's; the last is for all others."""
    return next((k for k, names in enumerate(platforms) if names is None or "cpu" in names), len(platforms) - 1)


@handles("platform_index")
def _platform_index(at: Importer, eqn: Any, inputs: list[Parts]) -> Value:
    return at.builder.const(np.int32(of_cpu(eqn.params["platforms"])))


@handles("custom_linear_solve")
def _custom_linear_solve(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    """The program that solves, of those for products, solutions and their transposes."""
    lengths, solve = eqn.params["const_lengths"], eqn.params["jaxprs"].solve
    first = lengths.matvec + lengths.vecmat
    consts, given = inputs[first : first + lengths.solve], inputs[sum(lengths) :]
    return at.inline(solve.jaxpr, solve.consts, [*consts, *given])


@handles("while")
def _while(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    """Mapped by `jax.vmap`, a loop has a condition for each element: it runs while any holds, and the others stay."""
    params = eqn.params
    first, second = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    carried = inputs[second:]

    def fresh() -> list[Parts]:
        return [tuple(Value(value.shape, value.dtype) for value in parts) for parts in carried]

    def goes_on(inner: Importer, values: list[Parts]) -> Value:
        closed = params["cond_jaxpr"]
        return flat(inner.inline(closed.jaxpr, closed.consts, [*inputs[:first], *values]))[0]

    before, within = (Importer(Builder(at.builder.where), at.name) for _ in range(2))
    tested, changed, body = fresh(), fresh(), params["body_jaxpr"]
    holds = goes_on(before, tested)
    if holds.shape:
        holds = before.builder.reduce(before.builder.last(holds, range(len(holds.shape))), "or")
    after = flat(within.inline(body.jaxpr, body.consts, [*inputs[first:second], *changed]))
    each = goes_on(within, changed) if params["cond_jaxpr"].out_avals[0].shape else None
    if each is not None:
        after = tuple(chosen(within.builder, each, x, y) for x, y in zip(after, flat(changed), strict=True))
    regions = (
        Block(flat(tested), tuple(before.builder.ops), (holds,)),
        Block(flat(changed), tuple(within.builder.ops), after),
    )
    start = flat(carried)
    return like(eqn.outvars, at.builder.emit_regions("while", start, start, regions))


def chosen(b: Builder, condition: Value, x: Value, y: Value) -> Value:
    """X where a condition on the first axes holds, else y."""
    wide = b.broadcast(condition, x.shape, range(len(condition.shape)))
    return b.elementwise("select", wide, x, y)


@handles("scan")
def _scan(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    """A `for`: slices of the scanned arrays are taken, and slices of the results are put, at the index.

    Of no turns nothing is written: an array of no rows has none to take.
    """
    params = eqn.params
    num_consts, num_carry = scan_counts(params)
    first, second = num_consts, num_consts + num_carry
    consts, carried, scanned = inputs[:first], inputs[first:second], inputs[second:]
    stacks = flat([zeros(at.builder, var) for var in eqn.outvars[num_carry:]])
    if params["length"] == 0:
        return [*carried, *like(eqn.outvars[num_carry:], stacks)]
    inner = Importer(Builder(at.builder.where), at.name)
    b, index = inner.builder, Value((), "int32")
    fresh = [tuple(Value(v.shape, v.dtype) for v in parts) for parts in carried]
    fresh_stacks = tuple(Value(v.shape, v.dtype) for v in stacks)
    row = index
    if params["reverse"]:
        row = b.elementwise("sub", b.const(np.int32(params["length"] - 1)), index)
    slices = [tuple(b.take(x, row_positions(b, row, x.shape)) for x in parts) for parts in scanned]
    results = inner.inline(params["jaxpr"].jaxpr, params["jaxpr"].consts, [*consts, *fresh, *slices])
    rows = flat(results[len(carried) :])
    filled = [
        b.put(stack, row_positions(b, row, stack.shape), value, b.full(value.shape, True, "bool"), "set")
        for stack, value in zip(fresh_stacks, rows, strict=True)
    ]
    body = Block((index, *flat(fresh), *fresh_stacks), tuple(b.ops), (*flat(results[: len(carried)]), *filled))
    start = (*flat(carried), *stacks)
    return like(eqn.outvars, at.builder.emit_regions("for", start, start, (body,), length=params["length"]))


def scan_counts(params: Mapping[str, Any]) -> tuple[int, int]:
    """How many inputs of a scan are constants and how many are carried: numbers until JAX 0.10, trees since 0.11."""
    if "ft_in" not in params:
        return params["num_consts"], params["num_carry"]
    consts, carried, _ = params["ft_in"].unpack()
    return len(consts), len(carried)


def row_positions(b: Builder, row: Value, shape: Sequence[int]) -> Value:
    """Flat positions of row `row` of an array."""
    offsets = b.const(np.arange(prod(shape[1:]), dtype=np.int32).reshape(shape[1:]))
    return b.elementwise("add", b.elementwise("mul", row, b.const(np.int32(prod(shape[1:])))), offsets)
