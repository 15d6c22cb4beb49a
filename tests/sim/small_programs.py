"""Small programs for the tests of passes: made from JAX functions or at random, run by the meaning of operations."""

from collections import Counter

import jax
import numpy as np

from drivetrain.sim.ir.build import Builder
from drivetrain.sim.ir.evaluate import evaluate
from drivetrain.sim.ir.importer import import_jaxpr
from drivetrain.sim.ir.passes.pipeline import simplified
from drivetrain.sim.ir.program import Block, Value


def imported(function, *examples):
    """A JAX function of arrays as the importer reads it."""
    return import_jaxpr(jax.make_jaxpr(function)(*examples))


def small(function, *examples):
    """The same after folding, common subexpressions and dead code."""
    return simplified(imported(function, *examples))


def count(block, name=None):
    """How many operations there are of each name, regions included; of one name."""
    names = Counter(op.name for op in block.walk() if op.name != "const")
    return names if name is None else names[name]


def written(inputs, write):
    """A block of operations that `write(builder, *inputs)` writes; inputs as (shape, dtype)."""
    values = [Value(tuple(shape), dtype) for shape, dtype in inputs]
    builder = Builder()
    outputs = write(builder, *values)
    return Block(tuple(values), tuple(builder.ops), tuple(outputs))


def flat_results(block, arguments):
    """Every number that a block gives for a batch, whether its outputs are arrays or scalars of their elements."""
    results = evaluate(block, arguments)
    num_envs = len(arguments[0])
    return [column for x in results for column in np.broadcast_to(x, (num_envs, *x.shape[1:])).reshape(num_envs, -1).T]


def as_inputs(block, arguments):
    """Arrays as the block takes them: whole, or each element on its own where it has scalars for them."""
    rest, given = list(block.inputs), []
    for x in arguments:
        if rest and rest[0].shape == x.shape[1:]:
            given.append(x)
            rest.pop(0)
        else:
            columns = list(x.reshape(len(x), -1).T)
            given += columns
            del rest[: len(columns)]
    return given


def assert_same_meaning(before, after, *arguments):
    """Both blocks give the same bits, from arrays or from their elements."""
    arguments = [np.asarray(x) for x in arguments]
    expected, got = (flat_results(block, as_inputs(block, arguments)) for block in (before, after))
    for x, y in zip(expected, got, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)


INTEGERS = ("add", "sub", "mul", "max", "min", "and", "or", "xor", "div", "rem")
NUMBERS = (0, 1, -1, 2, 7, 100)


def random_program(seed, size=25):
    """A block of random integer operations over shapes [] and [3], three inputs of each, and arguments for it."""
    rng = np.random.default_rng(seed)
    builder = Builder()
    inputs = [Value(shape, "int32") for shape in ((), (), (), (3,), (3,), (3,))]
    known = list(inputs)
    for _ in range(size):
        known.append(random_op(rng, builder, known))
    outputs = tuple(known[k] for k in rng.choice(len(known), 6, replace=False))
    arguments = [rng.integers(-9, 10, (17, *value.shape), dtype=np.int32) for value in inputs]
    return Block(tuple(inputs), tuple(builder.ops), outputs), arguments


def random_op(rng, builder, known):
    """One more value, made of those that are known."""

    def one_of(shape=None):
        fitting = [value for value in known if shape is None or value.shape == shape]
        return fitting[rng.integers(len(fitting))]

    x = one_of()
    kind = rng.integers(6)
    if kind == 0:
        number = NUMBERS[rng.integers(len(NUMBERS))]
        return builder.elementwise(str(rng.choice(INTEGERS)), x, builder.full(x.shape, number, "int32"))
    if kind == 1:
        return builder.view(one_of((3,)), (), int(rng.integers(3)), ())
    if kind == 2:
        start = builder.const(np.int32(rng.integers(3)))
        return builder.put(one_of((3,)), start, one_of(()), builder.const(np.bool_(True)), "set")
    if kind == 3:
        flag = builder.elementwise(str(rng.choice(["lt", "eq", "ge"])), one_of(()), one_of(()))
        wide = builder.broadcast(flag, x.shape, ())
        return builder.elementwise("select", wide, one_of(x.shape), x)
    if kind == 4:
        return builder.reduce(one_of((3,)), str(rng.choice(["sum", "max"])))
    return builder.elementwise(str(rng.choice(INTEGERS)), x, one_of(x.shape))
