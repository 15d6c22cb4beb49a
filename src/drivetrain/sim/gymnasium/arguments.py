"""Seeds, options and ways to render that callers ask for, checked."""

import operator
from typing import Any

import numpy as np
import numpy.typing as npt

from drivetrain.core.errors import InvalidInput
from drivetrain.sim.api import Environment, name_of
from drivetrain.sim.compiler import NUM_SEEDS

RENDER_MODES = ["rgb_array"]


def checked_mask(options: dict[str, Any] | None, num_envs: int) -> npt.NDArray[np.bool_] | None:
    """Which environments to restart, from the options of a reset; None is all."""
    if not options:
        return None
    if set(options) != {"reset_mask"}:
        raise InvalidInput(f"options: expected reset_mask alone, got {', '.join(map(repr, options))}")
    mask = np.asarray(options["reset_mask"])
    if mask.shape != (num_envs,) or mask.dtype != np.bool_:
        raise InvalidInput(f"options['reset_mask']: expected bool[{num_envs}], got {mask.dtype.name}{list(mask.shape)}")
    return mask


def render_modes(env: Environment) -> list[str]:
    """Ways to render this environment."""
    return list(RENDER_MODES) if hasattr(env, "render") else []


def checked_render_mode(render_mode: str | None, env: Environment) -> str | None:
    """A way to render that there is, for an environment that has a picture."""
    if render_mode is None:
        return None
    if render_mode not in RENDER_MODES:
        raise InvalidInput(f"render_mode: expected None or 'rgb_array', got {render_mode!r}")
    if not hasattr(env, "render"):
        raise InvalidInput(f"render_mode: {name_of(env)} has no picture, as it has no method render(state, params)")
    return render_mode


def checked_seed(seed: Any) -> int | None:
    """A seed that a key can be made of."""
    if seed is None:
        return None
    try:
        number = operator.index(seed)
    except TypeError:  # an array of several, too
        number = -1
    if not 0 <= number < NUM_SEEDS:
        raise InvalidInput(f"seed: expected one integer from 0 to {NUM_SEEDS - 1}, or None, got {seed!r}")
    return number
