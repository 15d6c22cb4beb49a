"""Infos in Gymnasium's vector format: under each name an array, and under `_name` who has one.

Source: Gymnasium 1.3, `VectorEnv._add_info`, and what `SyncVectorEnv` puts there under each mode of autoreset.
"""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

from drivetrain.sim.api import Tree

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]


def batched(info: Mapping[str, Any], here: Mask) -> dict[str, Any]:
    """What environments said in a step, for those of them that are `here`; zeros for the others.

    Args:
        info: Leaves with leading axis [num_envs], possibly nested.
        here: bool[num_envs]. A reset says nothing, so whoever was reset is not here.
    """
    infos: dict[str, Any] = {}
    if not info or not here.any():
        return infos
    for name, value in info.items():
        nested = isinstance(value, Mapping)
        infos[name] = batched(value, here) if nested else jax.tree.map(lambda x: masked(x, here), value)
        infos[f"_{name}"] = here.copy()
    return infos


def masked(array: Array, here: Mask) -> Array:
    """The array, with zeros for who is not here."""
    rows = here.reshape(-1, *(1,) * (array.ndim - 1))
    return np.where(rows, array, np.zeros((), array.dtype))


def final(ended: Mask, obs: Tree, info: Mapping[str, Any]) -> dict[str, Any]:
    """How episodes ended whose environments were reset in the same step; nothing if none was.

    Args:
        ended: bool[num_envs].
        obs: The last observations of the episodes, leading axis [num_envs].
        info: Of the same step.
    """
    if not ended.any():
        return {}
    last = np.full(len(ended), None, dtype=object)
    for index in np.flatnonzero(ended):
        last[index] = jax.tree.map(lambda x, index=index: x[index], obs)
    return {
        "final_obs": last,
        "_final_obs": ended.copy(),
        "final_info": batched(info, ended),
        "_final_info": ended.copy(),
    }


def of_each(infos: Mapping[str, Any], num_envs: int) -> list[dict[str, Any]]:
    """The info of every environment of a batch by itself, with what it has and no masks."""
    each: list[dict[str, Any]] = [{} for _ in range(num_envs)]
    for name, value in infos.items():
        here = infos.get(f"_{name}")
        if here is None or name in ("final_obs", "final_info"):
            continue
        nested = of_each(value, num_envs) if isinstance(value, Mapping) else None
        for index in np.flatnonzero(here):
            row = jax.tree.map(lambda x, index=index: x[index], value) if nested is None else nested[index]
            each[index][name] = row
    return each
