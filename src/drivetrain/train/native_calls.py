"""Loops of ours as operations of JAX: a custom call on CPUs, and what it computes in XLA's own operations elsewhere."""

# JAX annotates parts of its interface only:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from drivetrain.train._native import joined_handler, narrow_handlers, rectified_handlers

RECTIFIED = ("drivetrain_rectified", "drivetrain_rectified_by_weight", "drivetrain_rectified_by_input")
NARROW = ("drivetrain_narrow_spread", "drivetrain_narrow_outer", "drivetrain_narrow_gather")
JOINED = "drivetrain_joined"


def call(target: str, shape: tuple[int, ...], otherwise: Callable[..., Any], *arrays: Any) -> Any:
    """One of the calls above, float32[shape] of float32 arrays.

    Args:
        target: Its name.
        shape: Of what it gives.
        otherwise: The same function of the arrays, for other devices than CPUs.
        arrays: Its arguments.
    """
    _registered()
    ours = jax.ffi.ffi_call(target, jax.ShapeDtypeStruct(shape, jnp.float32), vmap_method="sequential")
    return jax.lax.platform_dependent(*arrays, cpu=ours, default=otherwise)


def transposed(x: Any) -> Any:
    """Rows and columns of a matrix, or of several, exchanged."""
    return x.swapaxes(-1, -2)


@functools.cache
def _registered() -> None:
    handlers = (*rectified_handlers(), *narrow_handlers(), joined_handler())
    for target, handler in zip((*RECTIFIED, *NARROW, JOINED), handlers, strict=True):
        jax.ffi.register_ffi_target(target, handler, platform="cpu")
