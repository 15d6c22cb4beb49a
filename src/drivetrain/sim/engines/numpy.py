"""The program interpreted by NumPy, one operation at a time for all environments: slow, and easy to follow."""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from typing import Any

import numpy as np

from drivetrain.sim.api import RolloutState, Runner, Settings, Tree
from drivetrain.sim.engines.signature import Signature
from drivetrain.sim.ir.evaluate import evaluate
from drivetrain.sim.ir.importer import import_jaxpr
from drivetrain.sim.ir.passes.pipeline import simplified
from drivetrain.sim.trace import Traced


def build(traced: Traced, settings: Settings) -> Runner:
    """The simplified program, evaluated num_steps times per call."""
    block = simplified(import_jaxpr(traced.jaxpr, traced.name))
    signature = Signature(traced, settings)
    num_leaves = signature.state.num_leaves

    def run(state: RolloutState, actions: Tree, shared: Tree = ()) -> tuple[RolloutState, dict[str, Tree]]:
        leaves, keys, number, done, action_leaves, given = signature.given(state, actions, shared)
        alike = [leaf[None] for leaf in given]
        rows: list[list[Any]] = []
        for index in range(settings.num_steps):
            step = np.asarray([number + index]).astype(np.uint32)
            results = evaluate(block, [keys, step, *leaves, done, *(a[index] for a in action_leaves), *alike])
            whole = [np.broadcast_to(x, (settings.num_envs, *x.shape[1:])) for x in results]
            leaves, done = whole[:num_leaves], whole[num_leaves]
            rows.append(whole[num_leaves + 1 :])
        trajectory = signature.record.tree([np.stack(column) for column in zip(*rows, strict=True)])
        env = signature.state.tree(leaves)
        return RolloutState(env, keys, signature.steps_after(number), done, None), trajectory

    return run
