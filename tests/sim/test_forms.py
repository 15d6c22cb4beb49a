"""A step is written in the forms that pay, and the one that runs is good for as many environments as there are."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import applied, assert_same

from drivetrain import sim
from drivetrain.core.errors import CompileError
from drivetrain.sim.acting import Remembering, acting_of
from drivetrain.sim.api import Settings
from drivetrain.sim.engines.native import compilation, engine, forms
from drivetrain.sim.engines.native.written import Written, kernels_of, text_of
from drivetrain.sim.trace import trace

TILES = Written(form="tiles", scratch_nbytes=8, source="one\n// of a tile\n")
PAIRS = Written(form="pairs", num_tiles=2, scratch_nbytes=16, source="two\n")


def traced(name, make):
    """A step of an environment with a policy in the loop."""
    env = sim.make(name)
    policy = make(env)
    acting = acting_of(policy, policy.init(jax.random.key(0)))
    return trace(Remembering(env), env.default_params, "same_step", ("action",), "threefry", None, acting)


def written(name, make):
    """Its forms."""
    return forms.write_forms(*engine.lowered(traced(name, make)))


def named(kernels):
    return [each.form for each in kernels]


def test_kernels_come_back_from_text_as_they_were():
    for kernels in ([TILES], [PAIRS, TILES]):
        assert kernels_of(text_of(kernels)) == kernels
    assert PAIRS.num_characters == 2


@pytest.mark.parametrize(
    ("num_tiles", "num_threads", "form"),
    [(1, 1, "tiles"), (2, 1, "pairs"), (3, 1, "tiles"), (4, 1, "pairs"), (5, 1, "pairs"), (2, 2, "tiles"),
     (5, 2, "pairs"), (5, 3, "tiles"), (128, 8, "pairs")],
)  # fmt: skip
def test_pairs_are_for_whoever_has_one_for_each_thread_and_few_tiles_without_a_partner(num_tiles, num_threads, form):
    assert forms.form_for([PAIRS, TILES], num_tiles, num_threads).form == form
    assert forms.form_for([TILES], num_tiles, num_threads) is TILES


@pytest.mark.release
def test_pairs_are_written_where_layers_or_a_short_step_gain_by_them():
    assert named(written("CartPole-v1", sim.policies.linear)) == ["pairs", "tiles"]
    assert named(written("CartPole-v1", sim.policies.uniform)) == ["groups"]
    assert named(written("Snake", sim.policies.linear)) == ["tiles"]
    assert named(written("Snake", sim.policies.mlp)) == ["pairs", "tiles"]


@pytest.mark.whole
def test_pairs_that_need_more_memory_than_there_is_are_left_out(monkeypatch):
    pair, tile = written("CartPole-v1", sim.policies.mlp)
    assert tile.scratch_nbytes < pair.scratch_nbytes
    monkeypatch.setattr(forms, "MOST_STACK_NBYTES", pair.scratch_nbytes - 1)
    assert written("CartPole-v1", sim.policies.mlp) == [tile]
    monkeypatch.setattr(forms, "MOST_STACK_NBYTES", tile.scratch_nbytes - 1)
    with pytest.raises(CompileError, match=f"one environment needs {tile.scratch_nbytes} bytes"):
        written("CartPole-v1", sim.policies.mlp)


@pytest.mark.whole
def test_a_kernel_of_pairs_runs_half_as_many_turns(monkeypatch):
    empty = compilation.load_kernel('extern "C" void drivetrain_run() {}', engine.lanes(), ("-O0",))
    monkeypatch.setattr(engine, "load_kernel", lambda *which: empty)
    for num_envs, num_turns in ((engine.lanes(), 1), (5 * engine.lanes(), 3)):
        settings = Settings(num_envs=num_envs, num_steps=1, record=(), autoreset="same_step", num_threads=1)
        kernel: Any = engine.build(traced("CartPole-v1", sim.policies.linear), settings)
        assert kernel.num_turns == num_turns


def over_large_arrays(x):
    """Arrays of 300 elements in branches inside a loop, read and written at computed places."""
    table = jnp.cumsum(jnp.arange(300) * x)

    def turn(carry, step):
        kept, total = carry
        place = (x + step) % 300
        kept = jax.lax.cond(kept[place] % 2 == 0, lambda v: jnp.cumsum(v[::-1]).at[place].add(1), jnp.sort, kept)
        return (kept, total + jnp.cumsum(kept)[place]), kept[7]

    (kept, total), seen = jax.lax.scan(turn, (table, jnp.int32(0)), jnp.arange(5))
    return table, kept, total, seen


@pytest.mark.release
def test_large_arrays_lie_on_the_heap_where_the_stack_has_no_room(monkeypatch):
    numbers = np.arange(20, dtype=np.int32) * 7
    expected = applied(over_large_arrays, numbers, engine="xla")
    monkeypatch.setattr(forms, "MOST_STACK_NBYTES", 3000)
    found: list[Written] = []
    monkeypatch.setattr(engine, "write_forms", lambda *of: found.extend(forms.write_forms(*of)) or found)
    assert_same(expected, applied(over_large_arrays, numbers))
    (kernel,) = found
    assert 1200 < kernel.heap_nbytes < kernel.source.count("heap.whole") * 1200  # blocks beside each other share


@pytest.mark.whole
def test_a_kernel_that_fits_the_stack_has_no_heap():
    (kernel,) = written("Snake", sim.policies.linear)
    assert kernel.heap_nbytes == 0
    assert "heap" not in kernel.source
