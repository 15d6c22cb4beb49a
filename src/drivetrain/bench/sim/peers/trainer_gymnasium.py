"""PPO of `drivetrain train` on the same simulator, stepped through Gymnasium, one environment at a time."""

from drivetrain.bench.serving import NotOffered
from drivetrain.bench.sim.peers.entry import Simulator, serve_simulator
from drivetrain.bench.sim.peers.trainer_ours import training
from drivetrain.bench.sim.scene import Scene

MOST_ENVS = 64
"""Each is loaded by itself, so that more take minutes to begin."""


def simulator(scene: Scene) -> Simulator:
    """As `trainer_ours`, without a kernel for the policy."""
    if scene.num_envs > MOST_ENVS:
        raise NotOffered(f"it is asked for up to {MOST_ENVS} environments, each of which is made by itself")
    return training(scene, "none")


if __name__ == "__main__":
    serve_simulator(simulator)
