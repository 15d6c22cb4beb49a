"""What an environment is, and what a compiled rollout takes and gives.

Environment ─transition─▶ one step with autoreset ─trace─▶ engine ─▶ Rollout: state, actions -> state, trajectory
"""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, Protocol

import jax
import numpy as np

from drivetrain.core.docstrings import with_fields
from drivetrain.core.errors import InvalidInput

Engine = Literal["xla", "native", "cuda", "numpy", "torch", "torch_compiled"]
Autoreset = Literal["same_step", "next_step", "disabled"]
RECORDABLE = ("obs", "reward", "terminated", "truncated", "final_obs", "info")
RECORDABLE_OF_POLICY = ("action", "obs_before")
"""With a policy, also; and its extras, by their names."""
Tree = Any
"""A pytree of arrays."""


class Environment(Protocol):
    """A simulator of ONE environment, in functional JAX; the form of gymnax 1.0, without autoreset.

    Everything is pure: what changes is in the state. Shapes and types of state and observation never
    change. Each key is used once. `sim.check_env` says whether an object fits.
    """

    @property
    def name(self) -> str:
        """How people call it; the only part that may be missing (`name_of`)."""
        ...

    @property
    def default_params(self) -> Tree:
        """Numbers that a user may change; constants of what is compiled unless each environment has its own."""
        ...

    def reset(self, key: jax.Array, params: Tree) -> tuple[Tree, Tree]:
        """Observation and state at the start of an episode."""
        ...

    def step(
        self, key: jax.Array, state: Tree, action: jax.Array, params: Tree
    ) -> tuple[Tree, Tree, jax.Array, jax.Array, jax.Array, dict[str, Any]]:
        """Observation, state, reward, terminated, truncated and info after one action; never resets."""
        ...

    def action_space(self, params: Tree) -> Any:
        """Something with `sample(key)`."""
        ...

    def observation_space(self, params: Tree) -> Any:
        """Something with `sample(key)`."""
        ...


def name_of(env: Any) -> str:
    """How people call an environment; by its type where it does not say."""
    try:  # `getattr` and `hasattr` are what fingerprints cannot follow
        return str(env.name)
    except AttributeError:
        return type(env).__name__


@jax.tree_util.register_dataclass
@with_fields
@dataclass(frozen=True)
class RolloutState:
    """Where N environments stand between two calls; the same pytree on every engine."""

    env: Tree
    """The environments' own states, leading axis [num_envs]."""
    keys: Any
    """uint32[num_envs, 2]: the key of each environment; step t uses `fold_in(keys[i], t)`."""
    step: Any
    """uint32: steps taken since reset, by each environment."""
    done: Any
    """bool[num_envs]: the last step ended an episode."""
    obs: Tree
    """Observations of these states. With a policy: what it sees next. Without: the last ones recorded, for the caller
    alone; None where "obs" is not recorded."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What `sim.compile` was asked for, checked."""

    num_envs: int
    """N."""
    num_steps: int
    """K, of a call."""
    record: tuple[str, ...]
    """What the trajectory holds, in the order asked for."""
    autoreset: Autoreset
    """How episodes restart."""
    num_threads: int
    """Of the native engine."""
    stream: Any = None
    """That the engine "cuda" runs on."""
    carried: Any = "state.env"
    """What errors call the state that engines carry: a name, or where that is a pair (`acting`, `varying`) a pair."""


class Runner(Protocol):
    """An engine's compiled steps."""

    def __call__(self, state: RolloutState, actions: Tree, shared: Tree = ()) -> tuple[RolloutState, dict[str, Tree]]:
        """Run num_steps with actions, or with a policy's parameters, which all environments share.

        `obs` of the returned state is None, but for a runner with a policy.
        """
        ...


@with_fields
@dataclass(frozen=True, kw_only=True, eq=False)
class Rollout:
    """K steps of N environments per call. Inputs stay valid; calls from several threads are safe.

    Inside a program that JAX traces (`jax.jit`, `lax.scan`) a call is an operation of it, on the engines "native",
    "cuda" and "xla". A rollout equals only itself, so that JAX can keep what it has compiled by it.
    """

    env: Environment
    """The simulator; gymnax's as an adapter with our interface."""
    params: Tree
    """Its parameters: constants of the kernel, or rows, one for each environment."""
    engine: Engine
    """Who takes the steps."""
    settings: Settings
    """Sizes, restarts, what is recorded."""
    start: Callable[[int], RolloutState]
    """First states of a seed, see `reset`."""
    runner: Runner
    """The compiled steps, see `__call__`."""
    has_policy: bool = False
    """Whether a policy in the kernel acts, in place of actions that are given."""

    def reset(self, seed: int = 0) -> RolloutState:
        """Environment i at the start of an episode, with the key `split(key(seed), num_envs)[i]`.

        Raises:
            InvalidInput: The seed is no integer, this process was forked after simulators had used JAX, or there is no
                memory for so many environments.
        """
        return self.start(seed)

    def __call__(
        self, state: RolloutState, actions: Tree = None, *, policy: Tree = None
    ) -> tuple[RolloutState, dict[str, Tree]]:
        """Take num_steps steps in every environment.

        Args:
            state: From `reset` or an earlier call, of this engine or another.
            actions: Leading axes [num_steps, num_envs]; None with a policy.
            policy: Parameters of the policy, a pytree like `policy_params` of `sim.compile`, with any values; may be
                left out where it has none.

        Returns:
            The new state, and what was recorded, each with leading axes [num_steps, num_envs].

        Raises:
            InvalidInput: Shapes or types do not fit.
        """
        given: Any = state
        if not isinstance(given, RolloutState):
            got = type(given).__name__
            raise InvalidInput(f"state: expected a RolloutState, from `reset` or an earlier call, got a {got}")
        if self.has_policy:
            if actions is not None:
                raise InvalidInput("actions: expected none, since the policy acts; give rollout(state, policy=params)")
            return self.runner(state, (), () if policy is None else policy)
        if policy is not None:
            raise InvalidInput("policy: expected none, since this rollout has no policy; see policy= of sim.compile")
        state, trajectory = self.runner(state, actions)
        if "obs" not in trajectory:
            return state, trajectory
        last = each(lambda x: x[-1], trajectory["obs"])
        return RolloutState(state.env, state.keys, state.step, state.done, last), trajectory

    def __reduce__(self) -> NoReturn:
        raise InvalidInput(
            "a Rollout cannot be pickled or copied; share it, since no call changes it, and in another process compile "
            "anew, which finds the kernel on disk"
        )


def each(function: Callable[[Any], Any], tree: Tree) -> Tree:
    """A function of every leaf; the usual tree, one array, is not walked through."""
    return function(tree) if type(tree) is np.ndarray else jax.tree.map(function, tree)


def dtype_of(x: Any) -> np.dtype[Any]:
    """NumPy's type of an array of any library; those of PyTorch have the same names."""
    dtype = x.dtype
    return np.dtype(str(dtype).removeprefix("torch.") if type(dtype).__module__ == "torch" else dtype)


def describe(x: Any) -> str:
    """Type and shape, as float32[4]."""
    return f"{dtype_of(x).name}[{','.join(map(str, x.shape))}]"
