"""The folder of a run: made once, and locked by whoever works on it.

RUN/config.json    every setting, resolved          RUN/lock         held while processes work on it
RUN/logs/          what the processes print         RUN/result.json  there once the run is finished

Runs of several seeds are RUN/seed-S each, below one folder.
"""

import contextlib
import fcntl
import itertools
import json
import os
import stat
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from drivetrain.core.aside import save_text
from drivetrain.core.errors import FileFormatError, InvalidInput
from drivetrain.core.paths import given_path, resolved
from drivetrain.train.config import TrainConfig
from drivetrain.train.config.given import was_object
from drivetrain.train.config.parts import decides
from drivetrain.train.config.saved import read_settings
from drivetrain.train.run_dir.initial import INITIAL

_PARTS = (
    *("config.json", "lock", "logs", "result.json", "checkpoint", "best", "metrics.jsonl", "metrics.csv"),
    *("tensorboard", "time", "unreported.json", "wandb", "wandb.json", INITIAL),
)
"""What a run keeps in its folder."""

_LOCK_WAIT_S = 3.0  # for the processes of a killed supervisor to be gone
_POLL_S = 0.05


def is_part(run_dir: Path, file: Path) -> bool:
    """Whether a file belongs to what a run keeps, and must not be written over; its report.html does not."""
    inside, run = file.resolve(), run_dir.resolve()
    return inside.is_relative_to(run) and inside != run and inside.relative_to(run).parts[0] in _PARTS


def make_run_dir(config: TrainConfig, here: Path) -> Path:
    """Make the run's folder; a relative one lies in the folder `here`.

    Raises:
        InvalidInput: It exists and is not empty, or cannot be written.
    """
    path = here / _asked(config)
    try:
        if config.run.run_dir:
            path.mkdir(parents=True, exist_ok=True)
        else:
            path = _made_anew(path)
        if any(path.iterdir()):
            remedy = "resume it (`drivetrain resume`), " if (path / "config.json").exists() else ""
            raise InvalidInput(f"run_dir: {path} is not empty; {remedy}choose another folder, or remove what is there")
        (path / "logs").mkdir()
    except OSError as error:
        raise InvalidInput(f"run_dir: cannot write to {path}: {error.strerror}; choose another folder") from error
    return path.resolve()


def _asked(config: TrainConfig) -> Path:
    """The folder that was asked for, or what one is called of itself."""
    return given_path("run_dir", config.run.run_dir) if config.run.run_dir else Path(_default_run_dir(config))


def _made_anew(path: Path) -> Path:
    """A new folder of that name, or, where others have begun in the same second, with a number behind it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for number in itertools.count(1):
        folder = path if number == 1 else path.with_name(f"{path.name}-{number}")
        with contextlib.suppress(FileExistsError):
            folder.mkdir()
            return folder
    raise AssertionError


def seed_dirs(config: TrainConfig, seeds: Sequence[int]) -> list[Path]:
    """The folders of the runs of several seeds, absolute; nothing is made.

    Raises:
        InvalidInput: The folder that is to hold them is a run's, or there is a run of one of the seeds.
    """
    path = resolved(_asked(config))
    if (path / "config.json").exists():
        raise InvalidInput(f"run_dir: {path} is the folder of a run; choose another to hold those of the seeds")
    folders = [path / f"seed-{seed}" for seed in seeds]
    taken = [folder.name for folder in folders if folder.is_dir() and any(folder.iterdir())]
    if taken:
        raise InvalidInput(
            f"run_dir: {path} has {', '.join(taken)} already; leave these seeds out (`drivetrain resume` goes on with "
            "them), or choose another folder"
        )
    return folders


def given_run_dir(run_dir: object) -> Path:
    """The path of a run's folder, as a caller gives it; whether it is one is not looked at.

    Raises:
        InvalidInput: It is no path, or that of nobody's home.
    """
    if hasattr(run_dir, "run_dir"):  # the result of a run
        raise InvalidInput(f"run_dir: expected a path, got {type(run_dir).__name__}; give its run_dir")
    return given_path("run_dir", run_dir)


def require_run_dir(path: Path, *, name: str = "RUN") -> None:
    """Let the folder of a run pass; `name` is what it was given as.

    Raises:
        InvalidInput: It is none, or cannot be looked into; those of several seeds are named.
    """
    try:
        if stat.S_ISREG((path / "config.json").stat().st_mode):  # `is_file` of Python 3.14 keeps reasons to itself
            return
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        raise InvalidInput(f"{name}: expected the folder of a run, and {path} is none: {error.strerror}") from error
    if folders := seed_runs(path):
        names = ", ".join(folder.name for folder in folders)
        raise InvalidInput(f"{name}: expected the folder of one run, and {path} holds those of several seeds: {names}")
    raise InvalidInput(f"{name}: expected the folder of a run, and {path} is none{_run_around(path)}")


def _run_around(path: Path) -> str:
    """The run that has a file or a folder, as best/policy.npz, in words; "" where there is none."""
    for folder in path.absolute().parents[:2]:
        if (folder / "config.json").is_file() and is_part(folder, path):
            return f", but in that of one; give {folder}"
    return ""


def label_of(run_dir: Path) -> str:
    """A run's algorithm and environment, and what that is made with; also where something was a Python object.

    Raises:
        FileFormatError: Its config.json is absent or damaged.
    """
    settings = read_settings(run_dir / "config.json")
    environment = settings.get("environment", {})
    kwargs: dict[str, Any] = {**environment.get("env_kwargs", {}), **environment.get("sim_params", {})}
    made_with = ", ".join(f"{name} {json.dumps(value)}" for name, value in kwargs.items())
    return f"{settings['algo']} on {settings['env']}{made_with and f' ({made_with})'}"


def settings_of(run_dir: Path) -> dict[str, str]:
    """What else decides what a run learns, by name: every setting but those of how it is carried out, and its label.

    Where something was a Python object, of which a file knows the name alone, the folder is among these: whether
    another run, unless it is of another seed of the same call, was given the same, nobody can tell.

    Raises:
        FileFormatError: Its config.json is absent or damaged.
    """
    settings = read_settings(run_dir / "config.json")
    parts = {part: fields for part, fields in settings.items() if part not in ("algo", "env")}
    found = {name: value for part, fields in parts.items() for name, value in fields.items() if decides(part, name)}
    told = {name: json.dumps(found[name]) for name in found if name not in ("env_kwargs", "sim_params")}
    if any(map(was_object, (settings["env"], *found.values()))):
        call = _of_call(run_dir.resolve())
        told["objects of"] = min(str(call), os.path.relpath(call), key=len)
    return told


def _of_call(folder: Path) -> Path:
    """The folder of the call that made a run, maybe with those of other seeds."""
    return folder.parent if folder in seed_runs(folder.parent) else folder


def seed_runs(path: Path) -> list[Path]:
    """The runs of several seeds that a folder holds, by their seeds."""
    folders = [config.parent for config in path.glob("seed-*/config.json")]
    return sorted(folders, key=lambda folder: (len(folder.name), folder.name))


def _default_run_dir(config: TrainConfig) -> Path:
    env = "".join(c if c.isalnum() or c in "-_." else "_" for c in config.env)
    moment = time.strftime("%Y%m%d-%H%M%S")
    return Path("runs") / f"{config.algo}-{env}-{moment}-{os.getpid()}"


class RunLock:
    """Keeps a second run out of a folder while a process holds this, or the descriptor it passed on.

    Args:
        run_dir: The run's folder.

    Raises:
        InvalidInput: Somebody else works on the run, or its folder lets nothing be written, or nothing be locked.
    """

    def __init__(self, run_dir: Path) -> None:
        try:
            self.fd = os.open(run_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise InvalidInput(
                f"{run_dir}: expected a folder to work in, and its lock cannot be written: {error.strerror}; "
                "work on a copy of the folder"
            ) from error
        try:
            self._take(run_dir)
        except BaseException:
            os.close(self.fd)
            raise
        _HELD.add(self)

    def _take(self, run_dir: Path) -> None:
        deadline_s = time.monotonic() + _LOCK_WAIT_S
        while True:
            try:
                return fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline_s:
                    raise InvalidInput(
                        f"{run_dir}: another process is working on this run; wait for it, or stop it"
                    ) from None
                time.sleep(_POLL_S)
            except OSError as error:  # Lustre, or a folder of the host of a virtual machine, as some are mounted
                raise InvalidInput(
                    f"{run_dir}: expected a folder on a disk whose files can be locked (flock), which keeps other "
                    f"processes out of a run, and that disk says: {error.strerror}; choose a folder elsewhere"
                ) from error

    def close(self) -> None:
        """Let go of it."""
        _HELD.discard(self)
        os.close(self.fd)

    def __enter__(self) -> "RunLock":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


_HELD: set[RunLock] = set()


def _let_go_of_all() -> None:
    """In a fork of this process, as an environment makes one: the run is not its."""
    for lock in list(_HELD):
        lock.close()


os.register_at_fork(after_in_child=_let_go_of_all)


def save_result(run_dir: Path, values: dict[str, Any]) -> None:
    """Note that the run is finished, and what it has achieved; JSON-able."""
    save_text(run_dir / "result.json", json.dumps(values) + "\n")


def load_result(run_dir: Path) -> dict[str, Any] | None:
    """What `save_result` wrote; None for a run that is not finished.

    Raises:
        FileFormatError: The file is damaged.
    """
    path = run_dir / "result.json"
    try:
        values: dict[str, Any] = json.loads(path.read_text())
        if not {"returns", "num_steps"} <= values.keys():
            raise ValueError("it has no returns, or no number of steps")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, AttributeError) as error:
        raise FileFormatError(f"{path}: expected the result of a finished run: {error}") from error
    return values
