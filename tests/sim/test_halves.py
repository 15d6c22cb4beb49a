"""float16 inside a step has the roundings of XLA, though engines know float32 alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import applied

pytestmark = pytest.mark.usefixtures("compiled_as_large_ones")
ODD = [0.0, -0.0, np.inf, -np.inf, np.nan, 65519.9, 65520.0, -7e4, 1e-8, 6e-8, -2.9e-8, 6.1e-5, 2.0**-25, 1 + 2.0**-11]
SIZES = 10.0 ** np.arange(-25, 25)
NUMBERS = np.concatenate([ODD, np.random.default_rng(0).normal(size=50) * SIZES]).astype(np.float32)


def in_halves(x, n):
    """Conversions and arithmetic, moved about, compared, chosen and carried through a loop."""
    half, whole = x.astype(jnp.float16), n.astype(jnp.float16)
    pair = jnp.stack([half, whole / 10.0])
    table = jnp.asarray([0.1, 3.3, 70.0], jnp.float16)

    def by_turns(k, total):  # in one turn, XLA rounds both together on some processors: see halves.py
        return jnp.where(k % 2 == 0, total * jnp.float16(0.7), total + table[(n + k) % 3])

    total = jax.lax.fori_loop(0, 6, by_turns, whole)
    results = [half, half + whole, half - table[1], half * half, whole / table[n % 3], jnp.sqrt(abs(half)), total]
    chosen = jnp.where(half > whole, pair.max(), jnp.pad(pair, 1)[2])
    return [
        jnp.stack(results).astype(jnp.float32),
        chosen.astype(jnp.float32),
        half.astype(jnp.int32),
        pair[::-1] > 0.3,
    ]


@pytest.mark.parametrize("engine", ["numpy", "native"])
def test_halves_are_rounded_as_by_xla(engine):
    numbers = np.arange(len(NUMBERS), dtype=np.int32) * 37 - 300
    expected = applied(in_halves, NUMBERS, numbers, engine="xla")
    for x, y in zip(expected, applied(in_halves, NUMBERS, numbers, engine=engine), strict=True):
        np.testing.assert_array_equal(x, y)
