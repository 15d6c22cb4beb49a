"""Weights & Biases: rows of metrics as the history of one of its runs.

    RUN/wandb.json    the project and the id of that run, so that a resumed one goes on with it
    RUN/wandb/        what its library keeps, and with WANDB_MODE=offline all that there is

Rows have num_steps as their axis. The history only grows: rows that a resumed run does again stand there
twice, where metrics.jsonl and the other sinks have them once.
"""

import importlib
import json
from pathlib import Path
from typing import Any

from drivetrain.core.aside import save_text
from drivetrain.core.errors import FileFormatError, MissingExtra, RunError
from drivetrain.core.extras import naming_extra
from drivetrain.train.config import TrainConfig
from drivetrain.train.telemetry.sinks.sink import Row

WITHOUT = 'a resumed run goes on without it by --wandb ""'
"""What else can be done where its library is missing or refuses."""


class WeightsAndBiases:
    """One run there, open.

    Args:
        config: The run's, with a project.
        run_dir: Its folder.

    Raises:
        FileFormatError: RUN/wandb.json is damaged.
        RunError: The service or its library refuses.
    """

    name = "Weights & Biases"

    def __init__(self, config: TrainConfig, run_dir: Path) -> None:
        wandb: Any = importlib.import_module("wandb")
        project, known = config.run.wandb, _known(run_dir)
        if known.get("project") != project:  # another was asked for when the run was taken up again
            known = {}
        try:
            self._run: Any = wandb.init(
                project=project,
                id=known.get("id"),
                resume="allow" if known else None,
                name="/".join(run_dir.parts[-2:]),  # the seeds of a run have the last part in common with others
                dir=str(run_dir),
                config=config.to_dict(),
                reinit="create_new",  # a run of the caller's own stays what it is
                # What our processes print is in RUN/logs; nothing of the caller's output is taken.
                settings=wandb.Settings(console="off", silent=True, x_disable_stats=True, disable_git=True),
            )
        except Exception as error:  # not all of its own are public, and what its process meets comes as it is
            raise RunError(f"--wandb: {_sentence(error)}; mend it, or leave --wandb out; {WITHOUT}") from error
        save_text(run_dir / "wandb.json", json.dumps({"project": project, "id": self._run.id}) + "\n")
        self._run.define_metric("num_steps", hidden=True)
        self._run.define_metric("*", step_metric="num_steps")

    def write(self, row: Row) -> None:
        """Add a row; it is sent by a process of the library's.

        Raises:
            OSError: The library refuses.
        """
        try:
            self._run.log(dict(row))
        except Exception as error:  # as above
            raise OSError(0, _sentence(error)) from error

    def close(self) -> None:
        """Wait until everything is sent, or, offline, written. The library's process ends with this one.

        Raises:
            OSError: The library cannot.
        """
        try:
            self._run.finish()
        except Exception as error:  # as above
            raise OSError(0, _sentence(error)) from error


def require_wandb(config: TrainConfig, *, otherwise: str = "") -> None:
    """See to it that the library is there, where the run asks for it.

    Args:
        config: The run's.
        otherwise: What else can be done.

    Raises:
        MissingExtra: It is not installed.
    """
    if config.run.wandb is None:
        return
    try:
        with naming_extra():
            importlib.import_module("wandb")
    except MissingExtra as error:
        raise MissingExtra("; ".join(filter(None, (str(error), otherwise)))) from error


def _known(run_dir: Path) -> dict[str, str]:
    """The project and the id of the run there that this one has been; empty for a new one."""
    path = run_dir / "wandb.json"
    try:
        found: dict[str, str] = json.loads(path.read_text())
        return {"project": str(found["project"]), "id": str(found["id"])}
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError) as error:
        raise FileFormatError(f"{path}: expected the project and the id of a run: {error}") from error


def _sentence(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
