"""Random functions in jnp keep their meaning through all passes: positions that wrap around, choices, branches, loops.

The random programs of `test_every_pass` are made of our operations; these are written as environments are, so that
positions are wrapped and clamped by JAX, and costly work hangs on conditions that positions hang on, too. Floats are
only computed with where there is one right result, to the bit, in whatever order passes leave.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import applied, assert_same
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from jax import lax
from small_programs import assert_same_meaning, imported

from drivetrain.sim.engines.native import engine as native
from drivetrain.sim.ir.passes.pipeline import simplified, vectorizable

NUM_ENVS = 13
INTEGERS = ("int32", "int32", "uint32", "int8", "uint8")
NUMBERS = (*INTEGERS, "float32")
SHAPES = ((), (), (), (3,), (5,), (2, 3), (70,))
EDGES = (-(2**31), -129, -128, -100, -9, -3, -2, -1, 0, 1, 2, 3, 5, 7, 8, 31, 32, 100, 127, 128, 255, 2**31 - 1)
FLOATS = (0.0, -0.5, 0.5, 1.0, -1.0, 2.5, -7.25, 127.5, -129.0, 65520.0, 2.0**31, -(2.0**33), np.inf, -np.inf, np.nan)
BINARY_OF_FLOATS = (lax.add, lax.sub, lax.mul, lax.max, lax.min, lax.rem, jnp.mod)
BINARY = (
    lax.add, lax.sub, lax.mul, lax.max, lax.min, lax.div, lax.rem, lax.bitwise_and, lax.bitwise_or, lax.bitwise_xor,
    lax.shift_left, lax.shift_right_logical, lax.shift_right_arithmetic, jnp.mod, jnp.floor_divide,
)  # fmt: skip
COMPARISONS = (lax.lt, lax.le, lax.eq, lax.ne, lax.gt, lax.ge)
REDUCTIONS = (jnp.max, jnp.min, jnp.argmax, jnp.argmin, jnp.any, jnp.all, jnp.sum, jnp.prod)
ROUNDINGS = (jnp.floor, jnp.ceil, jnp.round, jnp.trunc, jnp.sign, jnp.abs, jnp.isfinite)


def is_float(x):
    return x.dtype == jnp.float32


def costly(x):
    """Work that is worth a branch."""
    return (jax.random.bits(jax.random.key(x.astype(jnp.uint32).sum()), x.shape) >> 3).astype(x.dtype)


class Written:
    """Draws a function, operation by operation, while it is traced; what it made last is read most."""

    def __init__(self, rng, known):
        self.rng, self.known = rng, list(known)

    def choice(self, options):
        return options[self.rng.integers(len(options))]

    def value(self, fits=lambda x: True):
        """One that fits; None if there is none."""
        fitting = [x for x in self.known if fits(x)]
        return self.choice(fitting[-4:] if self.choice([True, False]) else fitting) if fitting else None

    def alike(self, x):
        """Another value of a type and shape, or a number."""
        other = self.value(lambda y: (y.shape, y.dtype) == (x.shape, x.dtype))
        if other is not None and self.choice([True, False]):
            return other
        number = self.choice([bool(n) for n in EDGES] if x.dtype == bool else edges_of(x.dtype))
        return jnp.full(x.shape, number, x.dtype)

    def condition(self):
        """A scalar Boolean: that a number is negative, or any other."""
        x = self.value(lambda x: x.shape == () and x.dtype != bool)
        return x < 0 if self.choice([True, False]) else self.choice(COMPARISONS)(x, self.alike(x))

    def place(self, size):
        """A position along an axis: as it is, which JAX wraps and clamps, or brought inside by a choice."""
        x = self.value(lambda x: x.shape == () and x.dtype == jnp.int32)
        turned = lax.rem(x, jnp.int32(size))
        self.known.append(turned)
        kind = self.choice(["as it is", "wrapped", "clipped", "absolute"])
        wrapped = {"wrapped": lambda: jnp.where(turned < 0, turned + size, turned), "as it is": lambda: x}
        return wrapped.get(kind, lambda: jnp.clip(x, 0, size - 1) if kind == "clipped" else jnp.abs(turned))()

    def operation(self, depth):
        """One more value."""
        kinds = ["binary"] * 3 + ["compare", "choose", "choose", "read", "read", "write", "move", "reduce"]
        kind = self.choice([*kinds, "convert", "round"] + ["cond", "loop"] * (depth < 1))
        x = self.value(lambda x: x.dtype != bool)
        array = self.value(lambda x: x.shape != () and x.dtype != bool)
        if kind == "binary":
            return self.choice(BINARY_OF_FLOATS if is_float(x) else BINARY)(x, self.alike(x))
        if kind == "compare":
            return self.choice(COMPARISONS)(x, self.alike(x))
        if kind == "convert":
            return x.astype(self.choice(NUMBERS))
        if kind == "round":
            return self.rounded(x)
        if kind == "choose":
            work = self.choice(
                [costly, lambda y: y, lambda y: costly(y) if not y.shape else jnp.cumsum(y).reshape(y.shape)]
            )
            return jnp.where(self.condition(), work(x), self.alike(x))
        if kind == "read":
            found = array[self.place(len(array))]
            return jnp.where(self.condition(), costly(found), self.alike(found)) if depth == 0 else found
        if kind == "write":
            place = self.place(len(array))
            after = getattr(array.at[place], self.choice(["set", "add", "max", "min"]))(self.alike(array[0]))
            return self.choice([lambda: after, lambda: jnp.where(self.condition(), costly(after), array)])()
        if kind == "move":
            return self.choice([jnp.flip, jnp.cumsum, jnp.sort, jnp.transpose, lambda y: jnp.roll(y, 2)])(array)
        if kind == "reduce":
            return self.choice(REDUCTIONS[:-2] if is_float(array) else REDUCTIONS)(array).astype(jnp.int32)
        if kind == "cond":
            return lax.cond(self.condition(), lambda: self.inner(x), lambda: self.inner(x))
        count = self.choice([2, lax.rem(self.value(lambda x: x.shape == () and x.dtype == jnp.int32), jnp.int32(3))])
        return lax.fori_loop(0, count, lambda i, c: self.inner(c, i), x)

    def rounded(self, x):
        """A float as a whole number, or what float16 makes of two values: JAX warns of large constants."""
        if self.choice([True, False]) and is_float(x):
            return self.choice(ROUNDINGS)(x).astype(jnp.float32)
        other = self.value(lambda y: (y.shape, y.dtype) == (x.shape, x.dtype))
        function = self.choice([lax.add, lax.sub, lax.mul, lax.max])
        return function(x.astype(jnp.float16), other.astype(jnp.float16)).astype(x.dtype)

    def inner(self, x, *more):
        """A few operations in a block of their own, and a value like x of them."""
        inner = Written(self.rng, [*self.known, x, *more])
        for _ in range(3):
            inner.known.append(inner.operation(1))
        return inner.known[-1].astype(x.dtype).ravel()[:1].sum().astype(x.dtype) + x


def random_function(seed):
    """A function of random numbers, and arguments for a batch of environments."""
    rng = np.random.default_rng(seed)
    forms = [((), "int32"), ((), "int32"), ((), "uint32"), ((3,), "int32"), ((70,), "int32"), ((5,), "uint8")]
    forms += [((), "float32"), ((5,), "float32")]
    forms += [(SHAPES[rng.integers(len(SHAPES))], NUMBERS[rng.integers(len(NUMBERS))]) for _ in range(3)]

    def function(*known):
        writing = Written(np.random.default_rng([seed, 1]), known)  # the same in every trace
        for _ in range(12):
            writing.known.append(writing.operation(0))
        return tuple(writing.known[-4:])

    return function, [some(rng, (NUM_ENVS, *shape), dtype) for shape, dtype in forms]


def some(rng, shape, dtype):
    """Small numbers, and those at the edges of what is decided by them."""
    least = -9 if dtype.startswith(("int", "float")) else 0
    numbers = np.where(rng.random(shape) < 0.5, rng.choice(edges_of(dtype), shape), rng.integers(least, 10, shape))
    return numbers.astype(dtype)


def edges_of(dtype):
    """Numbers of a type at the edges of what is decided by them."""
    if dtype == "float32":
        return list(FLOATS)
    limits = np.iinfo(dtype)
    return [n for n in EDGES if limits.min <= n <= limits.max]


@pytest.mark.release
@settings(max_examples=50, phases=[Phase.generate])  # a seed does not shrink
@given(st.integers(0, 2**32))
def test_random_functions_keep_their_meaning(seed):
    assert_passes_keep_the_meaning(seed)


@pytest.mark.slow  # half a minute: 40 ms for each
@settings(max_examples=500, phases=[Phase.generate])
@given(st.integers(0, 2**32))
def test_many_random_functions_keep_their_meaning(seed):
    assert_passes_keep_the_meaning(seed)


def assert_passes_keep_the_meaning(seed):
    function, arguments = random_function(seed)
    block = imported(function, *(x[0] for x in arguments))
    small = simplified(block)
    assert_same_meaning(block, small, *arguments)
    assert_same_meaning(block, vectorizable(small), *arguments)


@pytest.mark.slow  # a compiler runs for each
@pytest.mark.usefixtures("compiled_as_large_ones")
@pytest.mark.parametrize("width", [4, 8, 16])
def test_kernels_of_random_functions_give_what_their_operations_mean(width, monkeypatch):
    monkeypatch.setattr(native, "lanes", lambda: width)
    for seed in range(10 * width, 10 * width + 12):
        function, arguments = random_function(seed)
        assert_same(applied(function, *arguments, engine="numpy"), applied(function, *arguments), f"seed {seed}: ")
