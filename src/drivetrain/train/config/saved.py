"""A configuration as the files of a run hold it: an object of parts, each an object of settings by name."""

import contextlib
import json
from collections.abc import Collection, Generator
from pathlib import Path
from typing import Any, cast

from drivetrain.core.errors import FileFormatError, InvalidInput
from drivetrain.core.paths import given_path
from drivetrain.train.config.given import NotGivenAgain


def read_settings(path: Path) -> dict[str, Any]:
    """What a config.json holds.

    Raises:
        FileFormatError: It is absent, no JSON, or of another form.
    """
    with reading(path) as data:
        require_form(data)
        return data


@contextlib.contextmanager
def reading(path: str | Path) -> Generator[Any]:
    """What a config.json holds, of whatever form; what is found to be wrong with it is told with the file's name.

    Raises:
        FileFormatError: It is absent, no JSON, or refused as it is read.
        NotGivenAgain: As raised where it is read.
        InvalidInput: That is no path.
    """
    path = given_path("path", path)
    try:
        yield json.loads(path.read_text())
    except NotGivenAgain:
        raise
    except (OSError, ValueError) as error:
        what = error.strerror if isinstance(error, OSError) else error
        raise FileFormatError(f"{path}: expected the config.json of a run: {what}") from error


def require_form(data: Any) -> None:
    """Let what was read pass, if it is a name of an algorithm, an environment, and parts.

    Raises:
        InvalidInput: It is of another form.
    """
    _require(isinstance(data, dict), "its content", "an object of settings", data)
    settings = cast("dict[str, Any]", data)
    for name in ("algo", "env"):
        _require(isinstance(settings.get(name), str), name, "text", settings.get(name))
    parts = {name: part for name, part in settings.items() if name not in ("algo", "env")}
    for name, part in parts.items():
        _require(isinstance(part, dict), name, "an object of settings", part)
    environment = parts.get("environment", {})
    for name in ("env_kwargs", "sim_params"):
        value = environment.get(name, {})
        _require(isinstance(value, dict), name, "an object of settings", value)


def require_parts(data: Collection[str], known: Collection[str]) -> None:
    """Let the names of a saved configuration's parts pass.

    Raises:
        InvalidInput: One is not known, and what it sets would silently be left out; or one lacks.
    """
    if strange := [name for name in data if name not in known]:
        raise InvalidInput(
            f"unknown part {strange[0]!r}: written by a newer drivetrain, or by hand; upgrade to read it"
        )
    if lacking := [name for name in known if name not in data]:
        raise InvalidInput(f"it lacks the part {sorted(lacking)[0]!r}; use an older copy")


def _require(holds: bool, name: str, wanted: str, got: Any) -> None:
    if not holds:
        raise InvalidInput(f"{name}: expected {wanted}, got {json.dumps(got)[:60]}")
