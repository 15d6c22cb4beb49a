"""Loops of ours as operations of JAX: a custom call on CPUs, and what it computes in XLA's own operations elsewhere."""

# JAX annotates parts of its interface only:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drivetrain.train._native import (
    adam_handler,
    convolution_handlers,
    joined_handler,
    narrow_handlers,
    rectified_handlers,
    rounded_convolution_handlers,
    rounded_handlers,
)

RECTIFIED = ("drivetrain_rectified", "drivetrain_rectified_by_weight", "drivetrain_rectified_by_input")
ROUNDED = ("drivetrain_rounded", "drivetrain_rounded_by_weight", "drivetrain_rounded_by_input")
NARROW = ("drivetrain_narrow_spread", "drivetrain_narrow_outer", "drivetrain_narrow_gather")
CONVOLUTION = ("drivetrain_convolution", "drivetrain_convolution_by_weight", "drivetrain_convolution_by_input")
ROUNDED_CONVOLUTION = (
    "drivetrain_rounded_convolution",
    "drivetrain_rounded_convolution_by_weight",
    "drivetrain_rounded_convolution_by_input",
)
JOINED = "drivetrain_joined"
ADAM = "drivetrain_adam"


def call(
    target: str,
    shape: tuple[int, ...] | list[tuple[int, ...]],
    otherwise: Callable[..., Any],
    *arrays: Any,
    **integers: int,
) -> Any:
    """One of the calls above, float32[shape] of arrays; a list of such for a list of shapes.

    Args:
        target: Its name.
        shape: Of what it gives.
        otherwise: The same function of the arrays, for other devices than CPUs.
        arrays: Its arguments.
        integers: What it is told besides.
    """
    _registered()
    results = [_float32(one) for one in shape] if isinstance(shape, list) else _float32(shape)
    ours = functools.partial(
        jax.ffi.ffi_call(target, results, vmap_method="sequential"),
        **{name: np.int64(number) for name, number in integers.items()},
    )
    return jax.lax.platform_dependent(*arrays, cpu=ours, default=otherwise)


def _float32(shape: tuple[int, ...]) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def call_in_place(target: str, first: int, otherwise: Callable[..., Any], *arrays: Any) -> Any:
    """One of the calls above that changes its arguments from the `first` on; these, then a number.

    XLA copies what somebody reads later, or might.

    Args:
        target: Its name.
        first: The first argument that is changed.
        otherwise: The same function of the arrays, without changing them, for other devices than CPUs.
        arrays: Its arguments.
    """
    _registered()
    changed = arrays[first:]
    results = [_float32(array.shape) for array in (*changed, jnp.float32(0))]
    aliases = {first + index: index for index in range(len(changed))}
    ours = jax.ffi.ffi_call(target, results, input_output_aliases=aliases, vmap_method="sequential")
    return jax.lax.platform_dependent(*arrays, cpu=ours, default=otherwise)


def joined(*arrays: Any) -> Any:
    """Arrays of any shapes, one behind the other in a vector; float32 by the call above.

    XLA reads all arrays for every part of the vector, beyond their ends behind masks, which some processors do at a
    hundredth of the speed of copying (design/training-updates.md).
    """
    if any(array.dtype != jnp.float32 for array in arrays):
        return _concatenated(*arrays)
    return call(JOINED, (sum(array.size for array in arrays),), _concatenated, *arrays)


def _concatenated(*arrays: Any) -> Any:
    return jnp.concatenate([array.ravel() for array in arrays])


def transposed(x: Any) -> Any:
    """Rows and columns of a matrix, or of several, exchanged."""
    return x.swapaxes(-1, -2)


@functools.cache
def _registered() -> None:
    targets = (*RECTIFIED, *ROUNDED, *NARROW, *CONVOLUTION, *ROUNDED_CONVOLUTION, JOINED, ADAM)
    products = (*rectified_handlers(), *rounded_handlers(), *narrow_handlers())
    convolutions = (*convolution_handlers(), *rounded_convolution_handlers())
    handlers = (*products, *convolutions, joined_handler(), adam_handler())
    for target, handler in zip(targets, handlers, strict=True):
        jax.ffi.register_ffi_target(target, handler, platform="cpu")
