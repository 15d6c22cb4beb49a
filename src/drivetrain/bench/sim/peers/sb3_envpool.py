"""Stable-Baselines3's PPO on EnvPool.

EnvPool restarts in the step after an end, which SB3 does not know: it takes that step, whose action is ignored, for one
of the new episode. EnvPool's own example for SB3 leaves it so too. It costs a step per episode and no speed.
"""

# EnvPool ships no types.
# pyright: basic, reportMissingImports=false

from typing import Any

import numpy as np
from stable_baselines3.common.vec_env import VecEnv, VecMonitor

from drivetrain.bench.sim.peers.entry import serve_simulator
from drivetrain.bench.sim.peers.envpool_vector import opened
from drivetrain.bench.sim.peers.learning_sb3 import learning
from drivetrain.bench.sim.scene import Scene


class PoolVecEnv(VecEnv):
    """An EnvPool as SB3's vector environment."""

    def __init__(self, scene: Scene) -> None:
        """One of `scene.num_envs` environments."""
        self.pool = opened(scene)
        super().__init__(scene.num_envs, self.pool.observation_space, self.pool.action_space)

    def reset(self) -> Any:
        """Observations."""
        return self.pool.reset()[0]

    def step_async(self, actions: np.ndarray) -> None:
        """Keep the actions."""
        self.actions = actions.astype(np.int32)

    def step_wait(self) -> Any:
        """Take the step."""
        obs, reward, terminated, truncated, _ = self.pool.step(self.actions)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        ended = terminated | truncated
        for index in np.flatnonzero(ended):
            infos[index] = {"terminal_observation": obs[index], "TimeLimit.truncated": bool(truncated[index])}
        return obs, reward, ended, infos

    def close(self) -> None:
        """Nothing to let go."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Nothing is known."""
        return [None] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Nothing is settable."""

    def env_method(self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any) -> list[Any]:
        """There are none."""
        return [None] * self.num_envs

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """None is."""
        return [False] * self.num_envs


if __name__ == "__main__":
    serve_simulator(lambda scene: learning(scene, lambda s: VecMonitor(PoolVecEnv(s))))
