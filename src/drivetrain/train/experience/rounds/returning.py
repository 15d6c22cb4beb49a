"""Brings an actor's environments back to where their episodes were: their seeds, then the same actions."""

from collections.abc import Callable

from drivetrain.core.errors import RunError
from drivetrain.train.environments.environment import Environment
from drivetrain.train.experience.rounds.episodes import Episodes, checksum
from drivetrain.train.interface import Arrays, rows_of


def bring_back(
    env: Environment,
    env_id: str,
    seed: int,
    episodes: Episodes,
    lane: int,
    counted: Callable[[float], None],
    seen: Callable[[Arrays], Arrays] = lambda obs: obs,
) -> Arrays:
    """Play the present episode of one environment again; what it shows then.

    Args:
        env: The environment.
        env_id: Its name.
        seed: Of the episode.
        episodes: Of the actor's environments.
        lane: Which of them.
        counted: Told each reward.
        seen: What is stored of observations [1, ...], of which the checkpoint has a checksum.

    Raises:
        RunError: It does not show what it did.
    """
    obs = env.reset(seed)
    for index, action in enumerate(episodes.actions[lane]):
        obs, reward, terminated, truncated = env.step(action)
        counted(reward)
        if terminated or truncated:
            raise _changed(env_id, f"ended after {index + 1} of {len(episodes.actions[lane])} actions")
    # Of what was shown, where the run goes on with its encoders newly frozen: then nothing else was stored before.
    if episodes.actions[lane] and episodes.shown[lane] not in _checksums(rows_of(obs, None), seen):
        raise _changed(env_id, f"shows something else after {len(episodes.actions[lane])} actions")
    return obs


def _checksums(obs: Arrays, seen: Callable[[Arrays], Arrays]) -> tuple[int, int]:
    return checksum(seen(obs), 0), checksum(obs, 0)


def _changed(env_id: str, how: str) -> RunError:
    return RunError(
        f"environment {env_id!r} did not come back to where its episode was when the checkpoint was written: it {how}. "
        "A deterministic run goes on only with environments that their seed and the actions determine; begin a new run "
        "without --deterministic"
    )
