"""Stable-Baselines3's PPO on its own DummyVecEnv: Gymnasium's environments one after the other."""

# The peer may be absent where types are checked.
# pyright: basic, reportMissingImports=false

from stable_baselines3.common.env_util import make_vec_env

from drivetrain.bench.sim.peers.entry import serve_simulator
from drivetrain.bench.sim.peers.learning_sb3 import learning

if __name__ == "__main__":
    serve_simulator(lambda scene: learning(scene, lambda s: make_vec_env(s.env, n_envs=s.num_envs)))
