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
import numpy as np
import numpy.typing as npt
from jax.tree_util import keystr, tree_leaves_with_path

from drivetrain.core.errors import InvalidInput
from drivetrain.sim.api import Environment, RolloutState, Runner, Tree, describe
from drivetrain.sim.given_params import check_places, fitting, form_of, nones, numbers_of, refuse_traced


@dataclass(frozen=True, kw_only=True)
class Varied:
    """Parameters of which some leaves have a row for each environment.

    Attributes:
        structure: Of the parameters.
        leaves: All of them; those that vary with leading axis [num_envs].
        places: Which of them vary.
        defaults: Those of `env.default_params` that these vary from.
    """

    structure: Any
    leaves: tuple[Any, ...]
    places: tuple[int, ...]
    defaults: tuple[Any, ...]

    @property
    def rows(self) -> tuple[npt.NDArray[Any], ...]:
        """The leaves that vary, [num_envs, ...] each."""
        return tuple(self.leaves[place] for place in self.places)

    @property
    def num_envs(self) -> int:
        """Environments, each with a row."""
        return len(self.rows[0])

    def params(self, rows: Sequence[Any]) -> Tree:
        """Parameters of one environment, from its rows."""
        leaves = list(self.leaves)
        for place, row in zip(self.places, rows, strict=True):
            leaves[place] = row
        return jax.tree.unflatten(self.structure, leaves)

    def of(self, index: int) -> Tree:
        """Parameters of one environment, by its number."""
        return self.params([row[index] for row in self.rows])

    @property
    def undrawn(self) -> Tree:
        """Parameters of one environment that are the same whatever the rows hold."""
        return self.params(self.defaults)


def varied(env: Environment, params: Tree, num_envs: int) -> tuple[Tree, Varied | None]:
    """Parameters as they are taken, and what of them differs between environments; None where nothing does.

    A leaf differs when it has one axis more than that of `env.default_params`, and num_envs rows. Whole numbers become
    real ones where the default is one; else what is computed from them would be in integers.

    Raises:
        InvalidInput: A parameter is missing or unknown, has another number of axes than its default or rows of it, or
            another number of rows than num_envs, holds numbers of another kind, or that its type does not hold, is no
            number, or only known when a program of JAX runs.
    """
    usual, named = (dict(tree_leaves_with_path(tree)) for tree in (env.default_params, params))
    refuse_traced(named)
    check_places(usual, named, nones(env.default_params), type(params) is type(env.default_params))
    given, leaves = list(named.values()), list(named.values())
    places: list[int] = []
    defaults: list[Any] = []
    for place, (path, leaf) in enumerate(named.items()):
        expected = None if path not in usual or leaf is usual[path] else form_of(usual[path])
        if expected is None:
            continue
        name = f"params{keystr(path)}"
        numbers = numbers_of(name, leaf)
        if numbers.ndim == len(expected.shape):  # of other sizes, too: the trace will tell
            cast = fitting(name, numbers, expected.dtype)
            if cast.dtype.kind == "f" and numbers.dtype.kind != "f":
                given[place] = leaves[place] = cast.item() if isinstance(usual[path], float) else cast
        elif numbers.shape[1:] == expected.shape and numbers.ndim:
            leaves[place] = rows_of(name, numbers, expected.dtype, num_envs)
            places.append(place)
            defaults.append(usual[path])
        else:
            rows = jax.ShapeDtypeStruct((num_envs, *expected.shape), expected.dtype)
            raise InvalidInput(
                f"{name}: expected {describe(expected)}, as in default_params, or {describe(rows)}, a row for each "
                f"environment, got {describe(numbers)}; reshape it"
            )
    structure = jax.tree.structure(params)
    if any(x is not y for x, y in zip(given, named.values(), strict=True)):
        params = jax.tree.unflatten(structure, given)
    if not places:
        return params, None
    return params, Varied(structure=structure, leaves=tuple(leaves), places=tuple(places), defaults=tuple(defaults))


def num_rows(env: Environment, params: Tree) -> int:
    """For how many environments there are rows among parameters; 1 where there are none."""
    usual = {path: form_of(leaf) for path, leaf in tree_leaves_with_path(env.default_params)}
    for path, leaf in tree_leaves_with_path(params):
        form = usual.get(path)
        if form is not None and np.ndim(leaf) == len(form.shape) + 1:
            return max(1, len(leaf))
    return 1


def rows_of(name: str, rows: npt.NDArray[Any], dtype: np.dtype[Any], num_envs: int) -> npt.NDArray[Any]:
    """A leaf that varies, in the type of the default."""
    if len(rows) != num_envs:
        raise InvalidInput(
            f"{name}: expected one value, or {num_envs} rows, one for each environment, got {len(rows)} rows"
        )
    return fitting(name, rows, dtype)


def carrying(runner: Runner, varied: Varied) -> Runner:
    """A runner on states of the environment alone, from one on states with rows of parameters beside them."""
    rows = varied.rows

    def run(state: RolloutState, actions: Tree, shared: Tree = ()) -> tuple[RolloutState, dict[str, Tree]]:
        beside = RolloutState((state.env, rows), state.keys, state.step, state.done, None)
        after, trajectory = runner(beside, actions, shared)
        return RolloutState(after.env[0], after.keys, after.step, after.done, None), trajectory

    return run
