"""Functions of many rows, some rows at a time: what they hold on the way then stays in a core's caches.

[rows, ...] -> [parts, rows of a part, ...] -> one part after another -> together again
"""

# JAX annotates parts of its interface only:
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

_FEWEST, _MOST = 128, 256  # rows of a part (design/training-ppo.md)


def parts_of(num_rows: int) -> int:
    """How many equal parts so many rows are taken in; 1 where they have none of a good size, and on GPUs."""
    if jax.default_backend() != "cpu":
        return 1
    sizes = [size for size in range(_FEWEST, _MOST + 1) if num_rows % size == 0]
    return num_rows // sizes[-1] if sizes else 1


def mapped(function: Callable[[Any], Any], rows: Any) -> Any:
    """What a function gives for each row, of trees of arrays [rows, ...]."""
    num_parts = parts_of(_num_rows(rows))
    if num_parts == 1:
        return function(rows)
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), jax.lax.map(function, _split(rows, num_parts)))


def mean(function: Callable[[Any], Any], rows: Any) -> Any:
    """What a function gives as a mean over rows, a tree of floats; that of all of them at once but for rounding."""
    num_parts = parts_of(_num_rows(rows))
    if num_parts == 1:
        return function(rows)
    parts = _split(rows, num_parts)
    shapes = jax.eval_shape(function, jax.tree.map(lambda x: x[0], parts))
    nothing = jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes)
    sums, _ = jax.lax.scan(lambda sums, part: (jax.tree.map(jnp.add, sums, function(part)), None), nothing, parts)
    return jax.tree.map(lambda sum_: sum_ / num_parts, sums)


def _num_rows(rows: Any) -> int:
    return len(jax.tree.leaves(rows)[0])


def _split(rows: Any, num_parts: int) -> Any:
    return jax.tree.map(lambda x: x.reshape(num_parts, -1, *x.shape[1:]), rows)
