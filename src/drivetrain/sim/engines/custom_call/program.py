"""A kernel as an operation of a program that JAX traces.

An input of the state and its output are the same memory: donated to a jitted function, or carried by a scan, a state
stays where it is; where the caller keeps it, XLA copies it first.
"""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUntypedFunctionDecorator=false

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drivetrain.core.errors import InvalidInput
from drivetrain.sim.api import Settings
from drivetrain.sim.devices import differing_like
from drivetrain.sim.engines.arrays import Array, Form, checked_value
from drivetrain.sim.trace import Shapes

Operation = Callable[..., Sequence[jax.Array]]


@dataclass(frozen=True, kw_only=True)
class Program:
    """What a program of JAX that is being traced has in place of memory; see `signature.Memory`."""

    target: str
    """Name of the handler."""
    attributes: Mapping[str, Any]
    """What the handler is told besides arrays; the kernel's hash among them."""
    num_state: int
    """Leaves of a state."""

    def taken(self, leaf: Any, form: Form) -> jax.Array | Array:
        """A value of the program, whose integers are only widened, or a constant of NumPy's that it closes over.

        Raises:
            InvalidInput: Its shape or type does not fit.
        """
        return checked_value(leaf, form)

    def empty(self, form: Form) -> jax.ShapeDtypeStruct:
        """See `Memory`."""
        return jax.ShapeDtypeStruct(form.shape, form.dtype)

    def launch(self, number: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> list[jax.Array]:
        """Add the operation to the program; see `signature.Launch`."""
        done, state = 2, {3 + k: k for k in range(self.num_state)}  # after the step's number and the keys
        aliases = {done: self.num_state, **state}
        call = jax.ffi.ffi_call(self.target, tuple(outputs), input_output_aliases=aliases)

        def operation(*arrays: jax.Array) -> tuple[jax.Array, ...]:
            return tuple(call(*arrays, **self.attributes))

        given = (jnp.asarray(number, jnp.uint32), *inputs)
        return differing_like(given, list(refusing(operation)(*given)))


def program_of(target: str, digest: str, traced: Shapes, settings: Settings, **counts: int) -> Program:
    """A kernel's place in programs: its handler, its hash, and the numbers that the handler needs."""
    counts = {"num_envs": settings.num_envs, "num_steps": settings.num_steps, **counts}
    return Program(
        target=target,
        attributes={"kernel": digest, **{name: np.int64(count) for name, count in counts.items()}},
        num_state=len(jax.tree.leaves(traced.state)),
    )


def refusing(operation: Operation) -> Operation:
    """An operation that says in a sentence why it has no derivative and cannot be mapped."""
    mapped = jax.custom_batching.custom_vmap(operation)

    @mapped.def_vmap
    def map_over(axis_size: int, in_batched: Any, *arrays: Any) -> Any:  # pyright: ignore[reportUnusedFunction]
        raise InvalidInput(
            f"jax.vmap of a rollout: expected a call that is not mapped, got one mapped over {axis_size}; a kernel "
            "runs the environments that it was compiled for, with one policy: compile with as many more (num_envs), "
            "and reshape, or go through several policies by jax.lax.map"
        )

    differentiated = jax.custom_jvp(mapped)

    @differentiated.defjvp
    def differentiate(primals: Any, tangents: Any) -> Any:  # pyright: ignore[reportUnusedFunction]
        raise InvalidInput(
            "a derivative of a rollout: a compiled kernel has none; put jax.lax.stop_gradient around what goes into "
            'it, or compile with engine="xla"'
        )

    return differentiated
