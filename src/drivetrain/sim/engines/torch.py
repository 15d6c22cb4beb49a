"""The engine `torch`: the program interpreted operation by operation, eagerly, for all environments at once."""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from drivetrain.sim.api import RolloutState, Runner, Settings, Tree
from drivetrain.sim.engines.arrays import checked_inputs, steps_after
from drivetrain.sim.engines.tensors.evaluate import Evaluator
from drivetrain.sim.engines.tensors.words import Tensor, array_of, tensor_of, torch
from drivetrain.sim.ir.importer import import_jaxpr
from drivetrain.sim.ir.passes.pipeline import simplified
from drivetrain.sim.ir.program import Block
from drivetrain.sim.trace import Traced

Step = Callable[[Sequence[Tensor]], list[Tensor]]


def build(traced: Traced, settings: Settings) -> Runner:
    """The simplified program, evaluated num_steps times per call."""
    block = simplified(import_jaxpr(traced.jaxpr, traced.name))
    evaluator = Evaluator()
    return TensorRunner(traced, settings, block, lambda arguments: evaluator.block(block, arguments))


@dataclass(frozen=True)
class TensorRunner:
    """Calls a step on tensors num_steps times per call.

    arrays ─`checked_inputs`─▶ ─`tensors_of`─▶ tensors ─`advanced`─▶ tensors ─▶ arrays

    Attributes:
        traced: What is simulated.
        settings: How.
        block: The program of a step.
        step: It, on tensors.
    """

    traced: Traced
    settings: Settings
    block: Block
    step: Step

    def __call__(self, state: RolloutState, actions: Tree, shared: Tree = ()) -> tuple[RolloutState, dict[str, Tree]]:
        """See `Runner`."""
        given = checked_inputs(self.traced, self.settings, state, actions, shared)
        _, keys, number, *_ = given
        carried, _, columns = self.advanced(*tensors_of(given))
        dtypes = [value.dtype for value in self.block.outputs]
        trajectory = [array_of(x, dtype) for x, dtype in zip(columns, dtypes[len(carried) :], strict=True)]
        *after, done = (array_of(x.contiguous(), dtype) for x, dtype in zip(carried, dtypes, strict=False))
        env = jax.tree.unflatten(jax.tree.structure(self.traced.state), after)
        last = RolloutState(env, keys, steps_after(number, self.settings), done, None)
        return last, jax.tree.unflatten(jax.tree.structure(self.traced.record), trajectory)

    def advanced(
        self, carried: list[Tensor], words: Tensor, number: Tensor, rows: list[Tensor], alike: list[Tensor]
    ) -> tuple[list[Tensor], Tensor, list[Tensor]]:
        """State, `done` and the step's number after a call, and its records; nothing leaves the tensors' device."""
        steps: list[list[Tensor]] = []
        for index in range(self.settings.num_steps):
            results = self.step([words, number, *carried, *(x[index] for x in rows), *alike])
            whole = [x.expand(self.settings.num_envs, *x.shape[1:]) for x in results]
            carried, number = whole[: len(carried)], number + 1
            steps.append(whole[len(carried) :])
        return carried, number, [torch.stack(column) for column in zip(*steps, strict=True)]


def tensors_of(
    given: tuple[list[Any], Any, Any, Any, list[Any], list[Any]],
) -> tuple[list[Tensor], Tensor, Tensor, list[Tensor], list[Tensor]]:
    """What `checked_inputs` gives, as `advanced` takes it: state and `done`, keys, step, actions, what all share."""
    leaves, keys, number, done, rows, alike = given
    return (
        [tensor_of(x) for x in (*leaves, done)],
        tensor_of(keys),
        tensor_of(np.asarray([number]).astype(np.uint32)),
        [tensor_of(x) for x in rows],
        [tensor_of(leaf[None]) for leaf in alike],
    )
