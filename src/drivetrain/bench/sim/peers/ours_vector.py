"""Our `sim.make_vec`: one step per call through Gymnasium's interface, observations and rewards handed out.

Settings: the engine `native`; restarts in the next step, as Gymnasium's own vector environments do.
"""

from drivetrain import sim
from drivetrain.bench.sim.peers.entry import Simulator, serve_simulator
from drivetrain.bench.sim.peers.gymnasium_vector import stepping
from drivetrain.bench.sim.scene import Scene


def simulator(scene: Scene) -> Simulator:
    """Steps with actions that are at hand."""
    return stepping(sim.make_vec(scene.env, scene.num_envs, num_threads=scene.num_threads), scene.num_envs)


if __name__ == "__main__":
    serve_simulator(simulator)
