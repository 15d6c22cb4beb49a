"""A policy in the loop: what it is given, what it may give, and where its observations travel.

    policy(params, obs, key) ─▶ action, or action and extras ─▶ env.step ─▶ obs ─▶ the policy of the next step

The policy is traced into the step, so that what nobody records of it is dead code like any other. Its parameters are
arguments of a call, one value for all environments. The observation that it sees is a part of the state that engines
carry; callers find it in `RolloutState.obs`.
"""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import jax
import numpy as np

from drivetrain.core.errors import CompileError, InvalidInput
from drivetrain.sim.api import (
    RECORDABLE,
    RECORDABLE_OF_POLICY,
    Environment,
    RolloutState,
    Runner,
    Tree,
    describe,
    dtype_of,
    name_of,
)
from drivetrain.sim.held_keys import as_words
from drivetrain.sim.ir.importer import is_key
from drivetrain.sim.narrowing import Narrow, narrowed
from drivetrain.sim.random import Generator, policy_key
from drivetrain.sim.transition import strong

Policy = Callable[[Tree, Tree, Any], Any]
"""(params, observation of ONE environment, key) -> action, or (action, extras): a dictionary of arrays."""


@dataclass(frozen=True, kw_only=True)
class Acting:
    """A policy, and shapes and types of its parameters."""

    policy: Policy
    params: Tree
    """Of `jax.ShapeDtypeStruct`, as JAX takes the example: of 64 bits it makes 32."""
    example: Tree = ()
    """Of `jax.ShapeDtypeStruct`, as `policy_params` were given."""
    narrow: Narrow | None = None
    """How observations are recorded; the policy sees them wide."""

    generator: Generator = "threefry"
    """Of the key that the policy gets."""
    structure: Any = None
    """Of an action, if it is known: a pair that has it is an action, and never (action, extras)."""

    def __call__(self, params: Tree, obs: Tree, words: Any, number: Any) -> tuple[Tree, dict[str, Any]]:
        """Action and extras of one environment in a step, as arrays.

        Args:
            words: See `random.policy_key`.
            number: See there.

        Raises:
            CompileError: The extras are no dictionary of names.
        """
        given = self.policy(params, obs, policy_key(words, number, self.generator))
        is_pair = isinstance(given, tuple) and len(given) == 2 and jax.tree.structure(given) != self.structure
        action, extras = given if is_pair else (given, {})
        if not isinstance(extras, dict) or not all(isinstance(name, str) for name in extras):
            raise CompileError(
                "policy: expected an action, or (action, extras) with a dictionary of arrays by name, got extras of "
                f"type {type(extras).__name__}; give (action, {{}}) where an action is itself a pair"
            )
        return strong(action), cast("dict[str, Any]", strong(as_words(extras)))

    def recorded(self, obs: Tree) -> Tree:
        """What the policy sees, as it is recorded."""
        return obs if self.narrow is None else narrowed(obs, self.narrow)


def acting_of(
    policy: Policy | None, params: Tree, generator: Generator = "threefry", narrow: Narrow | None = None
) -> Acting | None:
    """A policy with the shapes of its parameters, taken from an example; None without one.

    Raises:
        InvalidInput: It cannot be called, or there are parameters without a policy.
    """
    if policy is None:
        if jax.tree.leaves(params):
            raise InvalidInput("policy_params: expected none without a policy; give policy=, too")
        return None
    if not callable(policy):
        raise InvalidInput(f"policy: expected a function (params, obs, key) -> action, got {type(policy).__name__}")
    example = jax.tree_util.tree_map_with_path(example_of, params)
    taken = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, jax.dtypes.canonicalize_dtype(x.dtype)), example)
    return Acting(policy=policy, params=taken, example=example, narrow=narrow, generator=generator)


def example_of(path: Any, leaf: Any) -> jax.ShapeDtypeStruct:
    """Shape and type of a parameter.

    Raises:
        InvalidInput: It is no array and no number of JAX's, or holds typed random keys.
    """
    name = f"policy_params{jax.tree_util.keystr(path)}"
    refuse_keys(name, leaf)
    try:
        return shape_of(leaf)
    except (TypeError, ValueError) as error:
        raise no_array(name, leaf, error) from error


def shape_of(leaf: Any) -> jax.ShapeDtypeStruct:
    """Shape and type of an array, of a Python number, which has 64 bits, or of what says them.

    Raises:
        TypeError: It is no number.
    """
    leaf = leaf if hasattr(leaf, "dtype") else np.asarray(leaf)
    dtype = dtype_of(leaf)
    if dtype.kind in "OSU":
        raise TypeError(f"{dtype.name} is no type of numbers")
    return jax.ShapeDtypeStruct(tuple(leaf.shape), dtype)


def refuse_keys(name: str, leaf: Any) -> None:
    """Refuse typed random keys where only numbers pass, as to a policy."""
    if isinstance(leaf, jax.Array | jax.ShapeDtypeStruct) and is_key(leaf):
        raise InvalidInput(
            f"{name}: expected numbers, got typed random keys; give their words, jax.random.key_data(key), and draw "
            "with jax.random.wrap_key_data(words)"
        )


def check_acts(name: str, space: Tree, action: Tree, extras: dict[str, Any], record: tuple[str, ...]) -> None:
    """What a policy gives fits the environment, and what is to be recorded is there.

    Args:
        name: Of the environment.
        space: Shapes and types of a draw from the action space.

    Raises:
        CompileError: The action has another structure, shape or type, or an extra has a name that is taken.
        InvalidInput: Something is to be recorded that nobody gives.
    """
    if jax.tree.structure(action) != jax.tree.structure(space):
        expected, got = (str(jax.tree.map(describe, tree)) for tree in (space, action))
        is_one = jax.tree.structure(space) == jax.tree.structure(0)
        remedy = "one array, as by jnp.stack" if is_one else "all of its parts"
        raise CompileError(
            f"policy: expected an action like those of {name}, {expected}, got {got}; give {remedy}, or "
            "(action, extras) where there is more"
        )
    for x, y in zip(jax.tree.leaves(space), jax.tree.leaves(action), strict=True):
        if (x.shape, x.dtype) != (y.shape, y.dtype):
            remedy = f"cast it, as with action.astype({np.dtype(x.dtype).name!r})"
            if x.size != y.size:
                remedy = "give as many numbers"
            elif x.shape != y.shape:
                remedy = f"reshape it, as with action.reshape({x.shape})"
            raise CompileError(
                f"policy: expected an action {describe(x)}, as the action space of {name} gives, got {describe(y)}; "
                f"{remedy}"
            )
    known = (*RECORDABLE, *RECORDABLE_OF_POLICY)
    taken = sorted(set(extras) & set(known))
    if taken:
        raise CompileError(
            f"policy: expected extras of names other than {', '.join(known)}, got {taken[0]!r}; rename it"
        )
    unknown = [wanted for wanted in record if wanted not in (*known, *extras)]
    if unknown:
        raise InvalidInput(f"record: expected names from {', '.join((*known, *extras))}, got {unknown[0]!r}")


class Remembering:
    """An environment with the steps of another, whose state is (the other's, its last observation)."""

    def __init__(self, env: Environment) -> None:
        """Nothing of `env` changes."""
        self.env = env
        self.name, self.default_params = name_of(env), env.default_params

    def reset(self, key: jax.Array, params: Tree) -> tuple[Tree, Tree]:
        """See `Environment`."""
        obs, state = self.env.reset(key, params)
        return obs, (state, obs)

    def step(
        self, key: jax.Array, state: Tree, action: jax.Array, params: Tree
    ) -> tuple[Tree, Tree, jax.Array, jax.Array, jax.Array, dict[str, Any]]:
        """See `Environment`."""
        obs, after, reward, terminated, truncated, info = self.env.step(key, state[0], action, params)
        return obs, (after, obs), reward, terminated, truncated, info

    def action_space(self, params: Tree) -> Any:
        """See `Environment`."""
        return self.env.action_space(params)

    def observation_space(self, params: Tree) -> Any:
        """See `Environment`."""
        return self.env.observation_space(params)


def observing(runner: Runner, acting: Acting, num_envs: int) -> Runner:
    """A runner with observations in `RolloutState.obs`, from one on states that hold them beside the environment's."""

    def run(state: RolloutState, actions: Tree, shared: Tree = ()) -> tuple[RolloutState, dict[str, Tree]]:
        if not jax.tree.leaves(state.obs):
            raise InvalidInput(
                f"state.obs: expected observations of {num_envs} environments, which the policy sees, got none; start "
                "from `reset` of a rollout that was compiled with a policy"
            )
        beside = RolloutState((state.env, state.obs), state.keys, state.step, state.done, None)
        after, trajectory = runner(beside, actions, checked_params(acting, shared))
        env, obs = after.env
        return RolloutState(env, after.keys, after.step, after.done, obs), trajectory

    return run


def checked_params(acting: Acting, given: Tree) -> Tree:
    """A policy's parameters, if they have the structure, shapes and types that were compiled; values may be any.

    Numbers of 64 bits are taken where the example had them, and become what JAX makes of them.

    Raises:
        InvalidInput: They have not.
    """
    expected = acting.params
    if not jax.tree.leaves(expected) and not jax.tree.leaves(given):
        return expected  # (), None and {} are nothing alike, and a call that leaves them out gives ()
    if jax.tree.structure(given) != jax.tree.structure(expected):
        raise InvalidInput(
            f"policy: expected parameters {jax.tree.structure(expected)}, as in policy_params of sim.compile, got "
            f"{jax.tree.structure(given)}"
        )
    named = jax.tree_util.tree_leaves_with_path(given)
    leaves = [array_of(f"policy{jax.tree_util.keystr(path)}", leaf) for path, leaf in named]
    wide = jax.tree.leaves(acting.example)
    for number, ((path, _), x, y) in enumerate(zip(named, jax.tree.leaves(expected), leaves, strict=True)):
        if tuple(y.shape) != x.shape or dtype_of(y).newbyteorder("=") not in (x.dtype, wide[number].dtype):
            raise InvalidInput(
                f"policy{jax.tree_util.keystr(path)}: expected {describe(x)}, as in policy_params of sim.compile, got "
                f"{describe(y)}; convert it, or compile anew"
            )
        if dtype_of(y) != x.dtype and x.dtype.kind == "f":  # integers are the engines' to narrow, where they fit
            leaves[number] = array_of(f"policy{jax.tree_util.keystr(path)}", y, x.dtype)
    return jax.tree.unflatten(jax.tree.structure(expected), leaves)


def array_of(name: str, leaf: Any, dtype: Any = None) -> Any:
    """An array as it is, or NumPy's of a type, of a number, or of what speaks nothing but DLPack."""
    if isinstance(leaf, float):
        leaf = float(leaf)  # NumPy's float64 is one of Python's, as where it comes from np.linspace
    if hasattr(leaf, "dtype") and dtype is None:
        refuse_keys(name, leaf)
        return leaf
    try:
        if hasattr(leaf, "__dlpack__") and not hasattr(leaf, "__array__"):
            leaf = np.from_dlpack(leaf)
        if dtype is None:
            own = shape_of(leaf).dtype
            dtype = own if hasattr(leaf, "dtype") else jax.dtypes.canonicalize_dtype(own)
        return np.asarray(leaf, dtype)
    except (TypeError, ValueError, OverflowError, RuntimeError, BufferError) as error:
        raise no_array(name, leaf, error) from error


def no_array(name: str, leaf: Any, error: Exception) -> InvalidInput:
    """The error for what stands where an array or a number was expected."""
    return InvalidInput(f"{name}: expected an array or a number, got a {type(leaf).__name__}: {error}")
