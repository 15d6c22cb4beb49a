"""What our functions need of JAX where they are traced; imports JAX."""

# JAX annotates parts of its interface only:
# pyright: reportUnknownMemberType=false

import contextlib
from collections.abc import Generator

import jax


@contextlib.contextmanager
def broadcasting() -> Generator[None]:
    """Where our functions are traced and called: they add biases to rows, and counts to real numbers, and are given
    NumPy's arrays, which the caller's JAX may forbid by its settings, or by variables that reach all processes
    (JAX_NUMPY_RANK_PROMOTION, JAX_TRANSFER_GUARD).
    """
    with (
        jax.numpy_rank_promotion("allow"),
        jax.numpy_dtype_promotion("standard"),
        jax.transfer_guard("allow"),
    ):
        yield
