"""The engine `torch`: the program interpreted operation by operation, eagerly, for all environments at once."""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from drivetrain.sim.api import RolloutState, Runner, Settings, Tree
from drivetrain.sim.engines.signature import Given, Signature
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

    arrays ─`given`─▶ ─`tensors_of`─▶ tensors ─`advanced`─▶ tensors ─▶ arrays

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

    @functools.cached_property
    def signature(self) -> Signature:
        """Of its calls."""
        return Signature(self.traced, self.settings)

    def __call__(self, state: RolloutState, actions: Tree, shared: Tree = ()) -> tuple[RolloutState, dict[str, Tree]]:
        """See `Runner`."""
        given = self.signature.given(state, actions, shared)
        carried, _, columns = self.advanced(*tensors_of(given))
        dtypes = [value.dtype for value in self.block.outputs]
        trajectory = [array_of(x, dtype) for x, dtype in zip(columns, dtypes[len(carried) :], strict=True)]
        *after, done = (array_of(x.contiguous(), dtype) for x, dtype in zip(carried, dtypes, strict=False))
        env = self.signature.state.tree(after)
        last = RolloutState(env, given.keys, self.signature.steps_after(given.step), done, None)
        return last, self.signature.record.tree(trajectory)

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


def tensors_of(given: Given) -> tuple[list[Tensor], Tensor, Tensor, list[Tensor], list[Tensor]]:
    """A caller's arguments, as `advanced` takes it: state and `done`, keys, step, actions, what all share."""
    leaves, keys, number, done, rows, alike = given
    return (
        [tensor_of(x) for x in (*leaves, done)],
        tensor_of(keys),
        tensor_of(np.asarray([number]).astype(np.uint32)),
        [tensor_of(x) for x in rows],
        [tensor_of(leaf[None]) for leaf in alike],
    )
