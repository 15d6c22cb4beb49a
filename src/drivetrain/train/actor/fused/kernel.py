"""The kernel of a run: one call takes `grant_length` steps of `envs_per_actor` environments, policy included."""

# JAX annotates parts of its interface only:
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from drivetrain import sim
from drivetrain.core.errors import CompileError, InvalidInput
from drivetrain.sim.api import Rollout
from drivetrain.train.actor.fused.acting import CHOICE, Acting, acting
from drivetrain.train.config import TrainConfig
from drivetrain.train.environments.sim_params import drawn_params, usual_params
from drivetrain.train.interface import Interface
from drivetrain.train.policies.policy import num_published

RECORD = ("obs_before", CHOICE, "reward", "terminated", "truncated", "final_obs")
"""What is recorded of every step: what was acted on, and what it led to, before the next episode's start."""


class Kernel(NamedTuple):
    """Steps of a run's simulators."""

    rollout: Rollout
    """Takes them."""
    acting: Acting
    """What the policy in it is given."""


def compiled(
    config: TrainConfig,
    interface: Interface,
    vector: NDArray[np.float32],
    rng: np.random.Generator,
    domain: np.random.Generator,
) -> Kernel:
    """The kernel of an actor, on the published vector; one of the same run is found on the disk.

    Args:
        config: The run's; it has a `fused_engine`.
        interface: What the environment looks like.
        vector: float32[num_published]; looked at at every call.
        rng: Of the noise of noisy layers.
        domain: Of the parameters in which environments differ.

    Raises:
        InvalidInput: Environment and policy do not go into one kernel; says why, and what to do.
    """
    engine = config.fused_engine
    assert engine is not None, "the run's environments are Gymnasium's"
    env: Any = sim.make(config.env, **config.environment.fresh_kwargs)
    policy = acting(config, interface, vector, action_of(env, usual_params(env, config.environment)), rng)
    params = drawn_params(env, config.environment, config.envs_per_actor, domain)
    sizes = (config.envs_per_actor, config.grant_length)
    acts: dict[str, Any] = {"policy": policy.act, "policy_params": policy.parameters(0)}
    try:
        rollout = sim.compile(env, *sizes, engine, params, RECORD, **acts)
    except CompileError as error:
        others = ["xla"] if engine == "native" and _compiles(env, *sizes, "xla", params, RECORD, **acts) else []
        if _compiles(env, 1, 1):  # as Gymnasium's adapters step it
            others.append("none, which steps it through Gymnasium")
        remedy = f"; use sim_engine {', or '.join(others)}" if others else ""
        raise InvalidInput(
            f"environment {config.env!r} and its policy do not go into one kernel of the engine {engine}: {error}"
            f"{remedy}"
        ) from error
    return Kernel(rollout, policy)


def _compiles(*what: Any, **options: Any) -> bool:
    """Whether `sim.compile` takes something."""
    try:
        sim.compile(*what, **options)
    except (CompileError, InvalidInput):
        return False
    return True


def action_of(env: Any, params: Any) -> jax.ShapeDtypeStruct:
    """Shape and type of an action of a simulator."""
    return jax.eval_shape(lambda: env.action_space(params).sample(jax.random.key(0)))


def require_kernel(config: TrainConfig, interface: Interface) -> None:
    """Compile the kernel before anything starts; actors find it on the disk.

    Raises:
        InvalidInput: It cannot be.
    """
    rng = np.random.default_rng(0)
    compiled(config, interface, np.zeros(num_published(config, interface), np.float32), rng, rng)
