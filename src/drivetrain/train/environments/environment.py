"""Gymnasium environments as the trainer sees them.

make(id, settings) -> Environment(reset, step, frame)
"""

import contextlib
import importlib
import inspect
import io
import math
import os
import sys
import traceback
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any, NoReturn, SupportsFloat, cast

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import FrameStackObservation, TimeLimit
from numpy.typing import NDArray

from drivetrain.core.errors import InvalidInput
from drivetrain.core.interrupts import raise_swallowed
from drivetrain.core.processes import succeeds_anew
from drivetrain.core.signals import may_be_ctrl_c, time_limit
from drivetrain.train.config import EnvironmentConfig, TrainConfig
from drivetrain.train.config.given import Given
from drivetrain.train.config.ids import is_atari
from drivetrain.train.environments.faults import (
    NoSuchCategory,
    message_of,
    raised,
    refuse,
    require_ends,
    require_finite,
    require_frame,
    require_reward,
    unfit_answer,
    unfit_observation,
    what,
)
from drivetrain.train.environments.goals import Goals, require_goals
from drivetrain.train.environments.making import make
from drivetrain.train.environments.spaces import (
    actions_of,
    algorithms_for,
    as_real,
    decoder,
    encoder,
    leaves_of,
    observations_of,
    shapes_of,
)
from drivetrain.train.environments.unmade import GYMNASIUM, why
from drivetrain.train.episode import success_of
from drivetrain.train.interface import Arrays, Interface, rows_of

_AnyEnv = gymnasium.Env[Any, Any]
_FRAMES_PER_S = 30.0
_GAME_FRAMES_PER_S = 60.0
"""Of the console, of which a step of the preprocessed game is some."""


def look_at(config: TrainConfig) -> tuple[Interface, "gymnasium.Space[Any]"]:
    """Make a run's environment once: its spaces as the run has them, and that of observations as it shows them.

    Raises:
        InvalidInput: It is unknown, or cannot be made, wrapped or read.
    """
    timeout_s = config.run.step_timeout_s
    with time_limit(timeout_s, f"it has not come back for {timeout_s:g} s (step_timeout_s)"):
        return _look_at(config.env, config.environment, in_hindsight=config.in_hindsight)


def _look_at(
    env_id: str, settings: EnvironmentConfig, *, in_hindsight: bool = False
) -> tuple[Interface, "gymnasium.Space[Any]"]:
    env = make(env_id, settings)
    try:
        shown = _space_of(env, "observation_space", env_id)
        stack = _stack_of(env, shown, settings.frame_stack > 1)
        observations = observations_of(shown, env_id, stack)
        observations = as_real(observations) if settings.normalize_observations else observations
        actions = actions_of(_space_of(env, "action_space", env_id), env_id)
        interface = Interface(observations=observations, actions=actions, frame_stack=stack)
        _require_seeds(env, env_id)
        if in_hindsight:
            require_goals(env, env_id, interface)
    except BaseException:
        with contextlib.suppress(Exception, SystemExit):  # what is wrong with its spaces is said already
            env.close()
        raise
    try:
        env.close()
    except (Exception, SystemExit) as error:  # a stranger's, and at the end of a run it would hide what was reached
        raise InvalidInput(f"environment {env_id!r} cannot be closed: {why(error)}; mend its close()") from error
    return interface, shown


def _space_of(env: _AnyEnv, name: str, env_id: str) -> Any:
    """A space that Gymnasium declares, and leaves it to the environment to set; None: it did not."""
    try:
        return getattr(env, name)
    except (Exception, SystemExit) as error:  # a stranger's property
        if isinstance(error, AttributeError) and error.name == name and error.obj is env.unwrapped:
            return None
        raise InvalidInput(f"environment {env_id!r}: its {name} cannot be read: {why(error)}; mend it") from error


def _require_seeds(env: _AnyEnv, env_id: str) -> None:
    """Refuse a reset that takes no seed, as Gym's did, before a run finds that it does not."""
    try:
        takes = inspect.signature(env.unwrapped.reset).parameters.values()
    except (TypeError, ValueError):  # one of C, which does not say
        return
    if not any(one.name == "seed" or one.kind is inspect.Parameter.VAR_KEYWORD for one in takes):
        raise InvalidInput(
            f"environment {env_id!r}: expected reset(*, seed=None, options=None), as of Gymnasium, and its reset takes "
            "no seed; mend it, or wrap it"
        )


def require_known_everywhere(env_id: str) -> None:
    """Refuse an id that only this process's script or notebook has registered: processes of a run do not run that.

    Raises:
        InvalidInput: It is such an id.
    """
    registered: Any = None if isinstance(env_id, Given) else gymnasium.registry.get(env_id)
    entry = getattr(registered, "entry_point", None)
    module = entry.partition(":")[0] if isinstance(entry, str) else getattr(entry, "__module__", None)
    if module == "__main__" or (module is not None and not _is_known_anew(env_id, module)):
        raise InvalidInput(
            f"environment {env_id!r} is registered by the script or notebook, or by what it imports, and the run's "
            "processes do not execute it; give the class or a function that makes it in place of the id, put it into a "
            "module and name it module:Id, or train in this process (num_actors=0)"
        )


def _is_known_anew(env_id: str, module: str) -> bool:
    """Whether a process that has imported Gymnasium alone knows an id, whose class lies in that module."""
    is_own = {  # of the package itself: a script may have registered one of its classes under a name of its own
        "gymnasium": lambda: f'id="{env_id}"' in (GYMNASIUM / "envs" / "__init__.py").read_text(encoding="utf-8"),
        "ale_py": lambda: is_atari(env_id),
        "drivetrain": lambda: env_id.startswith("drivetrain/"),
    }.get(module.partition(".")[0])
    if is_own is not None and is_own():
        return True
    return succeeds_anew(f"import gymnasium; gymnasium.spec({env_id!r})")


def _stack_of(env: Any, shown: Any, is_asked: bool) -> int:
    """Frames in an observation of the space `shown`, where the outermost wrapper that changes observations stacks them.

    One of the environment's own, not asked for by the settings, counts where it stacks arrays alone.
    """
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, FrameStackObservation):
            stacking = cast(Any, env)
            frame = stacking.env.observation_space
            counts = is_asked or all(isinstance(leaf, spaces.Box) for leaf in leaves_of(frame))
            return int(stacking.stack_size) if counts and stacking.observation_space == shown else 1
        if isinstance(env, gymnasium.ObservationWrapper):
            return 1
        env = cast(Any, env).env
    return 1


class Environment:
    """One environment that gives observations as they are stored, and takes the agent's actions.

    Not reset by itself: the caller sees the true last observation of an episode, then resets.

    Args:
        config: The run's.
        interface: What the environment looks like.
        training: Whether settings for training alone apply.
        beat: Called before it is made, and before each reset and step: told apart, these may take as long as they do.
        render_mode: As for `make`.
    """

    def __init__(
        self,
        config: TrainConfig,
        interface: Interface,
        *,
        training: bool = False,
        beat: Callable[[], None] = lambda: None,
        render_mode: str | None = None,
    ) -> None:
        self._beat = beat
        beat()
        engine = config.fused_engine
        self._env = make(config.env, config.environment, training=training, render_mode=render_mode, engine=engine)
        self._env_id, self._interface = config.env, interface
        self._num_steps = 0  # of the present episode
        self._info: Any = None  # of its last step
        self._shapes = shapes_of(self._env.observation_space)
        self._encode = encoder(interface.observations, self._shapes)
        self._decode = decoder(interface.actions)

    def reset(self, seed: int | None = None) -> Arrays:
        """Start an episode; its first observation.

        Raises:
            EnvironmentFault: It is not what the environment promised, or the environment has raised something.
        """
        self._num_steps = 0
        self._beat()
        try:
            result: Any = self._env.reset(seed=seed)
        except BaseException as error:
            if isinstance(error, TypeError) and "unexpected keyword argument 'seed'" in str(error):
                refuse(self._env_id, 0, f"expected reset(*, seed=None, options=None), as of Gymnasium, and {error}")
            self._refuse_raised(error)
        if not isinstance(result, tuple) or len(result) != 2:  # pyright: ignore[reportUnknownArgumentType]
            unfit_answer(self._env_id, 0, result)
        observation, _ = cast("tuple[Any, Any]", result)
        encoded = self._encoded(observation)
        require_finite(self._env_id, rows_of(encoded, None), [0])
        return encoded

    def step(self, action: Any) -> tuple[Arrays, float, bool, bool]:
        """Take an action of the agent's: (observation, reward, terminated, truncated).

        Raises:
            EnvironmentFault: The environment returned something else than it promised, or raised something. Whether
                there are NaNs in observations is seen to by `require_finite`, for many at once.
        """
        result: tuple[Any, SupportsFloat, bool, bool, Any]
        self._num_steps += 1
        self._beat()
        try:
            result = self._env.step(self._decode(action))
        except BaseException as error:
            self._refuse_raised(error)
        try:
            observation, reward, terminated, truncated, self._info = result
        except Exception:
            unfit_answer(self._env_id, self._num_steps, result)
        value = require_reward(self._env_id, self._num_steps, reward)
        if type(terminated) is not bool or type(truncated) is not bool:  # seldom: a call here takes a microsecond
            terminated, truncated = require_ends(self._env_id, self._num_steps, terminated, truncated)
        return self._encoded(observation), value, terminated, truncated

    def _refuse_raised(self, error: BaseException) -> NoReturn:
        """Say what came in place of an answer; a wrapper of Gymnasium's may have found one of another form.

        Of strangers it may be anything, as that a task of asyncio was cancelled, which is no Exception. Ctrl-C is ours.
        """
        if isinstance(error, KeyboardInterrupt) and may_be_ctrl_c(error):
            raise error
        if isinstance(error, SystemExit):
            refuse(self._env_id, self._num_steps, f"expected an answer, and it left the program ({error!r})")
        if "No available video device" in message_of(error) and self._env.render_mode == "human":  # as of SDL 2.0.22
            self._refuse_window(error)
        last = traceback.extract_tb(error.__traceback__)[-1]
        is_unpacking = isinstance(error, TypeError | ValueError) and "unpack" in str(error)
        if is_unpacking and Path(last.filename).is_relative_to(GYMNASIUM):
            unfit_answer(self._env_id, self._num_steps, None, str(error))
        raised(self._env_id, self._num_steps, error, self._env.unwrapped)

    def _encoded(self, observation: Any) -> Arrays:
        try:
            return self._encode(observation)
        except NoSuchCategory as error:
            refuse(self._env_id, self._num_steps, str(error))
        except Exception as error:  # what came may be anything, and raise anything where it is looked at
            unfit_observation(self._env_id, self._num_steps, observation, self._interface, self._shapes, error)

    @property
    def success(self) -> float:
        """What the last step has said of the success of its episode; NaN: nothing."""
        return success_of(self._info)

    @property
    def has_limit(self) -> bool:
        """Whether Gymnasium cuts its episodes off after some number of steps."""
        env: gymnasium.Env[Any, Any] = self._env
        while isinstance(env, gymnasium.Wrapper):
            if isinstance(env, TimeLimit):
                return True
            env = env.env
        return False

    def frame(self) -> NDArray[np.uint8]:
        """A picture uint8[height, width, 3] of its present state; its render_mode is "rgb_array".

        Raises:
            EnvironmentFault: It has drawn none, or raised something.
        """
        try:
            drawn: Any = self._env.render()
        except BaseException as error:
            if "OpenGL" in message_of(error):
                told = f"{what(error)}; without a display, MUJOCO_GL=egl or osmesa may help, before MuJoCo is imported"
                refuse(self._env_id, self._num_steps, f"it cannot draw itself: {told}", error)
            self._refuse_raised(error)
        return require_frame(self._env_id, self._num_steps, drawn)

    def require_window(self) -> None:
        """Refuse to go on where it shows itself in no window; its render_mode is "human".

        Raises:
            InvalidInput: There is no display: MuJoCo would end the process, pygame and Atari's games draw to nowhere.
        """
        display = getattr(sys.modules.get("pygame"), "display", None)
        nowhere = display is not None and display.get_init() and display.get_driver() in ("offscreen", "dummy")
        nowhere = nowhere or hasattr(self._env.unwrapped, "ale")  # whose SDL is its own, and tells nobody
        if self._env.has_wrapper_attr("mujoco_renderer") or (nowhere and "SDL_VIDEODRIVER" not in os.environ):
            self._refuse_window()

    def _refuse_window(self, error: BaseException | None = None) -> None:
        """Where there is no display."""
        if not any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")):
            raise InvalidInput(
                f"environment {self._env_id!r} cannot be shown in a window: there is no display here (neither DISPLAY "
                "nor WAYLAND_DISPLAY is set); draw a video: `drivetrain eval RUN --video FILE`, or record(file)"
            ) from error

    @property
    def frames_per_s(self) -> float:
        """Of its pictures, as it says itself, else 30; games of Atari at the pace of their 60 frames per second."""
        if self._env.has_wrapper_attr("ale") and self._env.has_wrapper_attr("frame_skip"):
            return _GAME_FRAMES_PER_S / self._env.get_wrapper_attr("frame_skip")
        said: Any = self._env.metadata.get("render_fps")
        return float(said) if isinstance(said, int | float) and 0 < said < math.inf else _FRAMES_PER_S

    def goals(self, *, clip_rewards: bool) -> Goals:
        """What it says of goals; its run is one in hindsight."""
        return Goals(self._env, self._env_id, self._interface, clip_rewards=clip_rewards)

    def close(self) -> None:
        """Release what the environment holds; what it raises is its own."""
        self._env.close()


def close_all(envs: Iterable[Environment], env_id: str) -> None:
    """Close environments whose work is done. What that raises is said on standard error, and takes nothing with it."""
    errors: list[Exception | SystemExit] = []
    for env in envs:
        try:
            env.close()
        except (Exception, SystemExit) as error:  # a stranger's
            errors.append(error)
    if errors:
        sys.stderr.write(f"environment {env_id!r} cannot be closed: {why(errors[0])}; what it was for is done\n")


@contextlib.contextmanager
def closed_on_error(envs: Iterable[Environment], env_id: str) -> Generator[None]:
    """Environments, as many as there are by then, are closed where the block raises."""
    try:
        yield
    except BaseException:
        close_all(envs, env_id)
        raise


def trainable() -> dict[str, tuple[tuple[str, ...], str]]:
    """Every registered environment, and those of gymnax: the algorithms that train on it, and if none, why not.

    One of the Atari games, all alike in this, answers for all.
    """
    with contextlib.suppress(ImportError):
        importlib.import_module("ale_py")
    importlib.import_module("drivetrain.sim")  # registers ours
    games: tuple[tuple[str, ...], str] | None = None
    found: dict[str, tuple[tuple[str, ...], str]] = {}
    for env_id in _gymnax_ids():
        found[env_id] = _algorithms_for(env_id)
    for env_id, spec in sorted(gymnasium.registry.items()):
        if str(spec.entry_point).startswith("ale_py"):
            games = found[env_id] = games or _algorithms_for(env_id)
        else:
            found[env_id] = _algorithms_for(env_id)
    return found


def _gymnax_ids() -> list[str]:
    """Of gymnax's environments, where it is installed; but for MNISTBandit, which needs a download to be looked at."""
    with contextlib.suppress(ImportError):
        gymnax: Any = importlib.import_module("gymnax")
        return sorted(f"gymnax/{name}" for name in gymnax.registered_envs if not name.startswith("MNIST"))
    return []


def _algorithms_for(env_id: str) -> tuple[tuple[str, ...], str]:
    """Registered environments may fail in any way when made."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            return algorithms_for(_look_at(env_id, EnvironmentConfig())[0]), ""
        except Exception as error:  # a stranger's constructor may raise anything
            return (), " ".join(str(error).split())
        finally:
            raise_swallowed()
