"""Stable-Baselines3's PPO on our simulators, through `SB3VecEnv`."""

# The peer may be absent where types are checked.
# pyright: basic, reportMissingImports=false

from stable_baselines3.common.vec_env import VecMonitor

from drivetrain.bench.sim.peers.entry import serve_simulator
from drivetrain.bench.sim.peers.learning_sb3 import learning
from drivetrain.sim.gymnasium.sb3 import SB3VecEnv

if __name__ == "__main__":
    serve_simulator(lambda scene: learning(scene, lambda s: VecMonitor(SB3VecEnv(s.env, s.num_envs))))
