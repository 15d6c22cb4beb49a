"""Our engines `native`, `xla`, `numpy`, `torch` and `torch_compiled`, of which the second word is one.

Settings: `sim.compile` as documented; the state of a call is that of the next. Where observations are recorded as
another type than the environment's own, the environment is asked to give that type (`Observing`).
"""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, cast

import jax
import jax.numpy as jnp
import numpy as np

from drivetrain import sim
from drivetrain.bench.serving import NotOffered
from drivetrain.bench.sim.peers.entry import Simulator, serve_simulator
from drivetrain.bench.sim.scene import Scene
from drivetrain.core.errors import CompileError
from drivetrain.sim.api import Engine, Environment, Rollout
from drivetrain.sim.random import Generator


@dataclass(frozen=True)
class Observing:
    """An environment whose observations are of another type."""

    inner: Environment
    dtype: Any

    @property
    def name(self) -> str:
        """The inner one's, as all that is not below."""
        return self.inner.name

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def reset(self, key: Any, params: Any) -> Any:
        """The inner one's, observed in that type."""
        obs, state = self.inner.reset(key, params)
        return self.cast(obs), state

    def step(self, key: Any, state: Any, action: Any, params: Any) -> Any:
        """The inner one's, observed in that type."""
        obs, *rest = self.inner.step(key, state, action, params)
        return self.cast(obs), *rest

    def cast(self, obs: Any) -> Any:
        """Every leaf."""
        return jax.tree.map(lambda x: jnp.asarray(x).astype(self.dtype), obs)


def engine_asked() -> Engine:
    """That of the command line."""
    return cast("Engine", sys.argv[2])


def compiled(scene: Scene, engine: Engine) -> Rollout:
    """The rollout of a scene."""
    env = sim.make(scene.env, **dict(scene.options))
    if scene.policy:
        policy = policy_of(env, scene.policy)
        extras = () if scene.policy == "random" else ("log_prob", "value")
        return sim.compile(
            env,
            scene.num_envs,
            scene.num_steps,
            engine,
            record=("obs", "action", "reward", "terminated", "truncated", *extras),
            policy=policy,
            policy_params=first_weights(policy),
        )
    is_recorded = scene.record != "nothing"
    return sim.compile(
        Observing(env, scene.record) if is_recorded else env,
        scene.num_envs,
        scene.num_steps,
        engine,
        record=("obs",) if is_recorded else (),
        num_threads=scene.num_threads,
        generator=cast("Generator", scene.generator),
    )


def random_actions(env: Any, params: Any, num_steps: int, num_envs: int) -> Any:
    """Of an environment's own space, for every step of a call."""
    keys = jax.random.split(jax.random.key(0), num_steps * num_envs)
    actions = jax.jit(jax.vmap(env.action_space(params).sample))(keys)
    return jax.tree.map(lambda x: x.reshape(num_steps, num_envs, *x.shape[1:]), actions)


def simulator(scene: Scene, engine: Engine) -> Simulator:
    """A rollout that goes on from where it stands.

    Raises:
        NotOffered: The engine does not compile the environment.
    """
    rollout = offered(scene, engine)
    if scene.policy:
        return led(rollout, scene)
    actions = random_actions(rollout.env, rollout.params, scene.num_steps, scene.num_envs)
    if engine != "xla":
        actions = jax.tree.map(np.asarray, actions)
    return going_on(rollout, actions, scene, jax.block_until_ready)


def offered(scene: Scene, engine: Engine) -> Rollout:
    """The rollout of a scene.

    Raises:
        NotOffered: The engine does not compile the environment.
    """
    try:
        return compiled(scene, engine)
    except CompileError as error:
        raise NotOffered(str(error)) from error


def going_on(rollout: Rollout, actions: Any, scene: Scene, wait_for: Callable[[Any], object]) -> Simulator:
    """Calls that go on from where the last one left; `wait_for` is given what the last one returned."""
    state = rollout.reset(seed=0)

    def run() -> int:
        nonlocal state
        trajectory = None
        for _ in range(scene.num_calls):
            state, trajectory = rollout(state, actions)
        wait_for((state.env, trajectory))
        return scene.num_calls * scene.num_steps * scene.num_envs

    return run


def led(rollout: Rollout, scene: Scene) -> Simulator:
    """A rollout with a policy that goes on from where it stands."""
    weights = first_weights(policy_of(rollout.env, scene.policy))
    state = rollout.reset(seed=0)

    def run() -> int:
        nonlocal state
        state, trajectory = rollout(state, policy=weights)
        jax.block_until_ready((state.env, trajectory))
        return scene.num_envs * scene.num_steps

    return run


def policy_of(env: Any, name: str) -> sim.policies.Made:
    """One of `scene.POLICIES`."""
    if name == "random":
        return sim.policies.uniform(env)
    if name == "linear":
        return sim.policies.linear(env)
    activation = cast('Literal["tanh", "relu"]', name.partition(" ")[0])
    return sim.policies.mlp(env, hidden=(64, 64), activation=activation, separate_value=name.endswith(" each"))


def first_weights(policy: sim.policies.Made) -> Any:
    """What it starts with, as JAX gives it: NumPy's view of it is free, and so is XLA's use."""
    return jax.jit(policy.init)(jax.random.key(0))


if __name__ == "__main__":
    serve_simulator(lambda scene: simulator(scene, engine_asked()))
