"""Settings that are Python objects: an environment's maker, a torso, an optimizer.

    "module:name"     a name, imported where it is needed
    Given(object)     the object itself, from Python; travels to the processes by cloudpickle

Lambdas and functions of notebooks and scripts travel by value. config.json can only say what was given.
"""

import contextlib
import importlib
import io
import sys
import threading
from collections.abc import Generator, Mapping
from types import FunctionType, ModuleType
from typing import Any, cast

from drivetrain.core.errors import InvalidInput
from drivetrain.core.extras import naming_extra
from drivetrain.core.importing import importing, require_module, with_place

with naming_extra("train"):  # here, as settings are imported where nothing else of that extra is
    import cloudpickle  # pyright: ignore[reportMissingTypeStubs]

_PREFIX = "given from Python: "
AS_MANY_AS = "runs make as many as envs_per_actor (of ppo num_envs) says"
"""To whoever gives several environments at once."""
_SPAWNED_SCRIPT = "__mp_main__"  # what a script is called in processes that multiprocessing spawns
_registry = threading.RLock()  # held while cloudpickle's list of modules is not the caller's


class NotGivenAgain(InvalidInput):
    """A run's file mentions a Python object that the caller has to give again, or a setting that is not to be given."""


class _Pickler(cloudpickle.Pickler):
    """Cloudpickle's, which notes the modules of what only a name is pickled of."""

    named_modules: set[str]

    def reducer_override(self, obj: Any) -> Any:
        reduced = cast(Any, super()).reducer_override(obj)
        if reduced is NotImplemented and isinstance(obj, type | FunctionType | ModuleType):
            module = obj.__name__ if isinstance(obj, ModuleType) else obj.__module__
            if module in sys.modules and module not in cloudpickle.list_registry_pickle_by_value():
                self.named_modules.add(module)
        return reduced


class Given(str):
    """An object in the place of its name; as text it says what it is.

    A str, so that messages, files and the command line need not know of it. Equal are those of the same object, and
    of equal text and content. In another process it is unpickled once: what it has captured, as a table of prices, is
    there once, for all environments that it makes.

    Raises:
        InvalidInput: It cannot be pickled.
    """

    __slots__ = ("_pickled", "_value", "named_modules")
    named_modules: frozenset[str]
    """What other processes import to have the object; known in the one that was given it."""
    _pickled: bytes
    _value: Any

    def __new__(cls, setting: str, value: Any) -> "Given":
        """Pickle an object for the setting of that name."""
        name = getattr(value, "__qualname__", type(value).__qualname__)
        try:
            pickled, modules = _pickled(value)
        except Exception as error:  # whatever the object's own pickling raises
            sentence = " ".join(str(error).split())
            raise InvalidInput(
                f"{setting}: {name} cannot be sent to the run's processes ({sentence}); open what it holds inside it "
                "when it is called, or put it into a module and name it module:name"
            ) from error
        given = cls._of(_PREFIX + name, pickled)
        # Unpickled here it would be another, and classes of a script or notebook that it names, which stay the same
        # classes, would get back the attributes that they had when it was pickled.
        given._value = value
        given.named_modules = modules
        return given

    @classmethod
    def _of(cls, text: str, pickled: bytes) -> "Given":
        given = super().__new__(cls, text)
        given._pickled = pickled
        given.named_modules = frozenset()
        return given

    @property
    def value(self) -> Any:
        """The object, in the process that was given it; elsewhere a copy, the same one each time."""
        try:
            return self._value
        except AttributeError:  # not asked for yet
            with importing(str(self)):  # of what has a module, only the name is pickled
                self._value = cloudpickle.loads(self._pickled)
            return self._value

    def __reduce__(self) -> Any:
        return Given._of, (str(self), self._pickled)

    def __str__(self) -> str:
        return str.__str__(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Given) or not str.__eq__(self, other):
            return False
        # The attributes of a class of a script or notebook are in what was pickled, and may have changed since.
        mine, theirs = getattr(self, "_value", None), getattr(other, "_value", None)
        return self._pickled == other._pickled or (mine is not None and mine is theirs)

    def __ne__(self, other: object) -> bool:
        return not self == other  # str has its own

    def __hash__(self) -> int:
        return str.__hash__(self)


def _pickled(value: Any) -> tuple[bytes, frozenset[str]]:
    """An object pickled, and the modules that it names."""
    file = io.BytesIO()
    pickler = _Pickler(file)
    pickler.named_modules = set()
    with _script_by_value():
        cast(Any, pickler).dump(value)
    return file.getvalue(), frozenset(pickler.named_modules)


@contextlib.contextmanager
def _script_by_value() -> Generator[None]:
    """Let cloudpickle take a script's objects by value in a spawned process, too, as it takes those of `__main__`."""
    with _registry:
        script, registry = sys.modules.get(_SPAWNED_SCRIPT), cast(Any, cloudpickle)
        if script is None or _SPAWNED_SCRIPT in registry.list_registry_pickle_by_value():
            yield
            return
        registry.register_pickle_by_value(script)
        try:
            yield
        finally:
            registry.unregister_pickle_by_value(script)


def plain(text: str) -> str:
    """The text itself, where it is a member of an enumeration or the like: processes may not know its class."""
    return text if isinstance(text, Given) else str.__str__(text)


def named(setting: str, value: Any) -> str:
    """A name as it is, or an object as Given.

    Raises:
        InvalidInput: It cannot be pickled, or is an environment's and makes none.
    """
    if isinstance(value, str):
        return plain(value)
    if setting == "env":
        _require_maker(value)
    return Given(setting, value)


def _require_maker(value: Any) -> None:
    """Refuse what makes no environment, as an environment itself, before it turns out that many cannot be pickled."""
    if callable(value):
        return
    is_one = hasattr(value, "reset") and hasattr(value, "step")
    env_id = getattr(getattr(value, "spec", value), "id", None)  # of Gymnasium's environments, and of its EnvSpec
    if is_one and hasattr(value, "default_params"):
        got = "a simulator itself"
        remedy = "simulators are named: give 'drivetrain/CartPole-v1', say, or of your own 'drivetrain/module:Name'"
    elif is_one and hasattr(value, "num_envs") and not isinstance(env_id, str):
        got = "several environments at once"
        remedy = f"give a function that makes one; {AS_MANY_AS}"
    else:
        got = "an environment itself" if is_one else type(value).__name__
        remedy = (
            f"give {env_id!r}, or lambda: gymnasium.make({env_id!r})"
            if isinstance(env_id, str)
            else "give a function that makes one, as lambda: MyEnv(size=3)"
        )
    raise InvalidInput(
        f"env: expected an id, or a function that makes an environment each time it is called, got {got}; {remedy}"
    )


def load_object(setting: str, name: str) -> Any:
    """The object of a setting.

    Raises:
        InvalidInput: There is no such module, or nothing of that name in it, or what it does raises an error.
    """
    if isinstance(name, Given):
        return name.value
    module, _, attribute = name.partition(":")
    expected = f"{setting}: expected module:name of something that can be imported, got {name!r}"
    if not (module and attribute):
        raise InvalidInput(f"{expected}; name both, as optax:adamw names one of optax's optimizers")
    try:
        require_module(module)
        with importing(module):
            home = importlib.import_module(module)
    except (ImportError, InvalidInput) as error:
        raise InvalidInput(f"{expected} ({error})") from error
    except (Exception, SystemExit) as error:  # a stranger's module may raise anything
        told = with_place(error, " ".join(str(error).split()))
        raise InvalidInput(f"{expected}, and it raises {told}; mend it") from error
    try:
        return getattr(home, attribute)
    except AttributeError as error:
        raise InvalidInput(f"{expected} ({error})") from error


def was_object(value: Any) -> bool:
    """Whether a setting as a file has it stands for an object, of which it tells the name alone."""
    return isinstance(value, str) and value.startswith(_PREFIX)


def is_of_script(name: str) -> bool:
    """Whether a name is of what a script or notebook defines: elsewhere there is nothing of that name."""
    return name.removeprefix("drivetrain/").startswith(("__main__:", f"{_SPAWNED_SCRIPT}:"))


def require_again(settings: Mapping[str, Any], again: Mapping[str, Any]) -> dict[str, Any]:
    """Settings read from a file, with the objects that it could only mention.

    Args:
        settings: By name, as read.
        again: The objects by name, or their "module:name". What was a script's may have a module since.

    Raises:
        NotGivenAgain: One is missing or unknown, or another than the run's is given of what the file does hold.
    """
    for name in again:
        if name not in settings:
            raise NotGivenAgain(
                f"unknown setting {name!r}: env, torso and optimizer are given again, where they were objects"
            )
    whole = dict(settings)
    for name, value in settings.items():
        if not was_object(value):
            if again.get(name) in (None, value):
                continue
            if not (isinstance(value, str) and is_of_script(value)):
                raise NotGivenAgain(
                    f"{name} of this run is {value!r} and stays so, got {again[name]!r}; leave it out, or start "
                    "another run"
                )
            whole[name] = named(name, again[name])
        else:
            if again.get(name) is None:
                raise NotGivenAgain(
                    f"{name} of this run was {value}, which a file cannot hold; give it again, as {name}=... in "
                    f"Python or --{name} module:name on the command line"
                )
            whole[name] = named(name, again[name])
    return whole
