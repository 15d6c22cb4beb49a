"""N environments of one simulator as Stable-Baselines3's `VecEnv`, for its algorithms unchanged.

    PPO("MlpPolicy", VecMonitor(SB3VecEnv("CartPole-v1", 64))).learn(100_000)

SB3 knows single environments of Gymnasium's, `gymnasium.make("drivetrain/CartPole-v1")` among them, and steps a list of
them in Python. Here a step of all is one call of a kernel.
"""

# SB3 may be absent where types are checked; JAX is typed in part.
# pyright: basic, reportMissingImports=false

from collections.abc import Sequence
from typing import Any

import numpy as np

from drivetrain.core.errors import InvalidInput
from drivetrain.core.extras import naming_extra
from drivetrain.sim.forked import refuse_after_fork
from drivetrain.sim.gymnasium.infos import of_each

with naming_extra():
    from stable_baselines3.common.vec_env import VecEnv

    from drivetrain.sim.gymnasium.vector import SimVectorEnv


class SB3VecEnv(VecEnv):
    """Episodes restart in the step that ends them, as SB3 expects; put `VecMonitor` around it for episode returns.

    Args:
        env: As for `sim.make_vec`, like `num_envs` and the options; `autoreset` is "same_step".
    """

    def __init__(self, env: Any, num_envs: int = 1, **options: Any) -> None:
        """Nothing is compiled before the first `reset`."""
        if "autoreset" in options:
            raise InvalidInput("autoreset: Stable-Baselines3 expects same_step, so it is not an option here")
        refuse_after_fork()  # spaces are made by JAX
        self.batch = SimVectorEnv(env, num_envs, autoreset="same_step", **options)
        self.waiting: Any = None
        super().__init__(num_envs, self.batch.single_observation_space, self.batch.single_action_space)

    def set_options(self, options: list[dict[str, Any]] | dict[str, Any] | None = None) -> None:
        """Refused, unless there are none: a reset restarts all environments, and knows nothing else."""
        if any(options if isinstance(options, list) else [options]):
            raise InvalidInput(f"set_options: expected none, since a reset restarts every environment, got {options!r}")
        super().set_options(options)

    def reset(self) -> Any:
        """Start all episodes, from the number that `seed` was given, if it was."""
        seed = self._seeds[0]
        obs, _ = self.batch.reset(seed=None if seed is None else int(seed))
        self.reset_infos = [{} for _ in range(self.num_envs)]
        self._reset_seeds()
        self._reset_options()
        return obs

    def step_async(self, actions: np.ndarray) -> None:
        """Keep the actions for `step_wait`."""
        self.waiting = actions

    def step_wait(self) -> tuple[Any, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Take the step: observations, rewards, ends, and an info for each environment.

        Each info has `TimeLimit.truncated`, whether this step only cut the episode off, as SB3's own have; that of a
        step that ended one also `terminal_observation`.
        """
        obs, reward, terminated, truncated, batch = self.batch.step(self.waiting)
        ended = terminated | truncated
        infos = of_each(batch, self.num_envs)
        cut_off = (truncated & ~terminated).tolist()
        last = of_each(batch["final_info"], self.num_envs) if ended.any() else []
        for index in np.flatnonzero(ended):
            infos[index] = {**last[index], "terminal_observation": batch["final_obs"][index]}
        for info, is_cut_off in zip(infos, cut_off, strict=True):
            info["TimeLimit.truncated"] = is_cut_off
        return obs, reward, ended, infos

    def get_images(self) -> list[Any]:
        """A frame uint8[height, width, 3] of every environment, with render_mode="rgb_array"."""
        return list(self.batch.render())

    def close(self) -> None:
        """Let kernel and state go."""
        self.batch.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """An attribute of the batch, once for each environment asked for."""
        return [getattr(self.batch, attr_name)] * len(self._chosen(indices))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Refused: environments of a batch have nothing of their own."""
        raise InvalidInput(f"set_attr({attr_name!r}): the environments are one compiled program; make it anew instead")

    def env_method(self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any) -> list[Any]:
        """Refused: environments of a batch have nothing of their own."""
        raise InvalidInput(f"env_method({method_name!r}): the environments are one compiled program without methods")

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """No environment is."""
        return [False] * len(self._chosen(indices))

    def _chosen(self, indices: Any) -> Sequence[int]:
        return list(self._get_indices(indices))
