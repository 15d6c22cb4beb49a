"""Windows over arrays, convolutions and pools, written out in JAX: an operation on all of a result for each place.

What XLA gives, up to rounding. No engine knows of them.
"""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false, reportPrivateImportUsage=false

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from drivetrain.sim.ir.build import of_nothing
from drivetrain.sim.ir.importer.importer import Importer, Parts, handles
from drivetrain.sim.ir.importer.written_out import written

MOST_PLACES = 128
"""Of a window."""
COMBINED: dict[str, Callable[..., jax.Array]] = {"sum": jnp.add, "max": jnp.maximum, "min": jnp.minimum}


def met(
    x: jax.Array, window: Sequence[int], fill: Any, strides: Sequence[int], padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int], window_dilation: Sequence[int],
) -> Iterator[tuple[tuple[int, ...], jax.Array]]:  # fmt: skip
    """For each place of a window, in order, the elements that meet it where the window stands.

    Args:
        fill: What is around the array, and in the gaps between its elements.
    """
    around = [(low, high, by - 1) for (low, high), by in zip(padding, base_dilation, strict=True)]
    x = jax.lax.pad(x, jnp.asarray(fill, x.dtype), around)
    reach = [(size - 1) * by + 1 for size, by in zip(window, window_dilation, strict=True)]
    lasts = [(n - far) // step * step for n, far, step in zip(x.shape, reach, strides, strict=True)]
    for place in itertools.product(*map(range, window)):
        starts = [k * by for k, by in zip(place, window_dilation, strict=True)]
        ends = [start + last + 1 for start, last in zip(starts, lasts, strict=True)]
        yield place, jax.lax.slice(x, starts, ends, strides)


def check_places(at: Importer, what: str, window: Sequence[int]) -> None:
    """Refuse windows of more places than are written out."""
    if math.prod(window) > MOST_PLACES:
        raise at.unsupported(
            f"{what} with a window of {math.prod(window)} elements",
            f"use one of at most {MOST_PLACES}, or write it with slices and sums",
        )


@handles(*(f"reduce_window_{kind}" for kind in COMBINED))
def _reduce_window(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    """Sums and extremes, as pools have them."""
    given, kind = eqn.params, eqn.primitive.name.removeprefix("reduce_window_")
    window, fill = given["window_dimensions"], of_nothing(kind, at.dtype_of(eqn.invars[0].aval))
    check_places(at, f"the primitive `{eqn.primitive.name}`", window)

    def reduced(x: jax.Array) -> jax.Array:
        names = ("window_strides", "padding", "base_dilation", "window_dilation")
        parts = met(x, window, fill, *(given[name] for name in names))
        return functools.reduce(COMBINED[kind], (part for _, part in parts))

    return written(at, eqn, inputs, reduced)


@handles("conv_general_dilated")
def _convolution(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    window = [eqn.invars[1].aval.shape[k] for k in eqn.params["dimension_numbers"].rhs_spec[2:]]
    check_places(at, "a convolution", window)
    if eqn.params["batch_group_count"] != 1:
        raise at.unsupported("a convolution with groups of its batch", "use feature_group_count")
    dtype = eqn.outvars[0].aval.dtype
    return written(at, eqn, inputs, functools.partial(convolution, given=eqn.params, dtype=dtype))


def convolution(x: jax.Array, weights: jax.Array, given: dict[str, Any], dtype: Any) -> jax.Array:
    """For each place of the window, in order, the elements that meet it times its weights; the sum of all."""
    spec, groups = given["dimension_numbers"], given["feature_group_count"]
    x = x.transpose(spec.lhs_spec).astype(dtype)
    x = x.reshape(x.shape[0], groups, -1, *x.shape[2:])
    weights = weights.transpose(spec.rhs_spec).astype(dtype)
    weights = weights.reshape(groups, -1, *weights.shape[1:])
    one = (1, 1, 1)  # of batch, groups and channels, along which no window moves
    parts = met(
        x, (*one, *weights.shape[3:]), 0, (*one, *given["window_strides"]), (*((0, 0) for _ in one), *given["padding"]),
        (*one, *given["lhs_dilation"]), (*one, *given["rhs_dilation"]),
    )  # fmt: skip
    total: Any = None
    for place, part in parts:
        for channel in range(x.shape[2]):
            factors = weights[(slice(None), slice(None), channel, *place[3:])]
            product = part[:, :, None, channel] * factors.reshape(1, *factors.shape, *(1 for _ in part.shape[3:]))
            total = product if total is None else total + product
    whole = total.reshape(total.shape[0], -1, *total.shape[3:])
    return whole.transpose([spec.out_spec.index(k) for k in range(len(spec.out_spec))])
