"""Observations recorded as Booleans, bytes or bits are those that would be recorded as floats."""

import numpy as np
import pytest
from comparing import applied, assert_same, random_actions

from drivetrain import sim
from drivetrain.core.errors import InvalidInput
from drivetrain.sim.engines.native.engine import source_of
from drivetrain.sim.narrowing import Narrowed, packed
from drivetrain.sim.trace import trace

rng = np.random.default_rng(0)


@pytest.mark.parametrize("shape", [(8,), (13,), (3, 4), (10, 10, 2)])
def test_bits_are_those_of_numpy(shape):
    flags = rng.random((11, *shape)) < 0.4
    expected = np.packbits(flags.reshape(11, -1), axis=1)
    for engine in ("native", "numpy"):
        assert_same(expected, applied(packed, flags, engine=engine))


@pytest.mark.release
def test_narrow_observations_are_the_same_on_every_engine_and_as_the_wide_ones():
    env = sim.make("gymnax/Catch-bsuite")
    actions = random_actions(env, 6, 5)
    wide = sim.compile(env, 5, 6, "xla", record=("obs", "final_obs"))
    _, expected = wide(wide.reset(), actions)
    shape = expected["obs"].shape[2:]
    for narrow, engine in (("uint8", "numpy"), ("bits", "native")):
        rollout = sim.compile(env, 5, 6, engine, record=("obs", "final_obs"), narrow_obs=narrow)
        start = rollout.reset()
        state, got = rollout(start, actions)
        assert np.asarray(start.obs).dtype == np.asarray(state.obs).dtype == np.uint8
        for name in ("obs", "final_obs"):
            rows = np.asarray(got[name])
            if narrow == "bits":
                rows = np.unpackbits(rows, axis=-1)[..., : np.prod(shape)].reshape(6, 5, *shape)
            np.testing.assert_array_equal(rows.astype(np.float32), expected[name])


def test_the_kernel_of_narrow_boolean_planes_has_fewer_floats():
    env = sim.make("gymnax/Catch-bsuite")
    wide, narrow = (
        source_of(trace(each, env.default_params, "same_step", ("obs",))) for each in (env, Narrowed(env, "bool"))
    )
    assert narrow.count("(float*)p[") < wide.count("(float*)p[")


def test_an_unknown_narrow_type_is_told_with_those_that_there_are():
    with pytest.raises(InvalidInput, match="narrow_obs: expected None or one of bool, uint8, bits, got 'int4'"):
        sim.compile(sim.make("CartPole-v1"), 2, 1, "xla", narrow_obs="int4")
