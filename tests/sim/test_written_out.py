"""Primitives that are written out as programs in JAX give what XLA gives, on engines that know nothing of them."""

import jax
import jax.extend
import jax.interpreters.mlir
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import applied, assert_same

from drivetrain.core.errors import CompileError

pytestmark = pytest.mark.usefixtures("compiled_as_large_ones")
NUM_ENVS = 33
OTHER_KEY = jax.random.key(1, impl="rbg")
rng = np.random.default_rng(0)
KEYS = rng.integers(0, 2**31 - 1, NUM_ENVS, dtype=np.int32)
MATRICES = rng.normal(size=(NUM_ENVS, 3, 3)).astype(np.float32) * 0.3
ODD = np.array([0, -1, -2, np.inf, -np.inf, np.nan, -0.5, 1e30], np.float32)
NUMBERS = np.concatenate([np.linspace(-9.7, 40, NUM_ENVS - len(ODD), dtype=np.float32), ODD])


def of_matrices(x):
    """Systems of equations, triangles, factors."""
    mass = x + 2 * jnp.eye(3)
    positive = x @ x.T + jnp.eye(3)
    return [
        jnp.linalg.solve(mass, x[0]),
        jnp.linalg.solve(jnp.stack([mass[::-1], mass.T])[..., :2, :2], x[:2, :2]),
        jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(positive), x[1]),
        jnp.linalg.cholesky(x + x.T),
        jax.scipy.linalg.solve_triangular(mass, x, unit_diagonal=True),
        jax.lax.linalg.lu(x.at[1].set(x[0]).at[:, 0].set(0))[1:],
        jax.scipy.linalg.lu_solve(jax.scipy.linalg.lu_factor(mass[::-1]), x[2]),
        jax.lax.linalg.lu_pivots_to_permutation(jnp.asarray([[2, 1, 3], [1, 3, 3]], jnp.int32), 5),
    ]


def of_numbers(number, integer):
    """The gamma function and its derivative, running sums of exponentials, bits, and the upper halves of products."""
    words = jnp.stack([integer, -integer, integer ^ 0x5A5A5A5A, integer * 77777])
    kinds = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
    rows = words.astype(jnp.int16), words.astype(jnp.uint8)
    odd = jnp.stack([number, -number, -jnp.inf, number / 2])
    return [
        jax.lax.lgamma(number),
        jax.lax.digamma(number),
        jax.grad(jax.scipy.special.gammaln)(number / 3),
        jax.lax.cumlogsumexp(odd),
        jax.lax.cumlogsumexp(jnp.stack([odd, odd[::-1]]), axis=1, reverse=True),
        [jax.lax.bitcast_convert_type(x, kind) for x in (number, words) for kind in kinds],
        [jax.lax.bitcast_convert_type(rows[0].reshape(2, 2), kind) for kind in ("int8", "uint32", "float32")],
        [jax.lax.bitcast_convert_type(rows[1][None], kind) for kind in ("int8", "uint32", "int32", "float32")],
        [jax.lax.mulhi(words.astype(kind), words[::-1].astype(kind)) for kind in kinds],
    ]


def of_larger_matrices(x):
    """More rows than stay in registers, of which some change places."""
    wide = jnp.tile(x, (3, 3)) / 4 + 3 * jnp.eye(9)[::-1]
    positive = wide @ wide.T / 9 + jnp.eye(9)
    inverse = jax.scipy.linalg.solve(positive, jnp.eye(9), assume_a="pos")
    return [inverse, jnp.linalg.cholesky(positive), jax.lax.linalg.lu(wide)[1:], jnp.linalg.solve(wide, wide)]


def convolutions(x, number):
    """In one dimension and two, of floats, integers and Booleans, with steps, gaps, groups and edges of every kind."""
    picture = jnp.stack([x, x * number, x - 1])  # [3, 3, 3]
    window = jnp.asarray(np.arange(2 * 3 * 2 * 2).reshape(2, 3, 2, 2) / 9, jnp.float32)
    grouped = jnp.asarray(np.arange(6 * 1 * 2).reshape(6, 1, 2) / 5, jnp.float32)
    sums = {"precision": jax.lax.Precision.HIGHEST}
    return [
        jax.scipy.signal.convolve(x, jnp.asarray([[0.2, 0.7, 0.2], [0.7, 1, 0.7], [0.2, 0.7, 0.2]]), mode="same"),
        jax.scipy.signal.convolve(x > 0, jnp.asarray([[0, 1, 0], [1, 1, 1], [0, 1, 0]]), mode="same") > 0.5,
        jnp.convolve(jnp.arange(5) * x[0, 0].astype(jnp.int32), jnp.arange(3)),
        jax.lax.conv_general_dilated(picture[None], window, (2, 1), [(1, 2), (-1, 3)], (2, 1), (1, 2), **sums),
        jax.lax.conv_general_dilated(x[None], grouped, (1,), "SAME", feature_group_count=3, **sums),
        jax.lax.conv_general_dilated(
            picture[None], window, (1, 1), "VALID", dimension_numbers=("NHWC", "OIHW", "NWHC"), **sums
        ),
    ]


def pools(x, number):
    """Sums and extremes of windows with steps, gaps and edges of every kind."""
    picture = jnp.stack([x, x * number, x - 1])  # [3, 3, 3]
    whole = jnp.round(picture * 9).astype(jnp.int8)
    kinds = ((jax.lax.max, -jnp.inf, -128), (jax.lax.min, jnp.inf, 127), (jax.lax.add, 0.0, 0))
    return [
        [
            jax.lax.reduce_window(picture, least, function, (1, 2, 2), (1, 1, 1), "VALID"),
            jax.lax.reduce_window(picture, least, function, (1, 3, 3), (1, 2, 2), "SAME"),
            jax.lax.reduce_window(whole, np.int8(nothing), function, (2, 1, 2), (1, 2, 1), "SAME"),
            jax.lax.reduce_window(
                picture, least, function, (2, 2, 2), (1, 2, 1), ((1, 2), (0, 1), (2, 0)), (2, 1, 3), (1, 2, 2)
            ),
        ]
        for function, least, nothing in kinds
    ]


def gamma(seed):
    """Draws that are repeated until one fits."""
    return jax.random.gamma(jax.random.key(seed), jnp.array([0.3, 4.0]))


def poisson(seed):
    """Others, with a rate on either side of where the method changes."""
    return [jax.random.poisson(jax.random.key(seed), rate) for rate in (3.0, 30.0)]


@pytest.mark.release
@pytest.mark.parametrize(
    ("function", "batches"),
    [
        (of_matrices, (MATRICES,)),
        (of_numbers, (NUMBERS, KEYS)),
        (pools, (MATRICES, NUMBERS.clip(-3, 3))),
        (of_larger_matrices, (MATRICES,)),
        (convolutions, (MATRICES, NUMBERS.clip(-3, 3))),
        (gamma, (KEYS,)),
        pytest.param(poisson, (KEYS,), marks=pytest.mark.slow),  # XLA takes seconds
    ],
)
def test_engines_give_what_xla_gives(function, batches):
    expected = applied(function, *batches, engine="xla")
    for engine in ("numpy", "native"):
        assert_same(expected, applied(function, *batches, engine=engine), f"{engine}: ")


def new_primitive(name, implementation):
    """A primitive as other libraries make them."""
    made = jax.extend.core.Primitive(name)
    made.def_impl(implementation)
    made.def_abstract_eval(lambda x: jax.core.ShapedArray((), x.dtype))
    jax.interpreters.mlir.register_lowering(made, jax.interpreters.mlir.lower_fun(jnp.max, multiple_results=False))
    return made


LARGEST, OPAQUE = new_primitive("largest", jnp.max), new_primitive("opaque", lambda x: np.asarray(x).max())


def test_a_primitive_of_another_library_is_what_its_implementation_in_jax_does():
    np.testing.assert_array_equal(applied(LARGEST.bind, MATRICES, engine="numpy"), MATRICES.max((1, 2)))
    with pytest.raises(CompileError, match="the primitive `opaque`: write it with other primitives"):
        applied(OPAQUE.bind, MATRICES, engine="numpy")


def test_authors_may_forbid_that_ranks_are_promoted():
    with jax.numpy_rank_promotion("raise"):
        got = applied(
            lambda x: jnp.linalg.det(x * jnp.diag(jnp.arange(1.0, 6.0))), np.ones(1, np.float32), engine="numpy"
        )
    np.testing.assert_allclose(got, 120, rtol=1e-6)


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda x: jnp.linalg.inv(jnp.eye(65) * x), "`lu` of matrices with 65 rows: use at most 64 rows"),
        (lambda x: jax.lax.linalg.lu(x * jnp.ones((2, 3)))[0], "`lu` of matrices that are not square"),
        (lambda x: jax.lax.reduce_window(jnp.ones(200) * x, 0.0, jax.lax.add, (129,), (1,), "SAME"), "at most 128, or"),
        (lambda x: jnp.linalg.svd(x * jnp.eye(2))[1], "`svd`: use another decomposition: cholesky, lu"),
        (lambda x: jnp.linalg.eigh(x * jnp.eye(2))[0], "`eigh`: use another decomposition: cholesky, lu"),
        (lambda x: jax.random.uniform(jax.random.key(1, impl="rbg")) * x, "keys of type key<rbg>: use threefry"),
        (lambda x: jax.random.uniform(OTHER_KEY) * x, "keys of type key<rbg>: use threefry"),
        (lambda x: jax.random.uniform(jax.random.key(1, impl="threefry4x32")) * x, "keys of type key<fry4>: use thre"),
    ],
)
def test_what_is_not_written_out_is_told_with_what_to_use(function, told):
    with pytest.raises(CompileError, match=told):
        applied(function, np.ones(2, np.float32), engine="numpy")
