"""PPO in the manner of CleanRL on `sim.make_vec`."""

from drivetrain import sim
from drivetrain.bench.sim.peers.entry import serve_simulator
from drivetrain.bench.sim.peers.learning_cleanrl import learning

if __name__ == "__main__":
    serve_simulator(lambda scene: learning(scene, lambda s: sim.make_vec(s.env, s.num_envs, autoreset="same_step")))
