"""Torsos of the user's own: any pair of `init(key, example_obs) -> params` and `apply(params, obs) -> features`.

The functions are JAX's; `params` is any tree of float32 arrays. Observations come as they are stored,
[batch, *shape], images as bytes; dicts and tuples as a flat dict (see `interface.Entries`).
"""

# JAX annotates parts of its interface only:
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

import functools
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from drivetrain.core.errors import InvalidInput
from drivetrain.train.config.given import load_object
from drivetrain.train.interface import Observations, zeros
from drivetrain.train.networks.broadcasting import broadcasting
from drivetrain.train.networks.network import Layout, Network, Pieces


class _Shape(NamedTuple):
    """What tracing the functions once has shown."""

    init: Callable[..., Any]
    apply: Callable[..., Any]
    layout: Layout
    structure: Any
    num_features: int


@dataclass(frozen=True)
class CustomTorso:
    """A pair of the user's functions as a `Torso`."""

    source: str
    """The setting `torso`: Given, or "module:name"."""
    observations: Observations
    """What goes in."""

    @property
    def num_features(self) -> int:
        """Width of what `apply` gives."""
        return _shape(self).num_features

    @property
    def layout(self) -> Layout:
        """The leaves of `params`."""
        return _shape(self).layout

    @property
    def needs_jax(self) -> bool:
        """Yes."""
        return True

    def initial(self, rng: np.random.Generator, gain: float | None) -> Pieces:
        """What `init` gives for a key drawn from `rng`; it initialises as it likes, by NumPy's numbers, too."""
        del gain
        with jax.ensure_compile_time_eval():  # also where somebody traces what comes next (runs/tried.py)
            key = jax.random.key(int(rng.integers(2**31)))
            leaves = jax.tree.leaves(_shape(self).init(key, _example(self.observations)))
            return {name: np.asarray(leaf, np.float32) for (name, _), leaf in zip(self.layout, leaves, strict=True)}

    def features(self, pieces: Pieces, obs: Any, xp: ModuleType) -> Any:
        """What `apply` gives."""
        del xp
        shape = _shape(self)
        params = jax.tree.unflatten(shape.structure, [pieces[name] for name, _ in shape.layout])
        return shape.apply(params, obs)


@functools.cache
def _shape(torso: CustomTorso) -> _Shape:
    """Trace the functions.

    Raises:
        InvalidInput: They are no such functions, or what they give does not fit.
    """
    init, apply = _pair(load_object("torso", torso.source))
    try:
        # Within functions of ours: JAX cannot ask those under jax.jit themselves that have travelled by pickle.
        with broadcasting():
            params = jax.eval_shape(lambda key, obs: init(key, obs), jax.random.key(0), _example(torso.observations))
            features, of_three = (
                jax.eval_shape(lambda params, obs: apply(params, obs), params, _example(torso.observations, rows))
                for rows in (1, 3)
            )
    except Exception as error:  # whatever the user's functions raise
        raise _unfit(torso, f"it raised {type(error).__name__}: {' '.join(str(error).split())[:300]}") from error
    leaves, structure = jax.tree_util.tree_flatten_with_path(params)
    if any(leaf.dtype != jnp.float32 for _, leaf in leaves):
        kinds = ", ".join(sorted({str(leaf.dtype) for _, leaf in leaves}))
        raise _unfit(torso, f"its parameters are {kinds}, not float32 alone{_where_wide()}")
    if getattr(features, "ndim", 0) != 2 or features.shape[0] != 1 or features.dtype != jnp.float32:
        wide = _where_wide() if getattr(features, "dtype", None) == np.float64 else ""
        raise _unfit(torso, f"apply gave {_said(features)} for a batch of one, not float32[1, num_features]{wide}")
    if getattr(of_three, "shape", ()) != (3, features.shape[1]) or features.shape[1] == 0:
        raise _unfit(torso, f"apply gave {_said(features)} for a batch of one and {_said(of_three)} for one of three")
    layout = tuple((jax.tree_util.keystr(path, simple=True, separator="/"), leaf.shape) for path, leaf in leaves)
    if len(names := {name for name, _ in layout}) < len(layout):
        raise _unfit(torso, f"{len(layout)} parameters have only {len(names)} names, as a/b within a and beside it")
    return _Shape(init, apply, layout, structure, features.shape[1])


def _pair(value: Any) -> tuple[Any, Any]:
    if isinstance(value, tuple) and len(value) == 2:  # pyright: ignore[reportUnknownArgumentType]
        return value  # pyright: ignore[reportReturnType]
    init, apply = getattr(value, "init", None), getattr(value, "apply", None)
    if not (callable(init) and callable(apply)):
        raise InvalidInput(
            "torso: expected a pair (init, apply), or an object with init(key, obs) and apply(params, obs), got "
            f"{type(value).__name__}"
        )
    return init, apply


def _unfit(torso: CustomTorso, reason: str) -> InvalidInput:
    stored = torso.observations.stored
    return InvalidInput(
        f"torso: {torso.source!r} does not fit: {reason}; expected init(key, obs) -> float32 params and "
        f"apply(params, obs) -> float32[batch, num_features], for obs of {stored} with a batch axis before"
    )


def _where_wide() -> str:
    """What makes numbers of 64 bits of those that are given no type, where that is so."""
    is_wide = jax.config.read("jax_enable_x64")
    return " (JAX's setting jax_enable_x64 is on: leave it off, or give what `init` and `apply` make a type)" * is_wide


def _said(array: Any) -> str:
    """Kind and shape of what is an array, as float32[1, 4]; else what it is."""
    return f"{array.dtype}{list(array.shape)}" if hasattr(array, "shape") else repr(array)


def _example(observations: Observations, num_rows: int = 1) -> Any:
    return jax.tree.map(jnp.asarray, zeros(observations, num_rows))


@dataclass(frozen=True)
class Compiled:
    """A network on JAX alone, for callers with NumPy arrays; otherwise like the one it holds."""

    network: Network
    """The network."""

    @property
    def heads(self) -> tuple[tuple[str, int], ...]:
        """Those of the network."""
        return self.network.heads

    @property
    def layout(self) -> Layout:
        """That of the network."""
        return self.network.layout

    def initial(self, rng: np.random.Generator) -> Pieces:
        """Fresh parameters."""
        return self.network.initial(rng)

    def apply(self, pieces: Pieces, obs: Any, xp: ModuleType, action: Any = None) -> Pieces:
        """The outputs of every head, as NumPy arrays."""
        del xp
        return {name: np.asarray(head) for name, head in _jitted(self.network)(pieces, obs, action).items()}


@functools.cache
def _jitted(network: Network) -> Any:
    def apply(pieces: Pieces, obs: Any, action: Any) -> Pieces:
        with broadcasting():
            return network.apply(pieces, obs, jnp, action)

    return jax.jit(apply)
