"""`drivetrain envs`: which registered Gymnasium environments can be trained on, and by what."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Generator
from dataclasses import dataclass

from drivetrain.cli.flags import read_flags

_STDERR_FD = 2


@dataclass(frozen=True, kw_only=True)
class _Flags:
    """List the registered Gymnasium environments, each with the algorithms that train on it."""

    all: bool = False
    """Also list those that none trains on, with the reason."""


def run(argv: list[str]) -> int:
    """Print one environment per line."""
    flags = read_flags(_Flags, argv, prog="drivetrain envs")
    from drivetrain.train.environments.environment import trainable

    with _out_of_sight():
        found = trainable()
    width = max((len(env_id) for env_id, (algos, _) in found.items() if algos), default=0)
    for env_id, (algos, _) in found.items():
        if algos:
            print(f"{env_id:<{width}}  {', '.join(algos)}")
    if flags.all:
        for env_id, (_, reason) in found.items():
            if reason:
                print(f"{env_id}: {reason}")
    return 0


@contextlib.contextmanager
def _out_of_sight() -> Generator[None]:
    """Environments that are made to be looked at: what their libraries say on standard error by themselves, and write
    to the working folder, as MuJoCo does both with its warnings (MUJOCO_LOG.TXT), is of no use to the reader of a list.
    """
    sys.stderr.flush()
    shown = os.dup(_STDERR_FD)
    try:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), _STDERR_FD)
            yield
    finally:
        os.dup2(shown, _STDERR_FD)
        os.close(shown)
