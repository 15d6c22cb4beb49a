"""The engine `torch_compiled` takes the same steps as XLA: graphs, with loops that end by value in between."""

from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import EVERYTHING, Applied, applied, assert_engine_equals_xla, assert_same, random_actions
from primitives import CASES

from drivetrain import sim
from drivetrain.core.errors import CompileError
from drivetrain.sim.engines import toolchain
from drivetrain.sim.ir.importer import import_jaxpr
from drivetrain.sim.ir.passes.pipeline import simplified

torch = pytest.importorskip("torch", reason='needs torch: pip install "drivetrain[torch]"')
# Inductor imports a part of PyTorch that PyTorch has deprecated.
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")]
N = 13


def loops(x, y):
    """Graph, `while`, graph, a loop short enough to be written out, a choice."""
    start = x * 3 + y
    grown = jax.lax.while_loop(lambda c: c < 50, lambda c: c * 2 + 1, jnp.abs(start) + 1)
    total = jax.lax.fori_loop(0, 5, lambda i, c: c + i * grown, y)
    return grown, total, jax.lax.cond(x > y, lambda: total - x, lambda: total * 2)


def pieces_of(function, *examples):
    from drivetrain.sim.engines.torch_compiled import Pieces

    return Pieces(simplified(import_jaxpr(jax.make_jaxpr(function)(*examples)))).pieces


def test_only_a_loop_that_ends_by_value_or_is_long_breaks_the_graph():
    number = np.int32(0)
    assert [piece.is_graph for piece in pieces_of(loops, number, number)] == [True, False, True]
    assert [piece.is_graph for piece in pieces_of(lambda x: jnp.where(x > 0, x, -x), number)] == [True]

    def long(x):
        return jax.lax.fori_loop(0, 100_000, lambda i, c: c * 3 + i, x) + 1

    assert [piece.is_graph for piece in pieces_of(long, number)] == [False, True]


def test_a_constant_that_is_given_as_it_is_needs_no_graph():
    assert [piece.is_graph for piece in pieces_of(lambda x: (jnp.arange(3), x + 1), np.int32(0))] == [True, False]


@pytest.mark.release
def test_programs_with_loops_give_what_xla_gives():
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-20, 20, N, dtype=np.int32) for _ in range(2))
    assert_same(applied(loops, x, y, engine="xla"), applied(loops, x, y, engine="torch_compiled"))


@pytest.mark.release  # PyTorch takes seconds to import what traces
def test_a_loop_that_no_environment_enters_is_followed_by_the_same_graph_as_one_that_some_do(monkeypatch):
    def function(x):
        grown = jax.lax.while_loop(lambda c: c < x, lambda c: c * 2, jnp.int32(1))
        return (jnp.arange(1, 4) * grown)[::-1] + x

    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)  # which is for one number of rows, too
    rollout = sim.compile(Applied(function, np.int32(0)), N, 1, "torch_compiled", record=("obs",))
    state = rollout.reset()
    for x in (np.zeros(N, np.int32), np.arange(N, dtype=np.int32), np.zeros(N, np.int32)):
        _, trajectory = rollout(state, (x[None],))
        np.testing.assert_array_equal(trajectory["obs"][0], applied(function, x, engine="numpy"))


@pytest.mark.release
def test_cartpole_equals_xla_with_resets():
    assert assert_engine_equals_xla(sim.make("CartPole-v1"), "torch_compiled", num_envs=N, num_steps=60) > 5


@pytest.mark.slow  # PyTorch compiles for each
def test_first_calls_of_several_threads_take_the_steps_of_one():
    env = sim.make("MountainCar-v0")
    rollouts = [sim.compile(env, N, 2, "torch_compiled", record=EVERYTHING) for _ in range(3)]
    actions, state = random_actions(env, 2, N), rollouts[0].reset(seed=4)
    with ThreadPoolExecutor(3) as threads:
        found = list(threads.map(lambda rollout: rollout(state, actions), rollouts))
    for other in found[1:]:
        assert_same(found[0], other)


@pytest.mark.release
def test_several_steps_in_one_call_equal_the_interpreter():
    env = sim.make("CartPole-v1")
    eager, compiled = (sim.compile(env, N, 5, engine, record=EVERYTHING) for engine in ("torch", "torch_compiled"))
    actions, state = random_actions(env, 5, N), eager.reset(seed=4)
    assert_same(eager(state, actions), compiled(state, actions))


def test_without_a_compiler_the_remedy_is_named(monkeypatch):
    toolchain.compiler.cache_clear()
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(CompileError, match=r"needs? a C.. compiler, and found no no-such-compiler"):
        sim.compile(sim.make("CartPole-v1"), 2, 1, "torch_compiled")
    toolchain.compiler.cache_clear()


@pytest.mark.slow  # Inductor compiles each
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", CASES)
def test_primitives_give_what_xla_gives(name):
    function, batches = CASES[name]()
    assert_same(applied(function, *batches, engine="xla"), applied(function, *batches, engine="torch_compiled"))
