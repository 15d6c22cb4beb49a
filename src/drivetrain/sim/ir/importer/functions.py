"""Functions of numbers that are programs in JAX here: traced where they stand, so that no engine knows of them.

What XLA gives, up to rounding; of integers, to the bit. The gamma function is by the formulas of XLA's own expansion.
"""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false, reportPrivateImportUsage=false

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from drivetrain.sim.ir.importer.importer import Importer, Parts, handles
from drivetrain.sim.ir.importer.written_out import written
from drivetrain.sim.ir.program import Value

LANCZOS = (
    676.520368121885098567009190444019, -1259.13921672240287047156078755283, 771.3234287776530788486528258894,
    -176.61502916214059906584551354, 12.507343278686904814458936853, -0.13857109526572011689554707,
    9.984369578019570859563e-6, 1.50563273514931155834e-7,
)  # fmt: skip
"""Of Lanczos's sum for g = 7, after the first, which is 1."""
G = 7


class Lanczos(NamedTuple):
    """What gamma(z + 1) is made of."""

    is_reflected: jax.Array
    """Whether z is -x, since x is below 1/2; else it is x - 1."""
    z: jax.Array
    t: jax.Array
    """z + g + 1/2."""
    log_t: jax.Array
    total: jax.Array
    """The sum."""
    slope: jax.Array
    """The sum's derivative."""


def lanczos(x: jax.Array) -> Lanczos:
    """At z + 1 = x, or at 1 - x."""
    is_reflected = x < 0.5
    z = jnp.where(is_reflected, -x, x - 1)
    total, slope = jnp.ones_like(x), jnp.zeros_like(x)
    for k, factor in enumerate(LANCZOS, 1):
        total = total + factor / (z + k)
        slope = slope - factor / (z + k) / (z + k)
    half_past = G + 0.5
    return Lanczos(is_reflected, z, half_past + z, math.log(half_past) + jnp.log1p(z / half_past), total, slope)


@handles("lgamma")
def _lgamma(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    return written(at, eqn, inputs, log_gamma)


def log_gamma(x: jax.Array) -> jax.Array:
    """Log |gamma(x)|: Lanczos's approximation, and the reflection formula below 1/2."""
    is_reflected, z, t, log_t, total, _ = lanczos(x)
    above = (z + 0.5 - t / log_t) * log_t + (0.5 * math.log(2 * math.pi) + jnp.log(total))
    part = abs(x) - jnp.floor(abs(x))
    log_sine = jnp.log(jnp.sin(math.pi * jnp.where(part > 0.5, 1 - part, part)))
    below = jnp.where(jnp.isfinite(log_sine), math.log(math.pi) - log_sine - above, -log_sine)
    return jnp.where(jnp.isinf(x), jnp.inf, jnp.where(is_reflected, below, above))


@handles("digamma")
def _digamma(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    return written(at, eqn, inputs, digamma)


def digamma(x: jax.Array) -> jax.Array:
    """The derivative of `log_gamma`; NaN at its poles."""
    is_reflected, _, t, log_t, total, slope = lanczos(x)
    above = log_t + slope / total - G / t
    angle = math.pi * (x + abs(jnp.floor(x + 0.5)))  # of pi * x, in the turn around 0
    below = above - math.pi * jnp.cos(angle) / jnp.sin(angle)
    is_pole = (x <= 0) & (x == jnp.floor(x))
    return jnp.where(is_pole, jnp.nan, jnp.where(is_reflected, below, above))


@handles("cumlogsumexp")
def _cumlogsumexp(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    return written(at, eqn, inputs, functools.partial(jax.lax.associative_scan, jnp.logaddexp, **eqn.params))


@handles("mulhi")
def _mulhi(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    return written(at, eqn, inputs, upper_half)


def upper_half(x: jax.Array, y: jax.Array) -> jax.Array:
    """Of the product of integers, which has twice their bits; by halves of the factors, where these have 32."""
    bits, dtype = 8 * x.dtype.itemsize, x.dtype
    if bits < 32:
        wide = jnp.uint32 if dtype.kind == "u" else jnp.int32
        return (x.astype(wide) * y.astype(wide) >> bits).astype(dtype)
    (x0, x1), (y0, y1) = (halves(jax.lax.bitcast_convert_type(each, jnp.uint32)) for each in (x, y))
    low, high = halves(x1 * y0 + (x0 * y0 >> 16))
    product = jax.lax.bitcast_convert_type(x1 * y1 + high + (x0 * y1 + low >> 16), dtype)
    return product if dtype == jnp.uint32 else product - jnp.where(x < 0, y, 0) - jnp.where(y < 0, x, 0)


@handles("bitcast_convert_type")
def _bitcast(at: Importer, eqn: Any, inputs: list[Parts]) -> Value | Sequence[Parts]:
    (x,), dtype = inputs[0], np.dtype(eqn.params["new_dtype"])
    if np.dtype(x.dtype).itemsize == dtype.itemsize:
        return at.builder.emit("bitcast", (x,), x.shape, dtype.name)
    return written(at, eqn, inputs, functools.partial(regrouped, dtype=dtype))


def regrouped(x: jax.Array, dtype: np.dtype[Any]) -> jax.Array:
    """The same bits in elements of another width, the lowest first along the last axis of the narrower."""
    before, after = 8 * x.dtype.itemsize, 8 * dtype.itemsize
    words = jax.lax.bitcast_convert_type(x, f"uint{before}")
    if before > after:
        parts = [(words >> k).astype(f"uint{after}") for k in range(0, before, after)]
        return jax.lax.bitcast_convert_type(jnp.stack(parts, -1), dtype)
    parts = [words[..., k].astype(f"uint{after}") << k * before for k in range(after // before)]
    return jax.lax.bitcast_convert_type(functools.reduce(jnp.bitwise_or, parts), dtype)


def halves(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The lower and the upper 16 bits."""
    return x & 0xFFFF, x >> 16
