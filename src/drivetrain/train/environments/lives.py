"""Lives of Atari's games as episodes of training, as DQN's authors have them.

life ─▶ life ─▶ ... ─▶ game over ─▶ a new game
    each an episode   └─ a reset that starts one

Reference: Mnih et al. 2015, Methods, "Training details": the end of a life ends an episode, and the game goes on.
"""

from typing import Any, SupportsFloat, cast

import gymnasium


class LivesAsEpisodes(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Ends an episode with each life; the next one goes on where that was lost.

    A reset with a seed starts a new game at any time: what follows is then the seed's.

    Args:
        env: Made by ale_py, and preprocessed: a step of it is one of the agent's.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self._lives = 0
        self._is_over = True

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Terminated when a life is lost. No life left is for the game to say: some show none for a while before."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._is_over = terminated or truncated
        before, self._lives = self._lives, self._lives_left()
        return observation, reward, terminated or 0 < self._lives < before, truncated, info

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """A new game where that is over or a seed is given; else a step without action of the one that goes on."""
        if not self._is_over and seed is None:
            observation, _, terminated, truncated, info = self.env.step(0)
            self._is_over = terminated or truncated
        else:
            self._is_over = True
        if self._is_over:
            observation, info = self.env.reset(seed=seed, options=options)
            self._is_over = False
        self._lives = self._lives_left()
        return observation, info  # pyright: ignore[reportPossiblyUnboundVariable]

    def _lives_left(self) -> int:
        return int(cast(Any, self.env.unwrapped).ale.lives())
