"""What a new run is asked to begin with of another's, and whether it fits; said before anything starts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from drivetrain.core.errors import FileFormatError, InvalidInput
from drivetrain.train.config import TrainConfig
from drivetrain.train.config.agents import SACConfig
from drivetrain.train.config.given import is_of_script, was_object
from drivetrain.train.config.saved import require_form
from drivetrain.train.interface import Interface
from drivetrain.train.learner.devices import leaving_gpus
from drivetrain.train.policies.policy import num_published
from drivetrain.train.run_dir.archives import Arrays
from drivetrain.train.run_dir.checkpoint import load_checkpoint
from drivetrain.train.run_dir.folder import require_run_dir
from drivetrain.train.run_dir.initial import STATE, of_networks
from drivetrain.train.run_dir.saving import change

_OF_NETWORKS = {
    "agent": ("hidden", "activation", "torso", "share_torso", "dueling", "num_atoms", "noisy"),
    "environment": ("normalize_observations", "normalize_rewards"),
}
_OF_SPACES = {"environment": ("frame_stack",)}  # an environment may stack by itself


class Beginning(NamedTuple):
    """What a run begins with."""

    arrays: Arrays
    """Of networks, and the moments that their inputs are normalised by."""
    run_dir: Path
    """The folder of the run that has learned them."""
    num_steps: int
    """Steps it had taken by then."""

    @property
    def meta(self) -> dict[str, Any]:
        """Whose it is, for a file."""
        return {"run_dir": str(self.run_dir), "num_steps": self.num_steps}

    def __str__(self) -> str:
        return f"begins with what {self.run_dir} has learned in {self.num_steps:,} steps"


def beginning(config: TrainConfig, interface: Interface) -> Beginning | None:
    """What a run is to begin with; None where it draws its first networks.

    Raises:
        InvalidInput: There is no run, or one of another algorithm, environment or network.
        FileFormatError: Its checkpoint is absent or damaged.
    """
    if config.run.init_from is None:
        return None
    run_dir = Path(config.run.init_from)
    require_run_dir(run_dir, name="init_from")
    arrays, meta = load_checkpoint(run_dir)
    theirs = _settings(run_dir, meta)
    if theirs["algo"] != config.algo:
        raise InvalidInput(
            f"init_from: expected a run of {config.algo}, got one of {theirs['algo']}, {run_dir}; give another, or "
            "leave it out"
        )
    if meta.get("encoder_frozen"):
        raise InvalidInput(
            f"init_from: expected a run that learns from images, got {run_dir}, whose encoder is frozen; give one "
            "without freeze_encoder_after, or resume this one"
        )
    if (changed := change(interface, meta.get("interface") or {})) is not None:
        _require_same(config, theirs, run_dir, _OF_SPACES)
        raise InvalidInput(
            f"init_from: expected a run in an environment with the spaces of {config.env!r}, got {run_dir}: "
            f"{changed}; give another, or leave it out"
        )
    _require_same(config, theirs, run_dir, _OF_NETWORKS)
    _require_length(arrays, num_published(config, interface), run_dir)
    taken = of_networks(arrays)
    if config.agent.torso != "auto":  # else settings and spaces say what there is
        _require_same_arrays(config, interface, taken, run_dir)
    if isinstance(config.agent, SACConfig) and not config.agent.learn_temperature:
        taken.pop("state/log_alpha", None)  # a setting of this run
    return Beginning(taken, run_dir, meta["num_steps"])


def _settings(run_dir: Path, meta: dict[str, Any]) -> dict[str, Any]:
    """The settings of the run, as its checkpoint has them: what was an object then need not be given again."""
    try:
        require_form(meta.get("config"))
    except InvalidInput as error:
        raise FileFormatError(f"{run_dir / 'checkpoint'}: its configuration makes no sense: {error}") from error
    return meta["config"]


def _require_same(
    config: TrainConfig, theirs: dict[str, Any], run_dir: Path, settings: Mapping[str, tuple[str, ...]]
) -> None:
    """Refuse settings that are others than those of the run; names by part."""
    ours = config.to_dict()
    for part, names in settings.items():
        here, there = ours[part], theirs.get(part, {})
        for name in (name for name in names if name in here and name in there):
            if here[name] == there[name] or (name == "torso" and _may_be_one(here[name], there[name])):
                continue
            raise InvalidInput(
                f"{name}: expected {there[name]} beside init_from, as {run_dir} has it, got {here[name]}; give the "
                "same, or leave init_from out"
            )


def _may_be_one(*torsos: str) -> bool:
    """Whether two names may be of one torso, as of an object, or what a script had, which lies in a module by now."""
    return "auto" not in torsos and any(was_object(name) or is_of_script(name) for name in torsos)


def _require_same_arrays(config: TrainConfig, interface: Interface, taken: Arrays, run_dir: Path) -> None:
    """Refuse a torso of the user's own whose parameters are others than those that are taken over."""
    from drivetrain.train.runs.tried import first_arrays  # imports jax: only where it is needed

    with leaving_gpus(config):
        ours = of_networks(first_arrays(config, interface))
    there, here = ({name: _said(array) for name, array in arrays.items()} for arrays in (taken, ours))
    for name in sorted(name for name in {**there, **here} if name.startswith(STATE)):
        if there.get(name) != here.get(name):
            raise InvalidInput(
                f"torso: expected one with the parameters that {run_dir} has learned, and {name.removeprefix(STATE)} "
                f"is {there.get(name, 'none')} there, and {here.get(name, 'none')} here; give the torso that it has "
                "learned with, or leave init_from out"
            )


def _said(array: Any) -> str:
    return f"{array.dtype}{list(array.shape)}"


def _require_length(arrays: Arrays, expected: int, run_dir: Path) -> None:
    """Refuse what acts otherwise, as by a torso of the same name that is another by now."""
    vector = arrays.get("params", np.empty(0, np.float32))
    if (vector.dtype, vector.shape) != (np.float32, (expected,)):
        raise InvalidInput(
            f"init_from: expected a policy of {expected:,} parameters, got {_said(vector)} in "
            f"{run_dir}; give the torso that it has learned with, or leave init_from out"
        )
