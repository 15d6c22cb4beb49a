"""Gymnasium's AsyncVectorEnv: a process for each environment, with observations in shared memory.

CPU time is that of all its processes.
"""

from drivetrain.bench.sim.peers.entry import serve_simulator
from drivetrain.bench.sim.peers.gymnasium_own import vectorized

MOST_ENVS = 64
"""Each is a process."""

if __name__ == "__main__":
    serve_simulator(lambda scene: vectorized(scene, "async", MOST_ENVS))
