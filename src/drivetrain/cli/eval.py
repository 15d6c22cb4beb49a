"""`drivetrain eval RUN`: play a trained policy on seeds that selected nothing."""

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from drivetrain.cli.flags import read_flags
from drivetrain.core.aside import save_text
from drivetrain.core.errors import InvalidInput
from drivetrain.core.outputs import require_folders
from drivetrain.core.seeding import MOST_EPISODES
from drivetrain.core.threads import one_thread_environment
from drivetrain.core.words import counted, reward
from drivetrain.train import load_policy
from drivetrain.train.episode import Episode, succeeded, success_rate
from drivetrain.train.run_dir.checkpoint import Which
from drivetrain.train.run_dir.folder import is_part, require_run_dir


@dataclass(frozen=True, kw_only=True)
class _Flags:
    """Evaluate the policy of a run greedily."""

    run_dir: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The run's folder."""
    episodes: int = 100
    """Episodes to play: the first of the run's final evaluation, and others after them."""
    which: Which = "best"
    """The best policy by periodic evaluation, or the last of the checkpoint."""
    json: Path | None = None
    """Write the result to this file, too."""
    video: Path | None = None
    """First draw episodes into this file, named *.mp4 or *.gif."""
    watch: bool = False
    """First show episodes in a window."""
    shown: int = 1
    """How many are drawn and shown, one after another, in a video or a window."""
    env: str | None = None
    """The environment again, as module:name, where it was a Python object."""
    torso: str | None = None
    """The torso again, likewise."""
    optimizer: str | None = None
    """Taken and not needed: no policy plays by it."""


def run(argv: list[str]) -> int:
    """Evaluate, print, and write JSON where asked."""
    flags = read_flags(_Flags, argv, prog="drivetrain eval")
    for flag, count in (("--episodes", flags.episodes), ("--shown", flags.shown)):
        if not 1 <= count <= MOST_EPISODES:
            raise InvalidInput(f"{flag}: expected 1..{MOST_EPISODES}, got {count}")
    if flags.shown != _Flags.shown and flags.video is None and not flags.watch:
        raise InvalidInput(f"--shown: expected --video FILE or --watch beside it, got {flags.shown} of neither")
    require_run_dir(flags.run_dir)
    require_folders(flags.json, flags.video)
    if flags.json is not None and is_part(flags.run_dir, flags.json):
        raise InvalidInput(f"--json {flags.json}: expected a file of its own, got one of the run; choose another name")
    run_dir = flags.run_dir.resolve()  # environments may go elsewhere
    json_path, video = (path and path.resolve() for path in (flags.json, flags.video))
    os.environ.update(one_thread_environment(os.environ))
    if video is not None or flags.watch:
        _prepare_to_draw(in_window=flags.watch, in_file=video is not None)
    again = {"env": flags.env, "torso": flags.torso, "optimizer": flags.optimizer}
    policy = load_policy(run_dir, flags.which, **again)
    if video is not None:
        print(f"{video}: {_returns(policy.record(video, flags.shown))}", flush=True)
    if flags.watch:
        print(f"shown: {_returns(policy.watch(flags.shown))}", flush=True)
    episodes = policy.evaluate(flags.episodes)
    from drivetrain.train.evaluate import interval

    returns, rate = [episode.total_reward for episode in episodes], success_rate(episodes)
    low, high = interval(returns)
    mean = float(np.mean(returns))
    print(
        f"mean return {reward(mean)} (95% interval {reward(low)}..{reward(high)}) of the {flags.which} policy "
        f"over {counted(len(returns), 'episode')}{succeeded(rate)}",
        flush=True,
    )
    if json_path is not None:  # after what was played for is shown, should the file not be writable
        data = {
            "episodes": len(returns),
            "mean": mean,
            "interval": [low, high],
            "returns": returns,
            "success_rate": rate,
        }
        save_text(json_path, json.dumps(data) + "\n")
    return 0


def _prepare_to_draw(*, in_window: bool, in_file: bool) -> None:
    """Have libraries draw where there is no display, without complaints."""
    if any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")):
        return
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")  # else pygame tells of the card that it has not found
    if in_file:
        os.environ.setdefault("MUJOCO_GL", "egl")  # else MuJoCo looks for a display, and ends there
    if in_window:
        os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())  # else Wayland's library says there is none
    else:
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # else pygame looks for one


def _returns(episodes: list[Episode]) -> str:
    totals = ", ".join(reward(one.total_reward) for one in episodes)
    return f"{counted(len(episodes), 'episode')} of return {totals}"
