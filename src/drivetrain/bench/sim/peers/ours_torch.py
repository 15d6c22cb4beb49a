"""Our engine `torch`: the same environment and call as `ours`."""

from drivetrain.bench.sim.peers.entry import serve_simulator
from drivetrain.bench.sim.peers.ours import simulator

if __name__ == "__main__":
    serve_simulator(lambda scene: simulator(scene, "torch"))
