"""Brings an actor's environments back to where their episodes were: their seeds, then the same actions."""

from collections.abc import Callable
from typing import Any

from drivetrain.core.errors import RunError
from drivetrain.train.environments import Environment
from drivetrain.train.interface import Arrays
from drivetrain.train.rounds.episodes import Episodes, checksum


def bring_back(
    env: Environment, env_id: str, seed: int, episodes: Episodes, lane: int, counted: Callable[[float], None]
) -> Arrays:
    """Play the present episode of one environment again; what it shows then.

    Args:
        env: The environment.
        env_id: Its name.
        seed: Of the episode.
        episodes: Of the actor's environments.
        lane: Which of them.
        counted: Told each reward.

    Raises:
        RunError: It does not show what it did.
    """
    obs = env.reset(seed)
    for index, action in enumerate(episodes.actions[lane]):
        obs, reward, terminated, truncated = env.step(action)
        counted(reward)
        if terminated or truncated:
            raise _changed(env_id, f"ended after {index + 1} of {len(episodes.actions[lane])} actions")
    if episodes.actions[lane] and checksum(_as_row(obs), 0) != episodes.shown[lane]:
        raise _changed(env_id, f"shows something else after {len(episodes.actions[lane])} actions")
    return obs


def _as_row(obs: Arrays) -> Any:
    return {name: entry[None] for name, entry in obs.items()} if isinstance(obs, dict) else obs[None]


def _changed(env_id: str, how: str) -> RunError:
    return RunError(
        f"environment {env_id!r} did not come back to where its episode was when the checkpoint was written: it {how}. "
        "A deterministic run goes on only with environments that their seed and the actions determine; begin a new run "
        "without --deterministic"
    )
