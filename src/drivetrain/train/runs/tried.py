"""Trying a torso and an optimizer of the user's own before anything starts: updates are traced, not computed."""

# JAX annotates parts of its interface only:
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

import importlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drivetrain.core.errors import InvalidInput
from drivetrain.train.config import PPOConfig, TrainConfig
from drivetrain.train.experience.rollout import RolloutBuffer
from drivetrain.train.interface import Interface
from drivetrain.train.learner.on_policy.algorithm import OnPolicyAlgorithm
from drivetrain.train.learner.optimizers import optimizer_of
from drivetrain.train.learner.sharing import ONE_LEARNER
from drivetrain.train.learner.states import named
from drivetrain.train.learner.updates import Algorithm, empty_batches
from drivetrain.train.networks.broadcasting import broadcasting
from drivetrain.train.policies.embeddings import embedded, without_encoders

_EXPECTED = {
    "torso": "a torso for batches of any size",
    "optimizer": "a function from a learning rate to an optax transformation with init(params) and "
    "update(gradients, state, params)",
}


def require_updates(config: TrainConfig, interface: Interface) -> None:
    """Check that the algorithm can learn with what the user has brought, as it would in the run.

    Raises:
        InvalidInput: Something raised, the state changes its shapes or kinds, a schedule of the rate is not heeded, or
            nobody can tell what of the state is of encoders that are to be frozen.
    """
    try:
        with broadcasting():
            before, after = _before_and_after(config, interface)
    except InvalidInput:
        raise
    except Exception as error:  # whatever the user's functions raise
        raise _raised(config, error) from error
    if before != after:
        raise _unfit(config, "steps are not like the parameters, or its state changes its shapes or kinds")
    if isinstance(config.agent, PPOConfig) and config.agent.learning_rate_schedule != "constant":
        _require_heeded(config)
    if not config.on_policy and config.updates.freeze_encoder_after is not None:
        _require_parted(config, interface, before)


def first_arrays(config: TrainConfig, interface: Interface) -> dict[str, jax.ShapeDtypeStruct]:
    """The arrays of a run's state at the start, by the names that a checkpoint has for them.

    Raises:
        InvalidInput: What the user has brought raised.
    """
    try:
        with broadcasting():
            return named(_before(_algorithm(config, interface)))
    except InvalidInput:
        raise
    except Exception as error:  # whatever the user's functions raise
        raise _raised(config, error) from error


def _algorithm(config: TrainConfig, interface: Interface) -> Algorithm | OnPolicyAlgorithm:
    module: Any = importlib.import_module(f"drivetrain.train.algos.{config.algo}")
    return module.make(config, interface)


def _before(algorithm: Algorithm | OnPolicyAlgorithm) -> Any:
    """The shapes of the state at the start."""
    return jax.eval_shape(lambda: algorithm.init(np.random.default_rng(0)))


def _before_and_after(config: TrainConfig, interface: Interface) -> tuple[Any, Any]:
    """The shapes of the state at the start, and after some updates."""
    algorithm = _algorithm(config, interface)
    before = _before(algorithm)
    if isinstance(algorithm, OnPolicyAlgorithm):
        rollout = RolloutBuffer.create(config, interface, shared=False).rollout
        progress = jax.ShapeDtypeStruct((), jnp.float32)
        after, _ = jax.eval_shape(
            lambda state, rollout, progress: algorithm.learn(state, rollout, progress, ONE_LEARNER),
            before,
            rollout,
            progress,
        )
        return before, after
    batch = jax.tree.map(lambda x: x[0], empty_batches(config, interface))
    after, *_ = jax.eval_shape(lambda state, batch: algorithm.update(state, batch, ONE_LEARNER), before, batch)
    return before, after


def _require_parted(config: TrainConfig, interface: Interface, before: Any) -> None:
    """Check that the state without what is of encoders is that of the layers above, which learn on after the switch."""
    above = _before(_algorithm(config, embedded(config, interface)))
    if without_encoders(named(before)) != named(above):
        raise InvalidInput(
            f"freeze_encoder_after: expected an optimizer that keeps apart what it remembers of each parameter, and "
            f"{config.agent.optimizer!r} does not, as optax.flatten does not; leave out one of them"
        )


def _require_heeded(config: TrainConfig) -> None:
    """Check that steps depend on the rate they are given, and not on that of the start alone."""
    number = jax.ShapeDtypeStruct((), jnp.float32)
    params = {"weight": jax.ShapeDtypeStruct((2, 2), jnp.float32), "bias": jax.ShapeDtypeStruct((2,), jnp.float32)}

    def moved(rate: Any, state: Any, params: Any) -> Any:
        return optimizer_of(config.agent, learning_rate=rate).step(params, state, params)[0]

    try:
        state = jax.eval_shape(optimizer_of(config.agent).init, params)
        traced: Any = jax.make_jaxpr(moved)(number, state, params).jaxpr
    except Exception:  # made for the algorithm's own parameters, as one that goes by their names
        return
    rate = traced.invars[0]
    if not any(variable is rate for step in traced.eqns for variable in step.invars):
        raise _unfit(
            config,
            "it keeps the rate that it was begun with, so that the schedule of learning_rate would not be heeded (as "
            "with optax.inject_hyperparams); schedule it in the optimizer, with a constant learning_rate_schedule",
        )


def _raised(config: TrainConfig, error: Exception) -> InvalidInput:
    return _unfit(config, f"it raised {type(error).__name__}: {' '.join(str(error).split())[:300]}")


def _unfit(config: TrainConfig, reason: str) -> InvalidInput:
    given = {"torso": config.agent.torso, "optimizer": config.agent.optimizer}
    own = {name: value for name, value in given.items() if value not in ("auto", "adam")}
    told = "does not fit" if len(own) == 1 else "do not fit"
    return InvalidInput(
        f"{' and '.join(own)}: {' and '.join(map(repr, own.values()))} {told}: {reason}; expected "
        f"{', and '.join(_EXPECTED[name] for name in own)}"
    )
