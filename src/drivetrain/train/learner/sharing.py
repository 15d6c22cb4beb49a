"""Several learners: devices of one process that share the rows of each batch and take the same steps.

    rows of learner m -> loss, gradient -\
                                          mean over learners -> optimizer -> the same state everywhere
    rows of learner n -> loss, gradient -/

A pure update is told who the `Learners` are; `compiled` runs it on as many devices (design/training-learners.md).
"""

# JAX annotates parts of its interface only:
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from drivetrain.train.learner.noise import standard_normal
from drivetrain.train.native_calls import joined

_AXIS = "learner"
# Without it XLA copies parameters before and after a call that changes them in place (design/training-updates.md).
_OPTIONS: Any = {"xla_cpu_copy_insertion_use_region_analysis": True}
# Without it products are by what was fastest when they were compiled, and sums may be of any order.
_SAME_BITS: Any = {"xla_gpu_deterministic_ops": True}
WHOLE = P()
"""What every learner has all of."""
ROWS = P(None, _AXIS)
"""Arrays [U, B, ...] of which every learner has its rows."""
EACH = P(_AXIS)
"""Results of `Learners.apart`."""


@dataclass(frozen=True)
class Joined:
    """A tree of gradients that lie one behind the other in a vector."""

    vector: Any
    """float32; there may be more behind them."""
    tree: Any
    """The same numbers as a tree; a piece is copied out of the vector where it is used."""


@dataclass(frozen=True)
class Learners:
    """Those who share the batches; what a pure update needs to know of them.

    Outside of `compiled` only one learner can be meant.
    """

    count: int = 1
    """How many."""

    def mean(self, tree: Any) -> Any:
        """Means over the learners, each of equal weight, of arrays of any shapes; one exchange for all of them."""
        if self.count == 1:
            return tree
        vector, restore = _joined(tree)
        return restore(jax.lax.pmean(vector, _AXIS))

    def mean_gradients(self, gradients: Any, others: Any = ()) -> tuple[Any, Any]:
        """Means over the learners of gradients and of others in one exchange; the gradients as an optimizer takes them.

        A tree, or, of several learners, `Joined`.
        """
        if self.count == 1:
            return gradients, others
        vector, restore = _joined((gradients, others))
        vector = jax.lax.pmean(vector, _AXIS)
        gradients, others = restore(vector)
        return Joined(vector, gradients), others

    def own(self, tree: Any) -> Any:
        """This learner's rows of arrays [B, ...] that everybody has; a count of rows that the learners divide."""
        if self.count == 1:
            return tree

        def part(x: Any) -> Any:
            num_rows = len(x) // self.count
            return jax.lax.dynamic_slice_in_dim(x, jax.lax.axis_index(_AXIS) * num_rows, num_rows)

        return jax.tree.map(part, tree)

    def gathered(self, tree: Any) -> Any:
        """The arrays [B, ...] of which every learner has its own rows, in the order of `own`."""
        if self.count == 1:
            return tree
        return jax.tree.map(lambda x: jax.lax.all_gather(x, _AXIS, tiled=True), tree)

    def apart(self, tree: Any) -> Any:
        """What each learner has for itself as arrays [M, ...], without an exchange; of one learner as it is."""
        return tree if self.count == 1 else jax.tree.map(lambda x: x[None], tree)

    def normal(self, key: tuple[Any, Any], shape: tuple[int, ...]) -> jax.Array:
        """Standard normal numbers for this learner's rows of a batch: float32[num_rows, ...].

        A row's numbers depend on the key (`noise.key_of_update`) and on its place in the whole batch, not on who
        holds it.
        """
        return standard_normal(key, shape, 0 if self.count == 1 else jax.lax.axis_index(_AXIS) * shape[0])


def _joined(tree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """The arrays in one vector, and what takes them out of one.

    Float32 is joined by a call of ours: XLA fuses what made the arrays into its own joining, where the sum that
    gives a bias's slopes is worked out again for every number of the vector (design/training-learners.md).
    """
    leaves, structure = jax.tree.flatten(tree)
    if not leaves or any(leaf.dtype != jnp.float32 for leaf in leaves):
        return jax.flatten_util.ravel_pytree(tree)
    ends = np.cumsum([leaf.size for leaf in leaves]).tolist()
    vector = joined(*leaves)

    def restore(vector: Any) -> Any:
        pieces = [vector[end - leaf.size : end].reshape(leaf.shape) for leaf, end in zip(leaves, ends, strict=True)]
        return jax.tree.unflatten(structure, pieces)

    return vector, restore


ONE_LEARNER = Learners()


def compiled(
    function: Callable[..., Any],
    learners: Learners,
    takes: tuple[P, ...],
    gives: tuple[P, ...],
    *,
    same_bits: bool = False,
) -> Callable[..., Any]:
    """Compile a pure function of a state for the learners' devices; the first argument is donated.

    Args:
        function: What each learner does with its part of the arguments.
        learners: There must be as many devices; the state given must be made ready by `for_everyone`.
        takes: WHOLE, ROWS or EACH, for each argument.
        gives: Likewise for each part of the result; what is WHOLE has to be the same for every learner.
        same_bits: Whether a GPU is to compute the same bits each time, too; CPUs do.
    """
    function = _in_float32(function)
    options = _OPTIONS | (_SAME_BITS if same_bits and jax.default_backend() == "gpu" else {})
    if learners.count == 1:
        return jax.jit(function, donate_argnums=0, compiler_options=options)
    mesh = _mesh(learners)
    # Without check_vma: a mean over learners is the same everywhere, which JAX cannot see of what follows from it.
    split = jax.shard_map(function, mesh=mesh, in_specs=takes, out_specs=gives, check_vma=False)
    places = [tuple(NamedSharding(mesh, spec) for spec in specs) for specs in (takes, gives)]
    return jax.jit(split, donate_argnums=0, in_shardings=places[0], out_shardings=places[1], compiler_options=options)


def _in_float32(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same, whose products of float32 are of float32 on GPUs, too: XLA rounds their factors to 10 bits there (TF32)
    unless it is told otherwise. What the user has told JAX of that stays (JAX_DEFAULT_MATMUL_PRECISION).
    """
    if jax.default_backend() != "gpu" or jax.config.values["jax_default_matmul_precision"] is not None:
        return function

    @functools.wraps(function)
    def traced(*arguments: Any) -> Any:
        with jax.default_matmul_precision("float32"):
            return function(*arguments)

    return traced


def for_everyone(state: Any, learners: Learners) -> Any:
    """The state as each learner's copy; from anywhere else the first call would be compiled for its place."""
    return state if learners.count == 1 else jax.device_put(state, NamedSharding(_mesh(learners), WHOLE))


def _mesh(learners: Learners) -> Mesh:
    """One device for each."""
    return Mesh(np.array(jax.devices()[: learners.count]), (_AXIS,))
