"""Products by weights, the one place where the precision of a network matters."""

from typing import Any

from drivetrain.train.config import Precision


def product(x: Any, weight: Any, precision: Precision) -> Any:
    """X @ weight, NumPy's or JAX's: [..., rows, inputs] by [..., inputs, outputs].

    In bfloat16 both factors are rounded to it, the sums are float32, and so it is in the backward pass; JAX's arrays
    alone.
    """
    if precision == "float32":
        return x @ weight
    from drivetrain.train.networks.rounded import rounded_product  # imports jax: only where it is needed

    return rounded_product(x, weight)
