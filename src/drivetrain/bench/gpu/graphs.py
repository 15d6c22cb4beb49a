"""Single steps replayed as one CUDA graph: what launching them costs where Python has no part in it.

a call ─call_kernel─▶ its arrays ─▶ so many launches, each of the next step, the state in its place ─▶ a graph
"""

# cuda.core is typed in part, and the engines' runners differ.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportAttributeAccessIssue=false

from collections.abc import Callable
from typing import Any

import jax

from drivetrain.sim.engines.signature import call_kernel


def replayed(rollout: Any, state: Any, actions: Any, num_launches: int) -> tuple[Callable[[], None], list[Any]]:
    """A function that puts the graph on the stream once more, and the leaves of the state, which it changes.

    Steps are numbered when the graph is built, so every replay draws the same random numbers.

    Args:
        rollout: Of the engine `cuda`, one step per call, on a stream that can be captured: not the default one.
        state: Where it begins, on the host: its arrays on the GPU are copies.
        actions: The same for every step.
        num_launches: Steps of one replay.
    """
    runner, caught = rollout.runner, []

    def launch(*call: Any) -> Any:
        caught.append(call)
        return runner.launch(*call)  # loads the kernel, which a graph that is being built may not

    runner.gpu.device.set_current()
    call_kernel(runner.signature, runner.gpu, launch, runner.signature.flat(state, actions, ()), state.step)
    ((number, inputs, outputs),) = caught
    num_leaves = len(jax.tree.leaves(state.env))
    _, done, *given = inputs
    leaves = given[:num_leaves]
    arrays = [*inputs, *leaves, done, *outputs[num_leaves + 1 :]]
    builder = runner.gpu.stream.create_graph_builder()
    builder.begin_building()
    for k in range(num_launches):
        runner.put(builder, number + k, arrays)
    graph = builder.end_building().complete()

    def replay() -> None:
        graph.launch(runner.gpu.stream)
        runner.gpu.keep(arrays)

    return replay, leaves
