"""Policies for the fused loop: each maker gives a `Made`, a function of (params, obs, key) and its first parameters.

    act = sim.policies.mlp(env, hidden=(64, 64))
    params = act.init(jax.random.key(0))
    rollout = sim.compile(env, 1024, 64, policy=act, policy_params=params, record=("obs", "action", "log_prob"))
    state, trajectory = rollout(rollout.reset(), policy=params)

Everything is for ONE environment and in plain JAX; a policy of your own is a function of the same form. Draws are made
with `sim.random`, so that these policies run under both generators.
"""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import log, pi, prod
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np

from drivetrain.core.docstrings import with_fields
from drivetrain.core.errors import CompileError, InvalidInput
from drivetrain.sim import random
from drivetrain.sim.acting import Policy
from drivetrain.sim.api import Tree, describe, name_of
from drivetrain.sim.gymnax import adapted
from drivetrain.sim.untraceable import asked

__all__ = ["constant", "linear", "mlp", "scripted", "uniform"]
# For users; the rest of this file makes them.

Head = Literal["categorical", "gaussian", "epsilon_greedy"]
ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {"tanh": jnp.tanh, "relu": jax.nn.relu}


@with_fields
@dataclass(frozen=True, kw_only=True)
class Made:
    """A policy, and the parameters that it starts with."""

    function: Policy
    init: Callable[[Any], Tree]
    """Parameters from a JAX key; each call gives arrays of the same shapes and types."""

    def __call__(self, params: Tree, obs: Tree, key: Any) -> Any:
        """See `acting.Policy`."""
        return self.function(params, obs, key)


def check_given(policy: Any, params: Tree) -> None:
    """Refuse a policy of ours without the parameters that it needs."""
    if isinstance(policy, Made) and not jax.tree.leaves(params):
        missing = jax.tree.leaves(jax.eval_shape(policy.init, jax.eval_shape(jax.random.key, 0)))
        if missing:
            raise InvalidInput("policy_params: expected those of the policy, as policy.init(key) gives them, got none")


def without_params(_: Any) -> Tree:
    """What a policy without parameters starts with."""
    return ()


def uniform(env: Any) -> Made:
    """A draw from the action space in each step."""
    env = adapted(env)
    space = space_of_actions(env)
    return Made(function=lambda params, obs, key: space.sample(random.jax_key(key)), init=without_params)


def constant(action: Tree) -> Made:
    """One action always; it is the parameter, so that another needs no other kernel."""
    action = jax.tree.map(lambda x: np.asarray(x, jax.dtypes.canonicalize_dtype(np.asarray(x).dtype)), action)
    return Made(function=lambda params, obs, key: params, init=lambda key: action)


def scripted(rule: Callable[[Tree], Tree]) -> Made:
    """A rule written by hand: an action from the observation, as `lambda obs: (obs[2] > 0).astype(jnp.int32)`."""
    return Made(function=lambda params, obs, key: rule(obs), init=without_params)


def linear(env: Any, head: Head | None = None) -> Made:
    """A linear function of the flattened observation, and a head as for `mlp`."""
    return mlp(env, hidden=(), head=head)


def mlp(
    env: Any,
    hidden: Sequence[int] = (64, 64),
    *,
    activation: Literal["tanh", "relu"] = "tanh",
    head: Head | None = None,
    separate_value: bool = False,
) -> Made:
    """A perceptron on the flattened observation.

    Args:
        env: Whose observations and actions it fits; of `sim.api.Environment`, or of gymnax.
        hidden: Units of each hidden layer. Weights start orthogonal, with gain sqrt(2), the output's with 0.01, that of
            values with 1, as is usual for PPO (Huang et al. 2022, "The 37 implementation details", detail 2); biases
            at 0.
        activation: After each hidden layer.
        head: "categorical": the outputs are logits of discrete actions, of a MultiDiscrete those of each choice after
            those before it. "gaussian": they are means, with the parameter `log_std` for each dimension; draws are not
            clipped. Both give the extras log_prob (of the draw, summed over choices or dimensions) and value, from one
            more output of the last hidden layer. "epsilon_greedy": they are values of actions of one Discrete; with
            probability `params["epsilon"]` the action is random, the extra is q_values. None: categorical or gaussian,
            as the action space says.
        separate_value: The value comes from hidden layers of its own, of the same sizes, as in CleanRL's and
            Stable-Baselines3's PPO, and not from those of the action.

    Raises:
        InvalidInput: The head does not fit the action space or has no value, there is none for such actions (integers
            in a Box, several parts), or a size is not positive.
    """
    env = adapted(env)
    space, obs = space_of_actions(env), first_obs(env)
    action, counts = asked(name_of(env), "action_space", lambda: drawn(space)), counts_of(space)
    discrete = bool(counts)
    check_actions(name_of(env), action, discrete)
    head = head or ("categorical" if discrete else "gaussian")
    check_head(head, counts, activation, hidden)
    if separate_value and head == "epsilon_greedy":
        raise InvalidInput("separate_value: expected a head that gives a value, got epsilon_greedy; leave it out")
    num_inputs = sum(prod(leaf.shape) for leaf in jax.tree.leaves(obs))
    num_outputs = sum(counts) if discrete else prod(action.shape)
    sizes = (num_inputs, *hidden)
    form = Form(head=head, shape=action.shape, dtype=action.dtype, counts=counts)

    def layers(keys: Any) -> list[Tree]:
        return [dense(key, *pair, 2.0**0.5) for key, pair in zip(keys, pairwise(sizes), strict=False)]

    def units(hidden: Sequence[Tree], x: jax.Array) -> jax.Array:
        for layer in hidden:
            x = ACTIVATIONS[activation](affine(layer, x))
        return x

    def init(key: Any) -> Tree:
        keys = jax.random.split(key, len(sizes) + 1)
        params = {"hidden": layers(keys), "output": dense(keys[-2], sizes[-1], num_outputs, 0.01)}
        if head == "epsilon_greedy":
            return {**params, "epsilon": jnp.float32(0.05)}
        params["value"] = dense(keys[-1], sizes[-1], 1, 1.0)
        if separate_value:
            params["value_hidden"] = layers(jax.random.split(keys[-1], len(sizes)))
        return {**params, "log_std": jnp.zeros(num_outputs)} if head == "gaussian" else params

    def function(params: Tree, obs: Tree, key: Any) -> Any:
        given = flattened(obs)
        check_inputs((*params["hidden"], params["output"])[0], given)
        x = units(params["hidden"], given)
        outputs = affine(params["output"], x)
        if head == "epsilon_greedy":
            return form.greedy(outputs, params["epsilon"], key)
        action, log_prob = form.drawn(outputs, params.get("log_std"), key)
        last = units(params["value_hidden"], given) if separate_value else x
        return action, {"log_prob": log_prob, "value": affine(params["value"], last)[0]}

    return Made(function=function, init=init)


@dataclass(frozen=True, kw_only=True)
class Form:
    """How outputs become actions."""

    head: Head
    shape: tuple[int, ...]
    """Of an action, as its type."""
    dtype: Any
    counts: tuple[int, ...]
    """Values of each discrete choice."""

    def drawn(self, outputs: jax.Array, log_std: Any, key: Any) -> tuple[jax.Array, jax.Array]:
        """An action, and the logarithm of its probability (density)."""
        if self.head == "categorical":
            return self.chosen(outputs, key) if self.shape else self.choice(outputs, key)
        noise = random.normal(key, outputs.shape)
        log_prob = -jnp.sum(0.5 * noise * noise + log_std + 0.5 * log(2 * pi))
        return (outputs + jnp.exp(log_std) * noise).reshape(self.shape).astype(self.dtype), log_prob

    def choice(self, logits: jax.Array, key: Any) -> tuple[jax.Array, jax.Array]:
        """One of the values of one choice."""
        action = random.categorical(key, logits)
        log_probs = jax.nn.log_softmax(logits)
        return action.astype(self.dtype), log_probs[action]

    def chosen(self, logits: jax.Array, key: Any) -> tuple[jax.Array, jax.Array]:
        """Several choices, each by itself."""
        keys, ends = random.split(key, len(self.counts)), accumulate(self.counts)
        parts = [logits[end - count : end] for count, end in zip(self.counts, ends, strict=True)]
        actions, log_probs = zip(*[self.choice(part, keys[k]) for k, part in enumerate(parts)], strict=True)
        return jnp.stack(actions).reshape(self.shape), jnp.stack(log_probs).sum()

    def greedy(self, q_values: jax.Array, epsilon: jax.Array, key: Any) -> tuple[jax.Array, dict[str, jax.Array]]:
        """The best action, or with probability epsilon any."""
        key_choice, key_action = random.split(key)
        any_action = random.randint(key_action, (), 0, q_values.shape[0])
        explores = random.uniform(key_choice) < epsilon
        action = jnp.where(explores, any_action, jnp.argmax(q_values)).astype(self.dtype)
        return action.reshape(self.shape), {"q_values": q_values}


def dense(key: Any, num_inputs: int, num_outputs: int, gain: float) -> Tree:
    """Weights [num_inputs, num_outputs] and biases [num_outputs] of a layer."""
    weights = jax.nn.initializers.orthogonal(gain)(key, (num_inputs, num_outputs), jnp.float32)
    return {"weights": weights, "bias": jnp.zeros(num_outputs)}


def affine(layer: Tree, x: jax.Array) -> jax.Array:
    """A layer's outputs."""
    return x @ layer["weights"] + layer["bias"]


def check_inputs(layer: Tree, x: jax.Array) -> None:
    """Refuse observations that a policy's first layer has no weights for.

    Raises:
        CompileError: They have another size.
    """
    num_inputs = layer["weights"].shape[0]
    if num_inputs != x.size:
        raise CompileError(
            f"policy: expected observations of {num_inputs} numbers, for which it has weights, got {x.size}; make the "
            "policy, and its parameters by init, with the environment in which it acts"
        )


def flattened(obs: Tree) -> jax.Array:
    """All leaves of an observation in a row, as float32."""
    return jnp.concatenate([jnp.ravel(leaf).astype(jnp.float32) for leaf in jax.tree.leaves(obs)])


def first_obs(env: Any) -> Tree:
    """Shapes and types of an environment's observations."""
    return jax.eval_shape(lambda key: env.reset(key, env.default_params)[0], jax.eval_shape(jax.random.key, 0))


def space_of_actions(env: Any) -> Any:
    """What an environment says that actions are, for its default parameters."""
    return asked(name_of(env), "action_space", lambda: env.action_space(env.default_params))


def drawn(space: Any) -> Any:
    """Shape and type of a draw from a space."""
    return jax.eval_shape(space.sample, jax.eval_shape(jax.random.key, 0))


def counts_of(space: Any) -> tuple[int, ...]:
    """The numbers of values of each discrete choice; none where actions are others."""
    return tuple(int(n) for n in np.ravel(space.n if hasattr(space, "n") else getattr(space, "nvec", ())))


def check_actions(name: str, action: Tree, discrete: bool) -> None:
    """Refuse actions that no head gives: a Gaussian's draw that is cut to integers has another probability."""
    several = not hasattr(action, "dtype")
    if several or not (discrete or jnp.issubdtype(action.dtype, jnp.floating)):
        got = str(jax.tree.structure(action)) if several else describe(action)
        remedy = "" if several else "give it a MultiDiscrete, or a Box of float32 and round in `step`, or "
        raise InvalidInput(
            f"env: expected discrete actions, or one array of real ones, got {got}, as the action space of {name} "
            f"gives; {remedy}write the policy as a function of your own, (params, obs, key) -> (action, extras)"
        )


def check_head(head: str, counts: Sequence[int], activation: str, hidden: Sequence[int]) -> None:
    """Refuse what cannot be built."""
    discrete = bool(counts)
    if head not in get_args(Head):
        raise InvalidInput(f"head: expected None or one of {', '.join(get_args(Head))}, got {head!r}")
    if discrete == (head == "gaussian"):
        kind, fitting = ("discrete", "categorical or epsilon_greedy") if discrete else ("real", "gaussian")
        raise InvalidInput(f"head: expected {fitting} for {kind} actions, got {head!r}")
    if len(counts) > 1 and head == "epsilon_greedy":
        raise InvalidInput("head: expected categorical for several discrete actions at once, got 'epsilon_greedy'")
    if activation not in ACTIVATIONS:
        raise InvalidInput(f"activation: expected one of {', '.join(ACTIVATIONS)}, got {activation!r}")
    given: Any = hidden
    if not isinstance(given, list | tuple) or not all(hasattr(size, "__index__") and size > 0 for size in hidden):
        raise InvalidInput(f"hidden: expected at least 1 unit in each layer, as (64, 64), got {hidden!r}")
