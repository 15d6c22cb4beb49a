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


def product_behind_units(z: Any, weight: Any, precision: Precision) -> Any:
    """The product max(z, 0) @ weight, of a learner's JAX arrays; its derivative at z = 0 is 0."""
    if precision == "bfloat16":
        from drivetrain.train.networks.rounded import rounded_product  # imports jax: only where it is needed

        return rounded_product(z, weight, behind_units=True)
    from drivetrain.train.networks.rectified import rectified_product  # imports jax: as above

    return rectified_product(z, weight)
