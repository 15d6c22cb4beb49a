"""Our engine `cuda`: the same environment and call as `ours`, actions and state in the device's memory."""

# JAX is typed in part, and the engines' runners differ.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownVariableType=false, reportAttributeAccessIssue=false

import jax
import numpy as np

from drivetrain.bench.sim.peers.entry import Simulator, serve_simulator
from drivetrain.bench.sim.peers.ours import going_on, offered, random_actions
from drivetrain.bench.sim.scene import Scene


def simulator(scene: Scene) -> Simulator:
    """A rollout that goes on from where it stands; its stream is waited for.

    Raises:
        NotOffered: There is no GPU, or the engine does not compile the environment.
    """
    rollout = offered(scene, "cuda")
    gpu = rollout.runner.gpu
    actions = random_actions(rollout.env, rollout.params, scene.num_steps, scene.num_envs)
    on_device = jax.tree.map(lambda x: gpu.copied(np.asarray(x)), actions)
    return going_on(rollout, on_device, scene, lambda _: gpu.stream.sync())


if __name__ == "__main__":
    serve_simulator(simulator)
