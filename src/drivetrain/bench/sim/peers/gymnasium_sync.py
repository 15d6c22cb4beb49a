"""Gymnasium's SyncVectorEnv: one environment after the other, in this process."""

from drivetrain.bench.sim.peers.entry import serve_simulator
from drivetrain.bench.sim.peers.gymnasium_own import vectorized

MOST_ENVS = 1024
"""A step of 16,384 of them takes longer than a slice."""

if __name__ == "__main__":
    serve_simulator(lambda scene: vectorized(scene, "sync", MOST_ENVS))
