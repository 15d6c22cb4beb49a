"""PPO of `drivetrain train` on the same simulator, stepped through Gymnasium, one environment at a time."""

from drivetrain.bench.sim.peers.entry import serve_simulator
from drivetrain.bench.sim.peers.trainer_ours import training

if __name__ == "__main__":
    serve_simulator(lambda scene: training(scene, "none"))
