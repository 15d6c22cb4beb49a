"""What JAX knows of values inside `jax.shard_map`: along which axes of the mesh they differ between devices."""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from typing import Any

import jax

from drivetrain.sim.api import Tree


def differing_like(given: Any, results: Tree) -> Tree:
    """Results that JAX takes to differ along whatever axes something given does; themselves where nothing does.

    It takes those of an operation, which it cannot see into, and constants for the same on all devices. But a state is
    carried by scans, where one that a step makes is to differ along the axes along which the one before it does.
    """
    arrays = [x for x in jax.tree.leaves(given) if isinstance(x, jax.Array)]
    axes = frozenset[str]().union(*(jax.typeof(x).manual_axis_type.varying for x in arrays))

    def differing(x: Any) -> Any:
        missing = axes - jax.typeof(x).manual_axis_type.varying
        return jax.lax.pcast(x, tuple(sorted(missing)), to="varying") if missing else x

    return jax.tree.map(differing, results) if axes else results
