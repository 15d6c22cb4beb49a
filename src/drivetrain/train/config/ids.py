"""What an environment's id tells: whose it is, where two write it differently, and whether it is a game of Atari."""

import importlib.util
import re
from functools import cache
from pathlib import Path

_OLD = re.compile(r"([A-Z][A-Za-z0-9]*?)(NoFrameskip)?-v[04]")
_HOMES = ("gymnasium", "ale_py")


def without_home(env: str) -> str:
    """The id without the module that it comes from, where that is one of those whose environments are known here."""
    module, _, name = env.rpartition(":")
    return name if module in _HOMES else env


def is_atari(env: str) -> bool:
    """Whether it is named as one of ale_py's: ALE/Pong-v5, or as before PongNoFrameskip-v4, Pong-v4, Pong-v0.

    Or as one of these of the module ale_py, ale_py:ALE/Pong-v5. Names of the last kind are many a package's: there has
    to be a game of that name.
    """
    env = without_home(env)
    if env.startswith("ALE/"):
        return True
    match = _OLD.fullmatch(env)
    return match is not None and (match[2] is not None or has_game(match[1]))


@cache
def has_game(name: str) -> bool:
    """Whether ale_py, which is not imported, comes with a game of this name."""
    package = importlib.util.find_spec("ale_py")
    if package is None or package.origin is None:
        return False
    words = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    return (Path(package.origin).parent / "roms" / f"{words}.bin").exists()
