"""Functions that use every JAX primitive which environments use, each with a batch to try it on.

Small arrays become scalars in kernels, large ones loops, so each comes in both sizes.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

rng = np.random.default_rng(0)
NUM_ENVS = 11  # not a multiple of any vector's lanes
SIZES = {"scalars": (3, 4), "loops": (7, 11)}
LENGTHS = {"scalars": (2,), "loops": (70,)}
ORDERED = {"scalars": (2, 3), "some": (1, 12), "loops": (2, 40)}


def floats(*shape):
    return rng.normal(size=(NUM_ENVS, *shape)).astype(np.float32)


def integers(*shape, low=-40, high=40):
    return rng.integers(low, high, (NUM_ENVS, *shape), dtype=np.int32)


def arithmetic_of_floats(shape):
    """Each elementwise operation on floats."""

    def function(x, y):
        return [
            x + y,
            x - y,
            x * y,
            x / y,
            -x,
            abs(x),
            jnp.sign(x),
            jnp.floor(x),
            jnp.ceil(x),
            jnp.round(x * 4),
            jax.lax.round(x * 4, jax.lax.RoundingMethod.AWAY_FROM_ZERO),
            jnp.sqrt(abs(x)),
            jax.lax.rsqrt(abs(x) + 1),
            jnp.maximum(x, y),
            jnp.minimum(x, y),
            jnp.clip(x, -0.5, 0.5),
            jnp.fmod(x, y),
            jnp.mod(x, 0.7),
            x**2,
            x**-3,
            jnp.where(x < y, x, y),
            x <= y,
            x > y,
            x >= y,
            x == y,
            x != y,
            jnp.isfinite(x),
            (x * 1000).astype(jnp.int32),
            (x * 1000).astype(jnp.uint8),
            (x > 0).astype(jnp.float32),
            jax.lax.bitcast_convert_type(x, jnp.int32),
            jnp.sin(x),
            jnp.cos(x),
            jnp.tan(x),
            jnp.exp(x),
            jnp.log(abs(x)),
            jnp.tanh(x),
            jnp.log1p(abs(x)),
            jnp.expm1(x),
            jax.nn.sigmoid(x),
            abs(x) ** y,
            jnp.arctan2(x, y),
            jax.lax.erf(x),
            jax.scipy.special.erfinv(jnp.tanh(x)),
            jnp.arcsin(jnp.sin(x)),
            jnp.sinh(x),
            jnp.cbrt(x),
            jax.lax.clamp(-1.0, x, 1.0),
            jax.lax.select_n(x > y, x, y),
        ]

    return function, (floats(*shape), floats(*shape))


def arithmetic_of_integers_and_booleans(shape):
    """Each elementwise operation on integers, narrow ones too, and Booleans."""

    def function(x, y, u):
        small, narrow = x.astype(jnp.int8), u.astype(jnp.uint8)
        p, q = x > 3, y < 5
        return [
            x + y,
            x * y * 123456789,
            x - y,
            x // 3,
            x % 5,
            jax.lax.div(x, y),
            jax.lax.rem(x, y),
            jnp.mod(x, y),
            abs(x),
            jnp.sign(x),
            x & y,
            x | y,
            x ^ y,
            ~x,
            x << 3,
            x >> 2,
            jax.lax.shift_right_logical(x, 3),
            jax.lax.shift_left(x, y),
            jax.lax.population_count(u),
            jax.lax.clz(u),
            jax.lax.population_count(x),
            jax.lax.population_count(small),
            jax.lax.clz(small).astype(jnp.int32),
            jax.lax.shift_right_logical(small, jnp.full_like(small, 2)).astype(jnp.int32),
            (small >> 2).astype(jnp.int32),
            (narrow >> 2) * 2,
            u // 7,
            u % 10,
            u.astype(jnp.float32),
            small * small,
            narrow + narrow,
            narrow * 3,
            small.astype(jnp.float32),
            p & q,
            p | q,
            ~p,
            p ^ q,
            p == q,
            p < q,
            p.astype(jnp.int32) * x,
            jnp.where(p, x, y),
            x.astype(bool),
            jax.lax.integer_pow(x, 3),
            jax.lax.select_n(jnp.clip(x, 0, 2), x, y, x + y),
            jax.lax.select_n(y, x, y, x + y),  # outside of the cases, too
            jax.lax.select_n(p, x),
            jax.lax.mul(small, small, out_dtype=jnp.int32),
            (p * 1.0) == 1,
            jnp.logical_and(1 - p, q),
            x.astype(jnp.uint32),
            u.astype(jnp.int32) >> 1,
        ]

    return function, (
        integers(*shape),
        integers(*shape, low=-3, high=3),
        integers(*shape, low=0).astype(np.uint32) * 77777777,
    )


def movement_of_data(shape):
    """Slices, gathers, scatters, pads and the like."""

    def function(x, y, k):
        row = x[k % shape[0]]
        return [
            x.T,
            x[::-1],
            x[1:, ::2],
            x.reshape(-1)[::-3],
            x.reshape(shape[::-1], order="F"),
            jnp.ravel(x, order="F"),
            jnp.stack(x > y, -1),  # of an array, JAX makes one reshape that also transposes
            jax.lax.reshape(x[None], (shape[1], shape[0]), (2, 0, 1)),
            jnp.concatenate([x, y, x], 0),
            jnp.stack([x, y], 1)[:, 1],
            row,
            jnp.pad(x, ((1, 2), (0, 1)), constant_values=7),
            jnp.roll(x, 2, 1),
            jnp.roll(x, k, 0),
            x[k, k],
            x[:, k],
            jnp.take(x, jnp.array([2, 0, 1]), axis=0),
            x.at[k].set(5.0),
            x.at[1, :].set(0.0),
            x.at[:, k].add(1.0),
            x.at[k % 2, k % 3].set(row[0]),
            x.at[jnp.array([0, 1, 0])].add(2.0),
            x.at[0].max(y[1]),
            x.at[1].min(y[0]),
            x.at[1, 1].multiply(3.0),
            jax.lax.dynamic_slice(x, (k, k), (2, 2)),
            jnp.tile(y, (2, 1)),
            jnp.repeat(x, 2, 0),
            jax.lax.dynamic_update_slice(x, y[:2, :2], (k, k)),
            jnp.split(x, [1], 0)[1],
            x[:, None, :] * y[None, :, :].sum(0),
            jnp.where(k > 2, x.at[k % 2, 1].set(9.0), x),
            x.at[100].set(1.0),
            x.at[k + 50].get(mode="fill", fill_value=-1.0),
            jnp.broadcast_to(x[0], (2, *shape)),
            jnp.eye(shape[0]) @ x,
            jnp.arange(shape[1]) + x,
            jnp.flip(x, 1)[0],
        ]

    return function, (floats(*shape), floats(*shape), integers(low=-6, high=6))


def arrays_put_into_themselves():
    """Scatters that read the array which they change: state and action, large and small, all at once."""

    def function(x, small, k):
        y, z = x * 3, small - 1
        back, on = jnp.arange(len(x))[::-1], (jnp.arange(len(x)) + 1) % len(x)
        return [
            x.at[back].set(x),
            y.at[back].set(y),
            z.at[back[-len(z) :]].set(z),
            y.at[on].add(y),
            y.at[y % len(y)].min(y),
            jnp.where(k > 2, y.at[on].set(y), y),
            jax.lax.cond(k > 2, lambda v: v.at[on].set(v), lambda v: v, y),
            jax.lax.fori_loop(0, 3, lambda i, v: v.at[on].max(v), y),
            x[::-1].at[(on + k) % len(x)].set(x[::-1]),
        ]

    return function, (integers(100), integers(40), integers(low=-6, high=6))


def values_beyond_an_array():
    """What `get` gives outside, of every type, as the type holds it."""

    def function(x, k):
        kinds = ("uint8", "int8", "uint16", "int32", "uint32", "float16", "float32", "bool")
        fills = (-1, 300, 2.75, -7.5, 0.1, True, None)
        return [
            x.astype(kind).at[k + 3].get(mode="fill", fill_value=fill).astype(jnp.float32)
            for kind in kinds
            for fill in fills
        ]

    return function, (integers(9), integers(low=-6, high=20))


def reductions_and_sorts(shape):
    """Sums, extremes, running totals, sorts and products of matrices."""

    def function(x, n):
        values = jnp.round(x)  # with equal ones
        return [
            x.sum(),
            x.sum(0),
            x.sum(1),
            x.max(),
            x.min(1),
            x.prod(0),
            n.sum(),
            n.max(0),
            (n > 0).any(),
            (n > 0).all(0),
            jnp.argmax(values),
            jnp.argmin(values, 1),
            jnp.argmax(n > 5, 0),
            jnp.count_nonzero(n > 0),
            jnp.cumsum(x, 1),
            jnp.cumprod(x[0]),
            jax.lax.cummax(x, 0),
            jax.lax.cumsum(n, 0, reverse=True),
            jnp.sort(x, 1),
            jnp.sort(n.reshape(-1)),
            jnp.argsort(values, 0),
            jnp.mean(x),
            jnp.var(x, 1),
            x @ x.T,
            jnp.linalg.norm(x),
            jnp.searchsorted(jnp.arange(9.0), x[0]),
        ]

    return function, (floats(*shape), integers(*shape))


def orders(shape):
    """What comes first among numbers that are equal or NaN, zeros of both signs too, and among Booleans."""

    def function(x, n):
        alive = n > 0
        return [
            jnp.sort(x, 1),
            jax.lax.bitcast_convert_type(jnp.sort(x, 1), jnp.int32),
            jnp.argsort(x, 0),
            jnp.argsort(n.astype(jnp.uint32), 1),
            jnp.sort(alive, 1),
            jnp.argsort(~alive.reshape(-1)),
            jnp.lexsort((n[0], x[0], alive[0])),
            jax.lax.sort((x[:, 0], x[:, 1], n[:, 0]), num_keys=2),
            jax.lax.sort((x.reshape(-1), n.reshape(-1)), num_keys=2),
            jax.lax.top_k(x[0], 2),
            jnp.argmax(x),
            jnp.argmin(x, 1),
            jnp.argmax(x, 0),
            jnp.nanmedian(x),
            jnp.nanmax(x, 1),
        ]

    own = np.random.default_rng(1)  # the other cases draw what they drew without this one
    x = np.round(own.normal(size=(NUM_ENVS, *shape))).astype(np.float32)
    x[own.random(x.shape) < 0.3] = np.nan
    x = np.where(own.random(x.shape) < 0.5, x, -x)
    return function, (x, own.integers(-2, 3, x.shape, dtype=np.int32))


def shifts_and_halves():
    """Uppermost bits of narrow numbers, and numbers that lie between two whole ones."""
    halves = np.array([0.49999997, 0.5, -0.5, 1.5, 2.5, 8388609, -8388611, 1e30, np.inf, np.nan, -0.0], np.float32)

    def function(x, n, count):
        shifted = [
            jax.lax.shift_right_arithmetic(n.astype(kind), count.astype(kind))
            for kind in (jnp.uint8, jnp.int8, jnp.uint16, jnp.int16, jnp.uint32, jnp.int32)
        ]
        return [*shifted, jax.lax.round(x), jax.lax.round(jnp.asarray(halves)) + 0 * count[0]]

    counts = np.tile(np.arange(NUM_ENVS, dtype=np.int32)[:, None] * 4, (1, 3))
    words = np.random.default_rng(1).integers(-(2**31), 2**31 - 1, counts.shape, dtype=np.int32)
    return function, (np.tile(halves, (NUM_ENVS, 1)), words, counts)


def not_a_number():
    """The larger and the smaller of numbers of which either may be none, or a zero of either sign."""
    odd = np.array([np.nan, -0.0, 0.0, 1, -np.inf, np.inf], np.float32)

    def function(x, y):
        return [jnp.maximum(x, y), jnp.minimum(x, y), jnp.maximum(x, y[:1]), jnp.minimum(x[:1], y)]

    return function, (np.resize(odd, (NUM_ENVS, 7)), np.resize(odd[::-1], (NUM_ENVS, 7)))


def branches_and_loops(shape):
    """Branches, loops with and without a fixed number of steps."""

    def function(x, k):
        halved = jax.lax.while_loop(
            lambda c: (c[0] > 1) & (c[1].sum() < 1e6), lambda c: (c[0] // 2, c[1] * 2), (k, abs(x))
        )
        grid = jax.lax.fori_loop(0, 3, lambda i, g: g.at[i, i].add(i * 1.0), x)
        swapped = jax.lax.fori_loop(0, 3, lambda i, c: (c[1], c[0] + c[1]), (x, x + 1))
        last, rows = jax.lax.scan(lambda c, row: (c + row.sum(), row * c), 0.5, x, reverse=True)
        nested = jax.lax.cond(
            k > 10,
            lambda: jax.lax.while_loop(lambda n: n < 100, lambda n: n * 2, k),
            lambda: jax.lax.switch(k % 3, [lambda: k, lambda: k * 2, lambda: -k]),
        )
        chosen = jax.lax.cond(x[0, 0] > 0, lambda: x.at[k % 2].set(1.0), lambda: x * 2)
        return halved, grid, swapped, last, rows, nested, chosen

    return function, (floats(*shape), integers(low=1, high=64))


def random_numbers():
    """Keys, bits and integers."""

    def function(seed):
        key = jax.random.key(seed)
        first, second = jax.random.split(key)
        return [
            jax.random.key_data(first),
            jax.random.bits(second, (70,)),
            jax.random.bits(jax.random.fold_in(key, 7), (3, 2)),
            jax.random.randint(second, (5,), 0, 10),
            jax.random.permutation(first, 9),
            jax.random.bits(key, (), jnp.uint8),
            jax.random.key_data(jax.random.split(first, 3)[2]),
            jax.random.choice(key, 6, (2,)),
            jax.random.bernoulli(key, 0.3),
            key == jax.random.key(1),  # of both, the first word is 0
            jax.random.split(key) != first,
        ]

    return function, (integers(low=0, high=2**30),)


def random_floats():
    """Uniform and normal numbers."""

    def function(seed):
        key = jax.random.key(seed)
        return [jax.random.uniform(key, (4,), minval=-2.0), jax.random.normal(key, (3,)), jax.random.exponential(key)]

    return function, (integers(low=0, high=2**30),)


# name -> something that gives a function and its batches, leading axis [num_envs]
CASES = {
    **{f"{case.__name__}, {size}": partial(case, shape) for case in (arithmetic_of_floats,
       arithmetic_of_integers_and_booleans) for size, shape in LENGTHS.items()},
    **{f"{case.__name__}, {size}": partial(case, shape) for case in (movement_of_data, reductions_and_sorts,
       branches_and_loops) for size, shape in SIZES.items()},
    **{f"{orders.__name__}, {size}": partial(orders, shape) for size, shape in ORDERED.items()},
    "shifts_and_halves": shifts_and_halves,
    "not_a_number": not_a_number,
    "arrays_put_into_themselves": arrays_put_into_themselves,
    "values_beyond_an_array": values_beyond_an_array,
    "random_numbers": random_numbers,
    "random_floats": random_floats,
}  # fmt: skip
