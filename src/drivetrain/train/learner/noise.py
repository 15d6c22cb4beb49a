"""Standard normal numbers that follow from a key and a place, in one loop that XLA turns into vectors.

    (key, row, place in the row) -> Threefry: 32 bits -> uniform in -1..1 -> inverse error function: a number

`jax.random.normal` gives as good ones, but on CPUs one number at a time: its inverse error function calls log1p
(64 us for the 3,072 numbers of a SAC update of 256 rows, 7 us here; design/training-updates.md).

References: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3" (Threefry-2x32, 20 rounds); Giles 2010,
"Approximating the erfinv function" (single precision).
"""

# JAX annotates parts of its interface only:
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))  # of four rounds in turn
_PARITY = 0x1BD11BDA
# Of both polynomials of Giles, the highest power first: in w - 2.5 where w < 5, and in sqrt(w) - 3.
_CENTRE = (
    *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087),
    *(-0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
)
_TAIL = (
    *(-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773),
    *(-0.0076224613, 0.00943887047, 1.00167406, 2.83297682),
)


def key_of_update(key: Any, number: Any) -> tuple[Any, Any]:
    """The key of what one update draws: that of `jax.random.fold_in`, as two words.

    Args:
        key: uint32[2], as `jax.random.key_data` gives it.
        number: int32, of the update.
    """
    return _threefry((key[0], key[1]), jnp.uint32(0), jnp.asarray(number).astype(jnp.uint32))


def standard_normal(key: tuple[Any, Any], shape: tuple[int, ...], first_row: Any = 0) -> jax.Array:
    """Independent standard normal numbers: float32[rows, ...], at most 5.2 from zero.

    Args:
        key: Two words, see `key_of_update`.
        shape: At least one axis, the rows.
        first_row: int32, the first row's number; a row's numbers depend on the key and on its number alone.
    """
    num_rows, width = shape[0], math.prod(shape[1:])
    row, place = (jax.lax.broadcasted_iota(jnp.uint32, (num_rows, width), axis) for axis in (0, 1))
    row = row + jnp.asarray(first_row).astype(jnp.uint32)
    even, odd = _threefry(key, row, place >> 1)
    words = jnp.where(place & 1 == 0, even, odd)
    return (np.float32(math.sqrt(2)) * _inverse_error(_between_ones(words))).reshape(shape)


def _threefry(key: tuple[Any, Any], x: Any, y: Any) -> tuple[Any, Any]:
    """Two words of random bits for each two words of a counter."""
    keys = (*key, key[0] ^ key[1] ^ jnp.uint32(_PARITY))
    x, y = x + keys[0], y + keys[1]
    for group in range(5):
        for by in _ROTATIONS[group % 2]:
            x = x + y
            y = x ^ (y << jnp.uint32(by) | y >> jnp.uint32(32 - by))
        x = x + keys[(group + 1) % 3]
        y = y + keys[(group + 2) % 3] + jnp.uint32(group + 1)
    return x, y


def _between_ones(words: Any) -> Any:
    """Uniform numbers: the middles of 2^23 equal parts of -1..1, so never an end, and as often below 0 as above."""
    exponent_of_one = jnp.uint32(0x3F800000)
    from_one = jax.lax.bitcast_convert_type(words >> jnp.uint32(9) | exponent_of_one, jnp.float32)
    return 2 * (from_one - 1) - np.float32(1 - 2**-23)


def _inverse_error(x: Any) -> Any:
    """The inverse of the error function, to about 3e-7 of its value, between the ends -1 and 1."""
    w = -jnp.log((1 - x) * (1 + x))
    is_centre = w < 5
    distance = jnp.where(is_centre, w - 2.5, jnp.sqrt(w) - 3)
    value = jnp.zeros_like(x)
    for centre, tail in zip(_CENTRE, _TAIL, strict=True):
        value = value * distance + jnp.where(is_centre, np.float32(centre), np.float32(tail))
    return value * x
