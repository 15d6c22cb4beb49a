"""Gymnasium environments made: by id, by what makes them, compiled ones, with preprocessing and stacks of frames.

gymnasium.make(id), module:function, drivetrain/NAME, gymnax/NAME -> preprocessing -> entries left out -> frame stack
"""

import contextlib
import copy
import importlib
import inspect
import warnings
from collections.abc import Callable, Collection, Generator
from typing import Any, Literal, cast

import gymnasium
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.vector import VectorEnv
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation, HumanRendering, TransformObservation

from drivetrain.core.errors import CompileError, InvalidInput
from drivetrain.core.importing import importing, is_found_anew, require_module
from drivetrain.train.config import EnvironmentConfig, is_simulator
from drivetrain.train.config.given import AS_MANY_AS, Given
from drivetrain.train.config.ids import is_atari
from drivetrain.train.environments.faults import require_new
from drivetrain.train.environments.lives import LivesAsEpisodes
from drivetrain.train.environments.sim_params import UnfitParams, usual_params
from drivetrain.train.environments.spaces import in_line, leaves_of
from drivetrain.train.environments.unmade import remedy, why

_AnyEnv = gymnasium.Env[Any, Any]
_DRAWN = ("rgb_array", "human", "rgb_array_list")  # what is asked for, and found by whoever draws not to be there


class _Unfit(ValueError):
    """What was made is nothing for a setting; says which, and what is to be done."""


def make(
    env_id: str,
    settings: EnvironmentConfig,
    *,
    training: bool = False,
    render_mode: str | None = None,
    engine: Literal["native", "xla"] | None = None,
) -> _AnyEnv:
    """One environment with its wrappers, without Gymnasium's per-step checks.

    Args:
        env_id: Its name, or what makes it.
        settings: The run's.
        training: Whether settings for training alone apply.
        render_mode: Gymnasium's: how it draws itself; None: not, unless it does by itself.
        engine: What steps a simulator: that of the run's kernels, since another may not compile it. None: "native".

    Raises:
        InvalidInput: It is unknown, cannot be made or wrapped, or does not draw itself so.
    """
    with _telling_why(env_id, settings), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecation notices of somebody else's environment
        env = _made(env_id, settings, render_mode, engine or "native")
        _require_drawing(env, render_mode)
        return _wrapped(env, settings, training=training)


def require_named(env_id: str, settings: EnvironmentConfig) -> None:
    """Refuse an id that names nothing, where that can be told without making it or running its module.

    Raises:
        InvalidInput: As `make`.
    """
    module, colon, _ = env_id.removeprefix("drivetrain/").partition(":")
    with _telling_why(env_id, settings):
        if colon:
            require_module(module)
            if not is_found_anew(module):
                package = module.partition(".")[0]
                raise ModuleNotFoundError(f"No module named {package!r}", name=package)
        elif is_simulator(env_id):
            importlib.import_module("drivetrain.sim").make(env_id, **settings.fresh_kwargs)
        elif not any(known.startswith(f"{env_id}-v") for known in gymnasium.registry):
            if is_atari(env_id):
                importlib.import_module("ale_py")  # registers them
            gymnasium.spec(env_id)


@contextlib.contextmanager
def _telling_why(env_id: str, settings: EnvironmentConfig) -> Generator[None]:
    """Say of whatever is raised, and a stranger's module and constructor may raise anything, what there is to be done.

    Raises:
        InvalidInput: Something was.
    """
    try:
        yield
    except (_Unfit, UnfitParams) as error:
        raise InvalidInput(f"environment {env_id!r}: {error}") from error
    except CompileError as error:  # of a simulator, with the author's line, and with what to change
        raise InvalidInput(f"environment {env_id!r} cannot be made: {error}") from error
    except (Exception, SystemExit) as error:
        sentence = f"{why(error)}; {remedy(env_id, settings, error)}"
        raise InvalidInput(f"environment {env_id!r} cannot be made: {sentence}") from error


def _made(env_id: str, settings: EnvironmentConfig, render_mode: str | None, engine: str) -> _AnyEnv:
    maker = _maker(env_id)
    drawn = {} if render_mode is None else {"render_mode": render_mode}
    if maker is not None:
        env = maker(**settings.fresh_kwargs | (drawn if _takes_render_mode(maker) else {}))
        if not isinstance(env, gymnasium.Env) or isinstance(env, VectorEnv):  # EnvPool's is both
            told = _what_else(env)
            raise TypeError(
                f"expected a function that returns a gymnasium.Env, and it returned {type(env).__name__}{told}"
            )
        require_new(cast(_AnyEnv, env).unwrapped)
        return cast(_AnyEnv, env)
    if is_simulator(env_id):
        return _simulated(env_id, settings, drawn, engine)
    skipped = {"frameskip": 1} if settings.atari else {}  # the preprocessing skips frames itself
    options = skipped | settings.fresh_kwargs | drawn
    if is_atari(env_id):
        importlib.import_module("ale_py")  # registers them
    # Gymnasium 1.3 does not say what make() makes.
    return cast(Any, gymnasium).make(env_id, disable_env_checker=True, **options)


def _what_else(env: object) -> str:
    """What an object that is no environment of Gymnasium's may be meant as, after a comma; "" where nobody knows."""
    if isinstance(env, VectorEnv) or hasattr(env, "num_envs"):  # Stable-Baselines3's
        return f", several at once: return one; {AS_MANY_AS}"
    if hasattr(env, "possible_agents"):
        return ", of several agents: return an environment of one, in which the others act by policies of their own"
    kind = type(env)
    named = f", a simulator: such are named, as drivetrain/{kind.__module__}:{kind.__qualname__}"
    return named if hasattr(env, "default_params") else ""


def _simulated(env_id: str, settings: EnvironmentConfig, drawn: dict[str, str], engine: str) -> _AnyEnv:
    """A simulator as Gymnasium's environment: what it is made with goes to its own class, as in a kernel."""
    sim = importlib.import_module("drivetrain.sim")  # registers ours
    env = sim.make(env_id, **settings.fresh_kwargs)
    if drawn and not hasattr(env, "render"):
        raise _Unfit(
            "render_mode: expected a simulator with a method render(state, params), which draws a state, and it has "
            "none; give it one, or leave pictures out"
        )
    params = usual_params(env, settings) if settings.sim_params else None
    if env_id in gymnasium.registry:
        options = settings.fresh_kwargs | drawn
        return cast(Any, gymnasium).make(env_id, disable_env_checker=True, engine=engine, params=params, **options)
    single = importlib.import_module("drivetrain.sim.gymnasium.single").SimEnv
    if drawn.get("render_mode") == "human":  # as Gymnasium's own `make` has it
        return HumanRendering(single(env, engine, params=params, render_mode="rgb_array"))
    return single(env, engine, params=params, **drawn)


def _maker(env_id: str) -> Callable[[], Any] | None:
    """The function that makes it, where it is given or its module has one of that name."""
    if isinstance(env_id, Given):
        return env_id.value
    module, colon, name = env_id.partition(":")
    if not colon or is_simulator(env_id):
        return None
    require_module(module)
    with importing(module):
        home = importlib.import_module(module)  # which may register ids as well
    found = None if name in gymnasium.registry else getattr(home, name, None)
    if callable(found) or any(known == name or known.startswith(f"{name}-v") for known in gymnasium.registry):
        return found if callable(found) else None
    if found is None:
        raise ValueError(f"the module {module} has no function or class {name}, and registers no id of that name")
    raise TypeError(
        f"expected {name} of the module {module} to be a function that makes an environment each time it is called, "
        f"got {'an environment itself' if isinstance(found, gymnasium.Env) else type(found).__name__}"
    )


def _wrapped(env: _AnyEnv, settings: EnvironmentConfig, *, training: bool) -> _AnyEnv:
    if settings.atari:
        _require_game(env)
        _require_idle_action(env, settings)
        env = AtariPreprocessing(
            env,
            noop_max=settings.noop_max,
            frame_skip=settings.frame_skip,
        )
        env = LivesAsEpisodes(env) if settings.terminal_on_life_loss and training else env
    env = _without(env, settings.leave_out) if settings.leave_out else env
    if settings.frame_stack > 1:
        _require_stackable(cast(Any, env).observation_space)
        env = FrameStackObservation(_Copying(env), settings.frame_stack)
    return env


def _without(env: _AnyEnv, names: Collection[str]) -> _AnyEnv:
    """An environment that does not show these entries of its observations."""
    space = env.observation_space
    known: dict[Any, Any] = dict(space.spaces) if isinstance(space, Dict) else {}
    kept = {name: part for name, part in known.items() if name not in names}
    if not kept or not known.keys() >= set(names):
        entries = ", ".join(map(str, known)) or "none"
        raise _Unfit(
            f"leave_out: expected some of the entries of its observations ({entries}), got {', '.join(names)}; leave "
            "out only what is there, and not all of it"
        )

    def shown(observation: Any) -> Any:
        if not isinstance(observation, dict):  # of which whoever reads it says what it is
            return observation
        return {name: part for name, part in cast("dict[Any, Any]", observation).items() if name in kept}

    return TransformObservation(env, shown, Dict(kept))


def _require_stackable(space: Any) -> None:
    """Refuse to stack what is no array: Gymnasium makes one of it, and nobody could tell what its numbers stand for."""
    other = next((leaf for leaf in leaves_of(space) if not isinstance(leaf, Box)), None)
    if other is not None:
        apart = ", or leave that entry out (leave_out)" if isinstance(space, Dict) else ""
        raise _Unfit(f"frame_stack is for Box observations, got {in_line(other)} among them; leave it at 1{apart}")


class _Copying(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Shows copies: FrameStackObservation keeps what it is shown, and many an environment writes into one array."""

    def observation(self, observation: Any) -> Any:
        return copy.deepcopy(observation)


def _require_game(env: _AnyEnv) -> None:
    """Refuse to preprocess what is no game of Atari, or has been preprocessed."""
    shown, own = env.observation_space, env.unwrapped.observation_space
    if len(shown.shape or ()) < 2:
        raise _Unfit(f"atari: expected pictures, which it preprocesses, got {in_line(shown)}; leave one of them out")
    if not hasattr(env.unwrapped, "ale"):
        raise _Unfit(f"atari: expected a game of ale_py's, got {type(env.unwrapped).__name__}; leave it out")
    if shown != own:  # the pictures that are preprocessed come from the emulator, past all wrappers
        raise _Unfit(
            f"atari: expected pictures as the game shows them, {in_line(own)}, got {in_line(shown)}, which a wrapper "
            "has made of them: leave out that, or atari"
        )


def _require_idle_action(env: _AnyEnv, settings: EnvironmentConfig) -> None:
    """Refuse to idle where action 0 is none, as of games that are made with continuous=True."""
    idles = [name for name in ("noop_max", "terminal_on_life_loss") if getattr(settings, name)]
    if idles and not isinstance(env.action_space, Discrete):
        raise _Unfit(
            f"{idles[0]}: expected discrete actions, the first of which idles, got {in_line(env.action_space)}; "
            "set noop_max to 0, without terminal_on_life_loss"
        )


def _takes_render_mode(maker: Callable[..., Any]) -> bool:
    try:
        taken = inspect.signature(maker).parameters.values()
    except (TypeError, ValueError):  # one of C, which does not say
        return False
    return any(one.name == "render_mode" or one.kind is inspect.Parameter.VAR_KEYWORD for one in taken)


def _require_drawing(env: _AnyEnv, render_mode: str | None) -> None:
    """Refuse an environment that draws itself in another way than is asked for."""
    if render_mode is None:
        return
    got = getattr(env, "render_mode", None)
    if got != render_mode:
        raise _Unfit(
            f"render_mode: expected {render_mode!r}, by which it draws itself, and it has {got!r}; what makes it has "
            "to take render_mode, and to give it to the environment"
        )
    modes: Any = env.metadata.get("render_modes") or _DRAWN
    if render_mode not in (*modes, *_DRAWN):  # Gymnasium lets it pass, and nothing would be drawn
        raise _Unfit(f"render_mode: expected one of {', '.join(map(str, modes))}, got {render_mode!r}")
