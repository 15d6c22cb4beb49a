"""Why an environment cannot be made, described or closed, by what that has raised, and what is to be done about it."""

import pickle
import re
import traceback
from pathlib import Path

import gymnasium

from drivetrain.core.extras import missing_extra
from drivetrain.core.importing import with_place
from drivetrain.train.config import EnvironmentConfig, is_simulator
from drivetrain.train.config.given import Given, is_of_script
from drivetrain.train.config.ids import has_game
from drivetrain.train.environments.faults import message_of

GYMNASIUM = Path(gymnasium.__file__).parent
_OURS = Path(__file__).parents[2]
_PLAIN = (gymnasium.error.Error, ImportError, OSError)
"""Errors whose own words say what is wrong."""
_PLAIN_OF_OURS = (ValueError, TypeError, AttributeError, AssertionError)
"""The same where ours or Gymnasium's raise them, as of wrappers around what they are not for."""
_INSTALL = "install it, or name its folder in PYTHONPATH"
_OF_A_MODULE = "; what a module registers or makes is named with it: module:Id, module:function"
_NOT_GIVEN = re.compile(r"missing \d+ required (?:positional|keyword-only) arguments?: ('\w+')")
_NO_DISPLAY = (
    "without a display set MUJOCO_GL to egl or osmesa before MuJoCo is imported, and install what that names (libegl1, "
    "libosmesa6)"
)


def why(error: Exception | SystemExit) -> str:
    """What an error says; of those that say little alone, their kind and place, too."""
    tells_of_import = isinstance(error, ModuleNotFoundError | gymnasium.error.DependencyNotInstalled)
    found = _not_found(error) if tells_of_import else None
    absent = missing_extra(found) if found is not None else None  # where Gymnasium names extras of its own
    sentence = " ".join(message_of(absent or error).split()).rstrip(".")
    file = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
    is_of_ours = file.is_relative_to(GYMNASIUM) or file.is_relative_to(_OURS)
    if sentence and (isinstance(error, _PLAIN) or (is_of_ours and isinstance(error, _PLAIN_OF_OURS))):
        return sentence
    return with_place(error, sentence)


def remedy(env_id: str, settings: EnvironmentConfig, error: Exception | SystemExit) -> str:
    """What is to be done about an environment that cannot be made."""
    if isinstance(env_id, Given) and isinstance(error, gymnasium.error.UnregisteredEnv):
        return "what a script registers is not known to a run's processes: return an object of the class instead"
    is_own = isinstance(env_id, Given) or ":" in env_id
    if is_own and (absent := _not_found(error)) is not None:
        module = env_id.removeprefix("drivetrain/").partition(":")[0]
        is_its_module = f"{module}.".startswith(f"{absent.name}.")
        return f"go to the folder that it lies in, or {_INSTALL}" if is_its_module else _INSTALL
    if is_own and isinstance(error, pickle.PicklingError) and "__main__" in message_of(error):
        return "the run's processes do not execute the script: put what is pickled there into a module, and import it"
    if is_of_script(env_id) and re.search("module '?__main__'? has no", message_of(error)):
        return (
            "a name of __main__ is of this script or notebook: mend it, or, of a run that another began, put the class "
            "into a module and give it again, as env=... in Python or --env on the command line"
        )
    if "OpenGL" in why(error):
        return _NO_DISPLAY
    if settings.atari and "frameskip" in message_of(error):
        return "atari is for games named ALE/NAME or NAMENoFrameskip-v4, whose pictures it preprocesses: leave it out"
    if is_own and (lacking := _not_given(error)) is not None:
        return f"give it by env_kwargs, as env_kwargs={{{lacking}: ...}}"
    if settings.env_kwargs:
        return f"env_kwargs: it is made with {', '.join(settings.env_kwargs)}"
    if is_own:
        return "mend it"
    alike = None if is_simulator(env_id) else _namesake(env_id)
    is_news = alike is not None and alike != env_id and alike not in why(error)
    if is_news:
        return f"take {alike}, or one that `drivetrain envs` lists"
    is_unknown = isinstance(error, gymnasium.error.NameNotFound | gymnasium.error.NamespaceNotFound)
    elsewhere = _OF_A_MODULE if is_unknown and alike is None and not is_simulator(env_id) else ""
    return f"`drivetrain envs` lists those that can{elsewhere}"


def _namesake(env_id: str) -> str | None:
    """The newest id of the same name, in whatever namespace, or the game that is meant; None where there is neither."""
    bare = _bare(env_id)
    if bare[:1].isupper() and has_game(bare):
        return f"ALE/{bare}-v5"
    alike = [spec for spec in gymnasium.registry.values() if _bare(spec.id).lower() == bare.lower()]
    return max(alike, key=lambda spec: spec.version or 0).id if alike else None


def _bare(env_id: str) -> str:
    """An id without namespace and version, and a game's without the way in which it skips frames."""
    return re.sub(r"(Deterministic|NoFrameskip)?(-v\d+)?$", "", env_id.rpartition("/")[2])


def _not_found(error: Exception | SystemExit) -> ModuleNotFoundError | None:
    """The failed import that an error is, or tells of."""
    return next((one for one in (error, error.__cause__) if isinstance(one, ModuleNotFoundError)), None)


def _not_given(error: Exception | SystemExit) -> str | None:
    """The first argument, quoted, without which what makes an environment cannot be called; None: it is not that."""
    is_of_call = Path(traceback.extract_tb(error.__traceback__)[-1].filename).is_relative_to(_OURS)
    found = _NOT_GIVEN.search(message_of(error)) if isinstance(error, TypeError) and is_of_call else None
    return None if found is None else found[1]
