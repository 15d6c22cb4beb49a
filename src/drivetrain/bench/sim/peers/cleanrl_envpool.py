"""PPO in the manner of CleanRL on EnvPool, as its ppo_atari_envpool.py does it."""

# EnvPool ships no types.
# pyright: basic, reportMissingImports=false

from typing import Any

from drivetrain.bench.sim.peers.entry import serve_simulator
from drivetrain.bench.sim.peers.envpool_vector import opened
from drivetrain.bench.sim.peers.learning_cleanrl import learning
from drivetrain.bench.sim.scene import Scene


class Named:
    """An EnvPool under the names that Gymnasium has for its spaces."""

    def __init__(self, scene: Scene) -> None:
        """One of `scene.num_envs` environments."""
        self.pool = opened(scene)
        self.num_envs = scene.num_envs
        self.single_observation_space, self.single_action_space = self.pool.observation_space, self.pool.action_space

    def reset(self) -> Any:
        """Observations and infos."""
        return self.pool.reset()

    def step(self, actions: Any) -> Any:
        """What Gymnasium's step gives; restarts are in the next step."""
        return self.pool.step(actions.astype("int32"))


if __name__ == "__main__":
    serve_simulator(lambda scene: learning(scene, Named))
