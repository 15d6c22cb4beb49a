"""`sim.make_vec`: N environments as Gymnasium's vector environment. Imports Gymnasium when it is called."""

import importlib
from typing import TYPE_CHECKING, Any

from drivetrain.core.extras import naming_extra
from drivetrain.sim.api import Autoreset, Engine, Tree
from drivetrain.sim.forked import refuse_after_fork
from drivetrain.sim.random import Generator

if TYPE_CHECKING:
    from gymnasium.vector import AutoresetMode

    from drivetrain.sim.gymnasium.vector import SimVectorEnv


def make_vec(
    env: Any,
    num_envs: int = 1,
    engine: Engine = "native",
    *,
    params: Tree = None,
    autoreset: "Autoreset | AutoresetMode" = "next_step",
    num_threads: int = 1,
    generator: Generator = "threefry",
    render_mode: str | None = None,
    **options: Any,
) -> "SimVectorEnv":
    """N environments of one simulator as a `gymnasium.vector.VectorEnv`: a compiled step per call.

    The kernel is compiled at the first `reset`. Spaces, seeds and rewards are those of the environment.

    Args:
        env: A name as for `sim.make` ("CartPole-v1", "gymnax/Breakout-MinAtar"), or anything that `sim.compile` takes.
        num_envs: N, at least 1.
        engine: As for `sim.compile`, like `params`, `num_threads` and `generator`.
        autoreset: How episodes restart, in `metadata["autoreset_mode"]` as Gymnasium's `AutoresetMode`. "next_step",
            Gymnasium's own default: the step after an end resets and ignores its action. "same_step": the step that
            ends an episode gives the next one's first observation, and `infos["final_obs"]`, `infos["final_info"]`
            how it ended. "disabled": the caller resets, by `reset(options={"reset_mask": mask})`. Or the
            `AutoresetMode` itself.
        render_mode: None, or "rgb_array": `render()` gives a frame of every environment.
        options: For `sim.make`, where `env` is a name.

    Returns:
        The environments. `step(actions)` gives NumPy arrays `[num_envs, ...]` that are the caller's own.

    Raises:
        InvalidInput: An argument does not fit, Gymnasium has no space like the environment's, or this process was
            forked after simulators had used JAX.
        CompileError: The environment cannot be traced.
        MissingExtra: Gymnasium is not installed.
    """
    refuse_after_fork()  # spaces are made by JAX
    with naming_extra():
        vector = importlib.import_module("drivetrain.sim.gymnasium.vector")
    return vector.SimVectorEnv(env, num_envs, engine, params=params, autoreset=autoreset, num_threads=num_threads,
                               generator=generator, render_mode=render_mode, **options)  # fmt: skip
