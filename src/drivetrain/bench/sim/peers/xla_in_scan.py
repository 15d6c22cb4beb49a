"""Our engine `xla` inside a program of JAX: the same scan as `ours_in_scan`, of XLA's own steps."""

from drivetrain.bench.sim.peers.entry import serve_simulator
from drivetrain.bench.sim.peers.ours_in_scan import simulator

if __name__ == "__main__":
    serve_simulator(lambda scene: simulator(scene, "xla"))
