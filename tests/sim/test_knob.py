"""Each knob of `Knob` does what it says, and nothing else."""

import jax
import numpy as np
import pytest
from comparing import random_actions

from drivetrain import sim
from drivetrain.core.errors import InvalidInput
from drivetrain.sim.engines.native.engine import layout_of
from drivetrain.sim.ir.importer import import_jaxpr
from drivetrain.sim.ir.passes.pipeline import simplified, vectorizable
from drivetrain.sim.trace import trace


def compiled(autoreset="same_step", **knobs):
    """The state's leaves as a kernel has them, and its operations."""
    traced = trace(sim.make("Knob", **knobs), None, autoreset, ("reward",))
    imported = simplified(import_jaxpr(traced.jaxpr))
    return layout_of(imported, traced).state, vectorizable(imported)


def cost(block):
    """Products and sums of floats outside branches."""
    return sum(op.out.size for op in block.ops if op.name in ("mul", "add") and op.out.dtype == "float32")


@pytest.mark.parametrize(("live", "dead", "rate"), [(4, 0, 0), (64, 0, 0.5), (1024, 400, 0.5), (64, 64, 1)])
def test_the_state_has_the_bytes_that_were_asked_for_and_a_counter_where_episodes_end(live, dead, rate):
    state, _ = compiled(live_nbytes=live, dead_nbytes=dead, reset_rate=rate)
    assert sum(value.size * 4 for value in state) == live + dead + (4 if rate else 0)


@pytest.mark.parametrize("live", [16, 64, 1024])
@pytest.mark.parametrize("flops", [0.5, 1, 4])
def test_arithmetic_is_proportional_to_live_bytes(live, flops):
    _, block = compiled(live_nbytes=live, flops_per_byte=flops, reset_rate=0)
    assert cost(block) == live * flops


def test_dead_state_takes_no_operation_of_a_step():
    for dead in (16, 2048):
        (_, with_dead), (_, without) = (
            compiled(dead_nbytes=nbytes, autoreset="disabled", reset_rate=0.1) for nbytes in (dead, 0)
        )
        assert with_dead.num_ops == without.num_ops
        assert len(set(with_dead.inputs) & set(with_dead.outputs)) == (4 if dead == 16 else 1)  # scalars, or an array


def test_a_large_dead_state_is_touched_by_resets_only():
    _, block = compiled(dead_nbytes=2048, reset_rate=0.1)
    assert not any(op.name == "select" and op.out.shape for op in block.ops)


def test_without_resets_no_random_number_is_drawn():
    _, block = compiled(reset_rate=0)
    assert not any(op.name == "threefry" for op in block.walk())


def test_resets_draw_random_numbers_under_a_branch_only():
    _, block = compiled(reset_rate=0.1)
    assert any(op.name == "threefry" for op in block.walk())
    assert not any(op.name == "threefry" for op in block.ops)


@pytest.mark.parametrize("rate", [0.02, 1])
def test_episodes_end_at_the_rate_that_was_asked_for(rate):
    env, num_envs, num_steps = sim.make("Knob", live_nbytes=4, reset_rate=rate), 200, 400
    rollout = sim.compile(env, num_envs, num_steps, "xla", record=("terminated",))
    _, trajectory = rollout(rollout.reset(), random_actions(env, num_steps, num_envs))
    ended = np.asarray(trajectory["terminated"])[100:]  # after the first episodes, which all began together
    deviation = (rate * (1 - rate) / ended.size) ** 0.5
    assert abs(ended.mean() - rate) <= 4 * deviation


def test_the_state_stays_between_the_bounds_of_its_observation_whatever_is_done():
    env = sim.make("Knob", live_nbytes=8, flops_per_byte=16, reset_rate=0)
    rollout = sim.compile(env, 2, 3000, "xla", record=("reward",))
    state, trajectory = rollout(rollout.reset(), np.broadcast_to(np.array([0, 1], np.int32), (3000, 2)))
    assert np.abs(trajectory["reward"]).max() <= 1
    np.testing.assert_allclose(state.env.live, [[-1, -1], [1, 1]], rtol=1e-3)
    assert len(jax.tree.leaves(state.env)) == 1


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"live_nbytes": 0}, "live_nbytes: expected a positive multiple of 4, got 0"),
        ({"live_nbytes": 6}, "live_nbytes: expected a positive multiple of 4, got 6"),
        ({"dead_nbytes": -4}, "dead_nbytes: expected a multiple of 4, got -4"),
        ({"flops_per_byte": 0.3}, "flops_per_byte: expected a multiple of 0.5, above 0 and at most 16, got 0.3"),
        ({"reset_rate": 2}, "reset_rate: expected a number from 0 to 1, got 2"),
    ],
)
def test_a_knob_out_of_its_range_is_refused(knobs, message):
    with pytest.raises(InvalidInput, match=message):
        sim.make("Knob", **knobs)
