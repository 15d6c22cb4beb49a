"""A run's policy by itself: from an environment's observation to its action, for whatever has the run's folder.

observation ─encoder─▶ as stored ─policy.act─▶ the agent's choice ─decoder─▶ action
"""

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import gymnasium
import numpy as np
from gymnasium.vector import utils
from numpy.typing import NDArray

from drivetrain.core.errors import InvalidInput
from drivetrain.core.paths import back_here
from drivetrain.core.seeding import MOST_EPISODES
from drivetrain.replay import simd_level
from drivetrain.replay.arguments import require_int
from drivetrain.train.config import TrainConfig
from drivetrain.train.config.given import was_object
from drivetrain.train.config.saved import read_settings
from drivetrain.train.environments.environment import Environment, look_at
from drivetrain.train.environments.faults import NoSuchCategory, kind_of, not_finite, require_finite
from drivetrain.train.environments.making import make
from drivetrain.train.environments.spaces import decoder, encoder, in_line, shapes_of
from drivetrain.train.episode import Episode
from drivetrain.train.evaluate import final_episodes, final_seeds, most_steps, policy_of
from drivetrain.train.interface import Arrays, num_rows, set_row
from drivetrain.train.run_dir.checkpoint import Which, load_saved_policy
from drivetrain.train.run_dir.folder import require_run_dir
from drivetrain.train.run_dir.saving import require_as_learned
from drivetrain.train.runs.video import checked_video, written_video


def settings_to_act(run_dir: Path, again: Mapping[str, Any]) -> TrainConfig:
    """A run's settings, for whoever plays its policy: an optimizer that was an object need not be given again.

    Raises:
        FileFormatError: Its config.json is absent or damaged.
        InvalidInput: Its environment or torso was an object, and is not given again; or what is given is none of these.
    """
    file = run_dir / "config.json"
    optimizer = read_settings(file).get("agent", {}).get("optimizer")
    mentioned = {"optimizer": optimizer} if was_object(optimizer) and again.get("optimizer") is None else {}
    return TrainConfig.load(file, **{**again, **mentioned})


class TrainedPolicy:
    """The policy of a run, acting for best return: `action = policy(observation)`.

    Observations are those of `make_env()`: raw, as normalising is part of the policy; stacked and preprocessed where
    the run's settings say so. Not safe for threads; each may have a copy, and so may other processes, by pickle.

    Attributes:
        config: The run's settings.
        num_steps: Environment steps of the run when the policy was saved.
        mean_return: Of its evaluation; NaN where there was none.
    """

    def __init__(self, run_dir: Path, which: Which, again: Mapping[str, Any]) -> None:
        """See `drivetrain.train.load_policy`."""
        if which not in get_args(Which):
            raise InvalidInput(f"which: expected one of {', '.join(get_args(Which))}, got {which!r}")
        simd_level()  # refuses a name that is none
        require_run_dir(run_dir)
        self.config = settings_to_act(run_dir, again)
        self._saved = saved = load_saved_policy(run_dir, which)
        self.num_steps, self.mean_return = saved.num_steps, saved.mean_return
        with back_here():  # environments may go elsewhere
            self._interface, self._space = look_at(self.config)
        require_as_learned(self.config.env, self._interface, run_dir)
        self._make_ready()

    def _make_ready(self) -> None:
        """What acts, of what was loaded."""
        interface = self._interface
        self._policy = policy_of(self.config, interface, self._saved)
        self._encode = encoder(interface.observations, shapes_of(self._space))
        self._decode = decoder(interface.actions)
        self._row = interface.zero_observations(1)

    def __getstate__(self) -> dict[str, Any]:
        """What was loaded; functions cannot be pickled."""
        made = ("_policy", "_encode", "_decode", "_row")
        return {name: value for name, value in vars(self).items() if name not in made}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._make_ready()

    def __call__(self, observation: Any) -> Any:
        """The action for one observation of the environment.

        Raises:
            InvalidInput: It is no observation of that environment, or has a NaN or an infinity.
        """
        try:
            set_row(self._row, 0, self._encode(observation))
        except Exception as error:  # what is given may be anything
            remedy = (
                "`make_env()` makes an environment that gives such, and `policy.batch` takes those of several at once"
            )
            raise self._unfit("observation", "one of", ", of", observation, remedy, error) from error
        return self._decode(self._acted(self._row, "observation")[0])

    def batch(self, observations: Any) -> NDArray[Any]:
        """The actions for observations of several environments, by one evaluation of the network.

        Args:
            observations: As a vector environment of Gymnasium's gives them: an array [num_envs, ...], or a dict or a
                tuple of such arrays.

        Returns:
            As it takes them: [num_envs, ...].

        Raises:
            InvalidInput: One is no observation of that environment, or has a NaN or an infinity.
        """
        try:
            each = _each(self._space, observations)
            rows = self._interface.zero_observations(len(each))
            for index, observation in enumerate(each):
                set_row(rows, index, self._encode(observation))
        except Exception as error:  # what is given may be anything
            which, remedy = "those of several environments", "one by itself is `policy(observation)`"
            raise self._unfit("observations", which, ", each of", observations, remedy, error) from error
        return np.stack([self._decode(action) for action in self._acted(rows, "observations")])

    def _unfit(self, name: str, which: str, of: str, given: Any, remedy: str, error: Exception) -> InvalidInput:
        """The error of what cannot be stored as observations."""
        if isinstance(error, NoSuchCategory):
            return InvalidInput(f"{name}: {error}")
        return InvalidInput(
            f"{name}: expected {which} {self.config.env!r}{of} {in_line(self._space)}, got {kind_of(given)}; {remedy}"
        )

    def _acted(self, rows: Arrays, name: str) -> Any:
        """The agent's choices."""
        found = not_finite(rows, num_rows(rows))
        if found is not None:
            raise InvalidInput(f"{name}: {found[1]}")
        return self._policy.act(rows)

    def make_env(self, render_mode: str | None = None) -> "gymnasium.Env[Any, Any]":
        """An environment as the run's evaluations have it, wrappers included.

        Args:
            render_mode: Gymnasium's: "rgb_array", where `env.render()` is to give pictures, or "human", which shows
                them in a window.

        Raises:
            InvalidInput: It cannot be made, or does not draw itself so.
        """
        engine = self.config.fused_engine
        return make(self.config.env, self.config.environment, render_mode=render_mode, engine=engine)

    @back_here()  # environments may go elsewhere
    def evaluate(self, num_episodes: int = 100) -> list[Episode]:
        """Play the episodes of `drivetrain eval RUN --episodes N`, on at most the run's `eval_envs` at a time.

        They are the first of the run's final evaluation, on seeds that neither training nor selection has seen.

        Args:
            num_episodes: How many; N, at least 1. Beyond `final_eval_episodes`, others follow.

        Returns:
            What they came to: total reward, length, success.

        Raises:
            InvalidInput: There are no episodes to play, or the environment cannot be made.
            EnvironmentFault: It did what no environment may.
        """
        count = require_int("num_episodes", num_episodes, least=1, most=MOST_EPISODES)
        return final_episodes(self.config, self._interface, self._policy, count)

    @back_here()  # environments may go elsewhere
    def record(self, file: str | os.PathLike[str], num_episodes: int = 1) -> list[Episode]:
        """Play episodes one after another, and draw them into a video.

        They are those of `drivetrain eval RUN --episodes N`, on seeds that neither training nor selection has seen.

        Args:
            file: NAME.mp4 (H.264) or NAME.gif; one that is there is replaced, once all are played.
            num_episodes: How many; N, at least 1.

        Returns:
            What they came to: total reward, length, success.

        Raises:
            MissingExtra: The extra "video" is not installed.
            InvalidInput: It is no such file, its folder is not there, there are no episodes to play, or the environment
                draws no pictures.
            EnvironmentFault: What it draws, or anything else that it does, is not what it promised.
            OSError: The file cannot be written.
        """
        path = checked_video(file).absolute()  # the environment may go elsewhere
        seeds = self._seeds(num_episodes)
        with contextlib.closing(self._environment("rgb_array")) as env, written_video(path, env.frames_per_s) as add:
            return self._play(env, seeds, lambda: add(env.frame()))

    @back_here()  # environments may go elsewhere
    def watch(self, num_episodes: int = 1) -> list[Episode]:
        """Play the same episodes in a window, and return what they came to.

        Args:
            num_episodes: How many, at least 1.

        Raises:
            InvalidInput: The environment cannot be shown in a window, as where there is no display; or there are no
                episodes to play.
            EnvironmentFault: It did what no environment may.
        """
        seeds = self._seeds(num_episodes)
        with contextlib.closing(self._environment("human")) as env:
            env.require_window()
            return self._play(env, seeds, env.require_window)

    def _environment(self, render_mode: str) -> Environment:
        return Environment(self.config, self._interface, render_mode=render_mode)

    def _seeds(self, num_episodes: int) -> list[int]:
        """Those of the first episodes of the final evaluation; refuses numbers of which there are none."""
        count = require_int("num_episodes", num_episodes, least=1, most=MOST_EPISODES)
        return final_seeds(self.config, count)

    def _play(self, env: Environment, seeds: Sequence[int], show: Callable[[], None]) -> list[Episode]:
        """Whole episodes; `show` is called after each reset and step."""
        most = most_steps(self.config, env)
        episodes: list[Episode] = []
        for seed in seeds:
            set_row(self._row, 0, env.reset(seed))
            show()
            total, length, is_over = 0.0, 0, False
            while not is_over:
                observation, reward, terminated, truncated = env.step(self._policy.act(self._row)[0])
                set_row(self._row, 0, observation)
                show()
                total, length = total + reward, length + 1
                require_finite(self.config.env, self._row, [length])
                is_over = terminated or truncated or length == most
            episodes.append(Episode(total, length, env.success))
        return episodes


def _each(space: Any, observations: Any) -> list[Any]:
    """One by one what a vector environment gives together, of one environment at least."""
    untyped: Any = utils
    first, *others = untyped.iterate(untyped.batch_space(space, 1), observations)
    return [first, *others]
