"""PPO in the manner of CleanRL on Gymnasium's SyncVectorEnv, which its files use."""

# Gymnasium is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from typing import Any

import gymnasium
from gymnasium.vector import AutoresetMode

from drivetrain.bench.sim.peers.entry import serve_simulator
from drivetrain.bench.sim.peers.learning_cleanrl import learning
from drivetrain.bench.sim.scene import Scene


def made(scene: Scene) -> Any:
    """Restarted in the step that ends an episode, as the files expect."""
    same_step = {"autoreset_mode": AutoresetMode.SAME_STEP}
    return gymnasium.make_vec(scene.env, scene.num_envs, vectorization_mode="sync", vector_kwargs=same_step)


if __name__ == "__main__":
    serve_simulator(lambda scene: learning(scene, made))
