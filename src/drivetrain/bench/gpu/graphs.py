"""Single steps replayed as one CUDA graph: what launching them costs where Python has no part in it.

a call ─▶ its arrays ─▶ so many launches, each of the next step, the state in its place ─▶ a graph
"""

# cuda.core is typed in part, and the engines' runners differ.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportAttributeAccessIssue=false, reportUnknownLambdaType=false

from collections.abc import Callable
from typing import Any

import jax


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
    launch = runner.launch
    runner.launch = lambda *call: caught.append(call) or launch(*call)
    try:
        rollout(state, actions)
    finally:
        del runner.launch
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
