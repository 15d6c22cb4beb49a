"""Parameters that differ between environments: what domain randomisation draws.

    params, a leaf of it [num_envs, ...] ─▶ Varied ─rows─▶ carried beside the state ─params(rows)─▶ env.step

What is the same everywhere stays a constant of the program. What differs travels in front of the engines as a part of
the state that no step changes, so that no engine has to know of it, and callers never see it.
"""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from drivetrain.core.errors import InvalidInput
from drivetrain.sim.api import Environment, RolloutState, Runner, Tree


@dataclass(frozen=True, kw_only=True)
class Varied:
    """Parameters of which some leaves have a row for each environment.

    Attributes:
        structure: Of the parameters.
        leaves: All of them; those that vary with leading axis [num_envs].
        places: Which of them vary.
    """

    structure: Any
    leaves: tuple[Any, ...]
    places: tuple[int, ...]

    @property
    def rows(self) -> tuple[npt.NDArray[Any], ...]:
        """The leaves that vary, [num_envs, ...] each."""
        return tuple(self.leaves[place] for place in self.places)

    def params(self, rows: Sequence[Any]) -> Tree:
        """Parameters of one environment, from its rows."""
        leaves = list(self.leaves)
        for place, row in zip(self.places, rows, strict=True):
            leaves[place] = row
        return jax.tree.unflatten(self.structure, leaves)

    def of(self, index: int) -> Tree:
        """Parameters of one environment, by its number."""
        return self.params([row[index] for row in self.rows])


def varied(env: Environment, params: Tree, num_envs: int) -> Varied | None:
    """What of the parameters differs between environments; None where nothing does.

    A leaf differs when it has one axis more than that of `env.default_params`, and num_envs rows.

    Raises:
        InvalidInput: A leaf has an axis more and another number of rows, or numbers of another kind, is no number, or
            only known when a program of JAX runs.
    """
    refuse_what_is_no_number(env, params)
    if jax.tree.structure(params) != jax.tree.structure(env.default_params):
        return None
    usual = jax.tree.leaves(env.default_params)
    named = jax.tree_util.tree_leaves_with_path(params)
    leaves = [leaf for _, leaf in named]
    places: list[int] = []
    for place, ((path, leaf), default) in enumerate(zip(named, usual, strict=True)):
        shape, expected = np.shape(leaf), np.shape(default)
        if len(shape) == len(expected) + 1 and shape[1:] == expected:
            leaves[place] = rows_of(f"params{jax.tree_util.keystr(path)}", leaf, default, num_envs)
            places.append(place)
    if not places:
        return None
    return Varied(structure=jax.tree.structure(params), leaves=tuple(leaves), places=tuple(places))


def rows_of(name: str, leaf: Any, default: Any, num_envs: int) -> npt.NDArray[Any]:
    """A leaf that varies, in the type of the default."""
    rows, dtype = np.asarray(leaf), np.dtype(jnp.asarray(default).dtype)
    if len(rows) != num_envs:
        raise InvalidInput(
            f"{name}: expected one value, or {num_envs} rows, one for each environment, got {len(rows)} rows"
        )
    fits = rows.dtype.kind in "fiu" if dtype.kind == "f" else rows.dtype.kind == dtype.kind
    if not fits:
        raise InvalidInput(f"{name}: expected numbers that fit {dtype.name}, got {rows.dtype.name}")
    with np.errstate(over="ignore"):
        cast = rows.astype(dtype)
    lost = np.isfinite(rows) & ~np.isfinite(cast) if dtype.kind == "f" else cast != rows
    if lost.any():
        raise InvalidInput(f"{name}: expected numbers that fit {dtype.name}, got {rows[lost][0]}")
    return cast


def refuse_what_is_no_number(env: Environment, params: Tree) -> None:
    """Lists, which JAX takes for several parameters, texts and None in the place of a number, and traced values."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        if isinstance(leaf, jax.core.Tracer):
            raise InvalidInput(
                f"params{jax.tree_util.keystr(path)}: expected numbers, got a value of a program that JAX traces; call "
                "sim.compile outside of jax.jit"
            )
    usual, structure = jax.tree_util.tree_flatten_with_path(env.default_params)
    try:
        parts = structure.flatten_up_to(params)
    except (ValueError, TypeError):  # of another type, which may be right: the trace will tell
        return
    for (path, default), part in zip(usual, parts, strict=True):
        if isinstance(part, list | tuple | str | None) and not isinstance(default, type(part)):
            got = "none" if part is None else f"a {type(part).__name__}"
            raise InvalidInput(
                f"params{jax.tree_util.keystr(path)}: expected a number or an array, got {got}; numpy.asarray makes "
                "an array of numbers"
            )


def carrying(runner: Runner, varied: Varied) -> Runner:
    """A runner on states of the environment alone, from one on states with rows of parameters beside them."""
    rows = varied.rows

    def run(state: RolloutState, actions: Tree, shared: Tree = ()) -> tuple[RolloutState, dict[str, Tree]]:
        beside = RolloutState((state.env, rows), state.keys, state.step, state.done, None)
        after, trajectory = runner(beside, actions, shared)
        return RolloutState(after.env[0], after.keys, after.step, after.done, None), trajectory

    return run
