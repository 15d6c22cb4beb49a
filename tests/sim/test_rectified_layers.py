"""Products of rectified units, which leave zeros out, give the bits of whole products."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from drivetrain import sim
from drivetrain.sim.engines.native import compilation, engine, layers

NUM_ENVS, NUM_STEPS = 37, 5


def acting(params, obs, key):
    """Two products that leave zeros out, the second by a slice of a larger array, and one that may not."""
    x = jax.nn.relu(obs @ params["in"])
    for matrix in (params["first"], params["second"][1]):
        x = jnp.maximum(x @ matrix + params["shift"], 0.0)
    negative = jnp.minimum(x, 1.0) @ params["other"]
    return (x[0] > x[1]).astype(jnp.int32), {"units": x, "negative": negative}


def weights(case):
    """Half of the units are on; or all; or one weight is infinite, or NaN, where units are off."""
    rng = np.random.default_rng(7)
    shapes = {"in": (4, 40), "first": (40, 48), "second": (2, 48, 48), "other": (48, 48)}
    params = {name: rng.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}
    params["shift"] = np.float32(0)
    if case == "all on":
        params |= {name: np.abs(params[name]) for name in ("first", "second")}
    if case in ("infinite", "NaN"):
        params["second"][1, 5, 7] = np.inf if case == "infinite" else np.nan
    return params


def played(params):
    """What the units of some steps were."""
    rollout = sim.compile(sim.make("CartPole-v1"), NUM_ENVS, NUM_STEPS, "native", policy=acting, policy_params=params,
                          record=("obs", "units", "negative"))  # fmt: skip
    return rollout(rollout.reset(seed=4), policy=params)[1]


@pytest.mark.release
def test_products_of_rectified_units_leave_zeros_out_and_keep_the_bits(monkeypatch, tmp_path):
    if compilation.lanes() < 8:
        pytest.skip("whole products are what this processor's kernels have")
    found, actual = [], layers.rectified

    def noted(at, product):
        found.append(actual(at, product))
        return found[-1]

    monkeypatch.setattr(engine, "effort_for", lambda num_characters: ("-O0",))  # the bits are those of all others
    monkeypatch.setenv("DRIVETRAIN_CACHE", str(tmp_path / "kept"))
    monkeypatch.setattr(engine, "lanes", lambda: 8)
    monkeypatch.setattr(layers, "rectified", noted)
    cases = ("half on", "all on", "infinite", "NaN")
    got = {case: played(weights(case)) for case in cases}
    assert sum(each is not None for each in found) == 4  # two layers, written for two tiles and for one
    monkeypatch.setenv("DRIVETRAIN_CACHE", str(tmp_path / "whole"))
    monkeypatch.setattr(engine, "lanes", lambda: 4)
    monkeypatch.setattr(layers, "rectified", lambda at, product: None)
    for case in cases:
        jax.tree.map(np.testing.assert_array_equal, got[case], played(weights(case)))
    assert 0.2 < (got["half on"]["units"] == 0).mean() < 0.8
    assert (got["all on"]["units"] > 0).mean() > 0.9
    assert np.isnan(got["NaN"]["units"]).any()
