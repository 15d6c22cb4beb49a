"""The engine `torch`: the program interpreted operation by operation, eagerly, for all environments at once."""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from collections.abc import Callable, Sequence

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
    block = simplified(import_jaxpr(traced.jaxpr))
    evaluator = Evaluator()
    return runner(traced, settings, block, lambda arguments: evaluator.block(block, arguments))


def runner(traced: Traced, settings: Settings, block: Block, step: Step) -> Runner:
    """Calls a step on tensors num_steps times per call, from arrays to arrays."""
    record = jax.tree.structure(traced.record)
    num_leaves = len(jax.tree.leaves(traced.state))

    def run(state: RolloutState, actions: Tree, shared: Tree = ()) -> tuple[RolloutState, dict[str, Tree]]:
        leaves, keys, number, done, action_leaves, given = checked_inputs(traced, settings, state, actions, shared)
        alike = [tensor_of(leaf[None]) for leaf in given]
        carried = [tensor_of(x) for x in (*leaves, done)]
        words, every = tensor_of(keys), [tensor_of(x) for x in action_leaves]
        rows: list[list[Tensor]] = []
        for index in range(settings.num_steps):
            here = tensor_of(np.asarray([number + index]).astype(np.uint32))
            results = step([words, here, *carried, *(x[index] for x in every), *alike])
            whole = [x.expand(settings.num_envs, *x.shape[1:]) for x in results]
            carried = whole[: num_leaves + 1]
            rows.append(whole[num_leaves + 1 :])
        columns = [torch.stack(column) for column in zip(*rows, strict=True)]
        dtypes = [value.dtype for value in block.outputs]
        trajectory = [array_of(x, dtype) for x, dtype in zip(columns, dtypes[num_leaves + 1 :], strict=True)]
        after = [array_of(x.contiguous(), dtype) for x, dtype in zip(carried, dtypes, strict=False)]
        env = jax.tree.unflatten(jax.tree.structure(traced.state), after[:num_leaves])
        last = RolloutState(env, keys, steps_after(number, settings), after[num_leaves], None)
        return last, jax.tree.unflatten(record, trajectory)

    return run
