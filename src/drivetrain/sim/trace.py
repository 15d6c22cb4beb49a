"""Finds out the shapes of an environment, and refuses what cannot be compiled before anything starts."""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

import dataclasses
import functools
import hashlib
import re
from collections.abc import Callable
from collections.abc import Generator as Yields
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, cast

import jax
import jax.core
import numpy as np

from drivetrain.core.errors import CompileError, DrivetrainError, InvalidInput
from drivetrain.sim.acting import Acting, check_acts
from drivetrain.sim.api import Autoreset, Environment, Tree, describe, name_of
from drivetrain.sim.fingerprint.jax_state import traced_for
from drivetrain.sim.given_params import other_sizes
from drivetrain.sim.held_keys import Kinds, as_keys, as_words, kinds_of
from drivetrain.sim.ir.importer.importer import own_programs
from drivetrain.sim.own_code import WRITERS, own_hash
from drivetrain.sim.random import Generator, first_key, keys_of_step
from drivetrain.sim.transition import advance, first, strong
from drivetrain.sim.untraceable import check_number, failure
from drivetrain.sim.varying import Varied

STARTS = ("obs", "state")
"""What `reset` gives."""
RESULTS = ("obs", "state", "reward", "terminated", "truncated", "info")
"""What `step` gives."""
SCALARS = (
    ("reward", "number", "sum it"),
    ("terminated", "bool", "use .any() or .all()"),
    ("truncated", "bool", "use .any() or .all()"),
)
"""Which of them are one value, of what kind, and what to do with more."""


class Shapes(Protocol):
    """What goes into a step of one environment and comes out, as pytrees of `jax.ShapeDtypeStruct`; see `Traced`."""

    @property
    def state(self) -> Tree:
        """Of the environment."""
        ...

    @property
    def action(self) -> Tree:
        """Of a draw from the action space; nothing where a policy acts."""
        ...

    @property
    def record(self) -> dict[str, Tree]:
        """Of what is recorded, by name."""
        ...

    @property
    def shared(self) -> Tree:
        """Of a policy's parameters."""
        ...


@dataclass(frozen=True, kw_only=True)
class Traced:
    """One step of one environment as a function of arrays, and the shapes that go in and come out."""

    step: Callable[..., Any]
    """(keys uint32[2], step uint32, state, done, action, shared) -> (state, done, {name: recorded})."""
    jaxpr: Any
    """Of `step`, closed."""
    state: Tree
    """Of `jax.ShapeDtypeStruct`, as are the next two."""
    action: Tree
    record: dict[str, Tree]
    shared: Tree = ()
    """A policy's parameters, the same for all environments and steps; then there are no actions."""
    name: str = "the environment"
    """For messages."""

    @functools.cached_property
    def digest(self) -> str:
        """The hash of everything that a source depends on: this program, its constants, and what of ours writes it."""
        text, constants = text_of(self.jaxpr)
        leaves = [len(jax.tree.leaves(tree)) for tree in (self.state, self.action, self.record, self.shared)]
        draws = str(getattr(jax.config, "jax_threefry_partitionable", True))  # the same text, and other numbers
        hashed = hashlib.sha256("\n".join([own_hash(*WRITERS), jax.__version__, draws, str(leaves), text]).encode())
        for constant in constants:
            hashed.update(hashlib.sha256(constant).digest())
        return hashed.hexdigest()


def trace(
    env: Environment, params: Tree, autoreset: Autoreset, record: tuple[str, ...], generator: Generator = "threefry",
    differing: Varied | None = None, acting: Acting | None = None,
) -> Traced:  # fmt: skip
    """Trace an environment abstractly: each half once, since tracing is what compiling takes when all else is kept.

    Args:
        params: Of one environment.
        differing: What of them differs between environments; it is the second half of the traced state then.
        acting: Who acts; the environment is one that remembers its observation then.

    Raises:
        CompileError: It is not in the form, branches in Python on what is not known, changes shapes, or keeps a traced
            value.
    """
    key, number, done = (jax.ShapeDtypeStruct(*form) for form in (((2,), "uint32"), ((), "uint32"), ((), "bool")))
    held = Once(env, params)
    once = cast("Environment", held)

    def step(words: Any, number: Any, state: Tree, done: Any, action: Tree, shared: Tree = ()) -> Any:
        keys = keys_of_step(words, number, generator)
        own, rows = (state, ()) if differing is None else state
        here = params if differing is None else differing.params(rows)
        more: dict[str, Any] = {}
        if acting is not None:
            action, extras = acting(shared, own[1], words, number)
            more = {"action": action, "obs_before": acting.recorded(own[1]), **extras}
        after, ended, recorded = advance(once, here, autoreset, keys, own, done, action)
        recorded |= more
        return after if differing is None else (after, rows), ended, {name: recorded[name] for name in record}

    def start(words: Any) -> tuple[Tree, Tree]:
        return first(once, params, first_key(words, generator))

    def draw(words: Any) -> Tree:
        return env.action_space(params).sample(jax.random.wrap_key_data(words))

    (held.start_obs, state), _ = abstract(env, "reset", start, key)
    action, _ = abstract(env, "action_space", draw, key)
    shared: Tree = ()
    if acting is not None:
        acting = dataclasses.replace(acting, structure=jax.tree.structure(action))
        given, extras = acted(env, acting, acting.params, state[1], key, number)
        check_acts(name_of(env), action, given, extras, record)
        action, shared = (), acting.params
    if differing is not None:
        rows = differing.rows
        state = (state, tuple(jax.ShapeDtypeStruct(row.shape[1:], row.dtype) for row in rows))
    (_, _, recorded), jaxpr = abstract(env, "step", step, key, number, state, done, action, shared)
    check_environment_keeps_nothing(env)
    return Traced(step=step, jaxpr=jaxpr, state=state, action=action, record=recorded, shared=shared, name=name_of(env))


class Once:
    """`reset` is traced once for all its uses; the results of `step` are checked against its shapes.

    States, observations and infos hold their keys as words, and `step` gives the environment keys again.
    """

    def __init__(self, env: Environment, params: Tree) -> None:
        """Nothing is traced yet."""
        self.env = env
        self.params = params
        self.traced_reset = jax.jit(lambda key: env.reset(key, params))
        self.start_obs: Tree = None
        """Shapes of the observation that `reset` gives, once that is known."""
        self.kinds: Kinds = ()
        """Of the state's keys, likewise."""

    def reset(self, key: jax.Array, params: Tree) -> tuple[Tree, Tree]:
        """See `Environment`; with parameters that differ between environments it is traced for itself."""
        results = self.traced_reset(key) if params is self.params else self.env.reset(key, params)
        check_number(name_of(self.env), "reset", results, STARTS)
        self.kinds = kinds_of(results[1])
        obs, state = as_words(tuple(results))
        return obs, state

    def step(self, key: jax.Array, state: Tree, action: Tree, params: Tree) -> Any:
        """See `Environment`."""
        given = as_keys(state, self.kinds)  # dictionaries of its own, for a step may write into them
        results = self.env.step(key, given, action, params)
        check_number(name_of(self.env), "step", results, RESULTS)
        check_same(self.env, "state", as_keys(state, self.kinds), strong(results[1]))
        check_same(self.env, "observation", self.start_obs, strong(as_words(results[0])))
        check_scalars(self.env, results)
        check_info(self.env, results[-1])
        return as_words(tuple(results))


def abstract(env: Environment, what: str, function: Callable[..., Any], *arguments: Any) -> tuple[Any, Any]:
    """Shapes of a function's results, and its jaxpr; what goes wrong becomes one sentence."""
    try:
        with jax.transfer_guard_host_to_device("allow"):  # constants, as jnp.array([0, 1]), are made at once
            jaxpr, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
    except DrivetrainError:
        raise
    except Exception as error:  # whatever the author's code raises
        raise failure(name_of(env), what, error) from error
    if any(isinstance(value, jax.core.Tracer) for value in jaxpr.consts):
        raise CompileError(
            f"{name_of(env)}: `{what}` is impure: it uses a value that an earlier trace left behind, as in an "
            "attribute; keep everything that changes in the environment's state"
        )
    return shapes, jaxpr


def check_info(env: Environment, info: Any) -> None:
    """What a step says besides is a dict of numbers."""
    if not isinstance(info, dict):
        got = type(info).__name__
        raise CompileError(
            f"{name_of(env)}: `step` must give info as a dict, got a {got}: give {{}} where there is none"
        )
    for path, leaf in jax.tree_util.tree_leaves_with_path(info):
        if isinstance(leaf, str | bytes):
            raise CompileError(
                f"{name_of(env)}: `step` must give numbers and arrays in info, got {leaf!r} as "
                f"info{jax.tree_util.keystr(path)}: leave it out, or give a number that stands for it"
            )


def check_scalars(env: Environment, results: Any) -> None:
    """The reward, and whether an episode ended, are one value each."""
    for name, wanted, remedy in SCALARS:
        x = results[RESULTS.index(name)]
        if not jax.tree_util.all_leaves([x]) or np.shape(x) != ():
            got = describe(x) if hasattr(x, "dtype") else str(jax.tree.structure(x))
            raise CompileError(f"{name_of(env)}: `step` must give {name} as one {wanted}, got {got}: {remedy}")


def acted(env: Environment, acting: Acting, *given: Any) -> tuple[Tree, dict[str, Any]]:
    """Shapes of a policy's action and extras; it is traced twice, because only one that is no function differs then.

    Raises:
        CompileError: The policy cannot be traced, or keeps something from one call to the next.
    """
    shapes, one = abstract(env, "policy", lambda *x: acting(*x), *given)
    holder = getattr(acting.policy, "__self__", acting.policy)
    who = f"policy {getattr(acting.policy, '__qualname__', type(acting.policy).__name__)}"
    check_keeps_nothing(who, holder, "a policy keeps no state; what changes goes into the environment's")
    with traced_for(object()):  # JAX would answer from its memory what it has traced under jit before
        _, two = abstract(env, "policy", lambda *x: acting(*x), *given)
    if text_of(one) != text_of(two):
        raise CompileError(
            f"{who} is impure: traced a second time it is another program; take random numbers from the key "
            "(jax.random, not random or numpy.random), and read no clock, counter or list that changes"
        )
    return shapes


def check_environment_keeps_nothing(env: Any, outer: tuple[Any, ...] = ()) -> None:
    """No attribute of an environment, or of one that it wraps, is a value of the trace; `outer`: those that wrap it."""
    check_keeps_nothing(f"{name_of(env)}: `step` or `reset`", env, "keep everything that changes in the state")
    for value in getattr(env, "__dict__", {}).values():
        if hasattr(value, "step") and not any(value is each for each in (*outer, env)):
            check_environment_keeps_nothing(value, (*outer, env))


def check_keeps_nothing(who: str, holder: Any, remedy: str) -> None:
    """No attribute of an object is a value of a trace."""
    for name, value in getattr(holder, "__dict__", {}).items():
        if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves_of(value)):
            raise CompileError(f"{who} is impure: it leaves a traced value in the attribute {name!r}; {remedy}")


def leaves_of(value: Any, most_nested: int = 8) -> list[Any]:
    """Of what may be no pytree: a dictionary whose keys have no order, or a list that holds itself."""
    try:
        return jax.tree.leaves(value)
    except Exception:  # also a SystemError, of a recursion inside JAX's C++
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
        inner = [leaves_of(part, most_nested - 1) for part in parts] if most_nested else []
        return [leaf for each in inner for leaf in each]


@contextmanager
def told_of_params(env: Environment, params: Tree) -> Yields[None]:
    """What fails with parameters of another type or size than the environment's own is told as that.

    Raises:
        InvalidInput: The block cannot be traced, and the parameters are of another type or size.
    """
    try:
        yield
    except CompileError as error:
        expected = env.default_params
        sizes = other_sizes(env, params)
        if sizes:
            raise InvalidInput(f"{sizes}, with which {error}") from error
        if expected is None or isinstance(params, type(expected)):
            raise
        wanted, got = (kind.__name__ for kind in (type(expected), type(params)))
        if wanted == got:  # each environment may have its Params
            wanted, got = (f"{kind.__module__}.{kind.__name__}" for kind in (type(expected), type(params)))
        raise InvalidInput(
            f"params: expected a {wanted}, as default_params of {name_of(env)} is, got a {got}, with which {error}"
        ) from error


def check_same(env: Environment, what: str, before: Tree, after: Tree) -> None:
    """What a step gives, the state say, has the shapes and types of what a reset gives."""
    if jax.tree.structure(before) != jax.tree.structure(after):
        raise CompileError(
            f"{name_of(env)}: `step` gives the {what} in another structure than `reset`: expected "
            f"{jax.tree.structure(before)}, got {jax.tree.structure(after)}"
        )
    for (path, x), y in zip(jax.tree_util.tree_leaves_with_path(before), jax.tree.leaves(after), strict=True):
        if (x.shape, x.dtype) != (y.shape, y.dtype):
            raise CompileError(
                f"{name_of(env)}: the {what}'s {jax.tree_util.keystr(path) or 'only leaf'} is {describe(x)} after "
                f"`reset` and {describe(y)} after `step`: give it one shape and type, as with jnp.asarray(x, dtype)"
            )


def text_of(jaxpr: Any) -> tuple[str, list[bytes]]:
    """A program as text without addresses, and the constants that it and the programs inside it close over.

    Behind it is what primitives of other libraries do, of which the text has the names alone.
    """
    text = re.sub(r"0x[0-9a-f]+", "", str(jaxpr))
    constants = [
        f"{describe(words)} ".encode() + words.tobytes()
        for x in constants_of(jaxpr)
        for words in [np.asarray(as_words(x))]
    ]
    for own in own_programs(jaxpr.jaxpr):
        behind, more = text_of(own)
        text, constants = f"{text}\n{behind}", [*constants, *more]
    return text, constants


def constants_of(program: Any) -> list[Any]:
    """Arrays that a program, open or closed, and those among its equations' parameters close over.

    With jax_use_simplified_jaxpr_constants they stand in the program itself, which shows their shapes alone as text.
    """
    found: list[Any] = list(getattr(program, "consts", ()))
    used = [var for eqn in program.eqns for var in eqn.invars] + list(getattr(program, "jaxpr", program).outvars)
    found += [var.val for var in used if np.ndim(getattr(var, "val", 0))]
    for eqn in program.eqns:
        for value in eqn.params.values():
            for inner in value if isinstance(value, tuple | list) else [value]:
                found += constants_of(inner) if hasattr(inner, "eqns") else []
    return [x for x in found if hasattr(x, "dtype")]
