"""A kernel that is kept is found without a trace; whatever is different, damaged or not known is traced."""

import json
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import assert_same, random_actions

from drivetrain import sim
from drivetrain.core.errors import CompileError
from drivetrain.sim import compiler, finding
from drivetrain.sim.fingerprint import fingerprint
from drivetrain.sim.recalling import Recalled, path_of, recall
from drivetrain.sim.spaces import Box, Discrete

PROGRAM = """
import sys
from drivetrain import sim
from drivetrain.sim import finding
finding.SLOW_TRACE_S = 0
sys.stdin.readline()
rollout = sim.compile(sim.make("CartPole-v1"), 3, 2, "native", record=("obs",))
print(type(rollout.runner.traced).__name__)
"""
FACTOR = 2.0


@jax.jit
def times(x):
    return x * FACTOR


class Walk:
    """An environment of a few operations; `also` is called in each step."""

    name = "Walk"

    def __init__(self, speed=1.0, also=lambda x: x):
        self.speed, self.also, self.default_params = speed, also, {"length": 3.0}

    def reset(self, key, params):
        return jnp.zeros(2), (jnp.float32(0), {"time": jnp.int32(0)})

    def step(self, key, state, action, params):
        position, time = self.also(state[0]) + self.speed * action, state[1]["time"] + 1
        ended = position >= params["length"]
        return jnp.stack([position, time]), (position, {"time": time}), position, ended, time >= 9, {}

    def action_space(self, params):
        return Discrete(2)


def counted(x, calls=[]):  # noqa: B006
    calls.append(1)
    return x


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("DRIVETRAIN_CACHE", str(tmp_path / "kernels"))
    monkeypatch.setattr(compiler, "KEPT", ("native", "cuda"))
    monkeypatch.setattr(finding, "SLOW_TRACE_S", 0)  # small environments are looked for, too
    return tmp_path / "kernels"


@pytest.fixture
def traces(monkeypatch):
    """How often something was traced."""
    made = []
    traced = compiler.trace
    monkeypatch.setattr(compiler, "trace", lambda *given: made.append(1) or traced(*given))
    return made


@pytest.fixture
def stepped(monkeypatch):
    """Compiles for an engine that gives what it was given to make a kernel from."""
    given = []
    monkeypatch.setattr(compiler, "builder", lambda engine: lambda traced, settings: given.append(traced))

    def found(env, **options):
        sim.compile(env, 3, 2, "native", **options)
        return given.pop()

    return found


@pytest.mark.whole
def test_a_kernel_that_is_kept_runs_without_a_trace_and_gives_the_same(traces, folder):
    actions = random_actions(Walk(), 6, 5)
    results = []
    for _ in range(2):
        rollout = sim.compile(Walk(), 5, 6, "native", record=("obs", "reward", "terminated"))
        results.append(rollout(rollout.reset(seed=1), actions))
    assert len(traces) == 1
    assert isinstance(rollout.runner.traced, Recalled)
    assert_same(results[0], results[1])
    for path in folder.glob("*.cpp"):
        path.write_text("damaged")
    again = sim.compile(Walk(), 5, 6, "native", record=("obs", "reward", "terminated"))
    assert len(traces) == 2
    assert not isinstance(again.runner.traced, Recalled)


def test_only_what_traces_slowly_is_looked_for(traces, stepped, folder, monkeypatch):
    monkeypatch.setattr(finding, "SLOW_TRACE_S", 1e9)
    assert not isinstance(stepped(Walk()), Recalled)
    assert not isinstance(stepped(Walk()), Recalled)
    assert len(traces) == 2
    assert not folder.exists()
    monkeypatch.setattr(finding, "SLOW_TRACE_S", 1e-9)
    assert not isinstance(stepped(Walk()), Recalled)  # traced, found to be slow, and traced again to be kept
    assert len(traces) == 4
    assert isinstance(stepped(Walk()), Recalled)
    assert len(traces) == 4


def test_other_draws_of_parameters_are_found_without_a_trace_unless_a_shape_hangs_on_them(traces, stepped):
    class Wide(Walk):
        def action_space(self, params):
            return Box(0.0, 1.0, (int(params["width"]),))

        def step(self, key, state, action, params):
            return super().step(key, state, action.sum(), params)

    def draws(low, high, **options):
        return stepped(Walk(), params={"length": np.linspace(low, high, 3)}, **options)

    def wide(width):
        env = Wide()
        env.default_params = {"length": 3.0, "width": 1}
        return stepped(env, params={"length": 3.0, "width": np.full(3, width)})

    for others in ({}, {"autoreset": "next_step"}):
        draws(1.0, 2.0, **others)
        assert isinstance(draws(4.0, 5.0, **others), Recalled)
    draws(1.0, 2.0, autoreset="disabled")
    assert isinstance(draws(1.0, 5.0, autoreset="disabled"), Recalled)  # the first environment has the same
    assert not isinstance(draws(4.0, 5.0, autoreset="disabled"), Recalled)
    assert wide(2).action.shape == (2,)
    assert wide(3).action.shape == (3,)


@pytest.mark.release
def test_settings_params_policies_and_attributes_have_kernels_of_their_own(traces, stepped):
    def ask():
        policy = sim.policies.linear(sim.make("CartPole-v1"))
        weights = policy.init(jax.random.key(0))
        return [
            stepped(Walk()),
            stepped(Walk(2.0)),
            stepped(Walk(), record=()),
            stepped(Walk(), autoreset="next_step"),
            stepped(Walk(), generator="philox"),
            stepped(Walk(), params={"length": 4.0}),
            stepped(Walk(), params={"length": np.full(3, 4.0)}),
            stepped(sim.make("CartPole-v1"), policy=policy, policy_params=weights, record=("obs", "log_prob")),
            stepped(sim.make("CartPole-v1"), policy=sim.policies.uniform(sim.make("CartPole-v1"))),
        ]  # fmt: skip

    first = ask()
    assert len(traces) == len(first)
    second = ask()
    assert len(traces) == len(first)
    for one, two in zip(first, second, strict=True):
        for name in ("digest", "state", "action", "record", "shared"):
            shapes = [getattr(each, name) for each in (one, two)]
            assert jax.tree.structure(shapes[0]) == jax.tree.structure(shapes[1])
            assert str(shapes[0]) == str(shapes[1])


def test_a_step_that_cannot_be_followed_or_changes_itself_is_traced_each_time(traces, stepped, folder):
    for _ in range(2):
        stepped(Walk(also=lambda x: getattr(x, "real") * 1))  # noqa: B009
        stepped(Walk(also=counted))
    assert len(traces) == 4
    assert not list(folder.glob("*.json"))


def test_a_global_read_by_a_function_that_jax_has_traced_is_read_again(traces, stepped, monkeypatch):
    first = stepped(Walk(also=times))
    monkeypatch.setattr(sys.modules[__name__], "FACTOR", 4.0)
    second = stepped(Walk(also=times))
    assert len(traces) == 2
    assert "2.0" in str(first.jaxpr)
    assert "2.0" not in str(second.jaxpr)


def test_an_environment_that_is_refused_is_refused_again(traces, stepped):
    for _ in range(2):
        with pytest.raises(CompileError, match="decides in Python"):
            stepped(Walk(also=lambda x: x if x > 0 else -x))
    assert len(traces) == 2


@pytest.mark.parametrize("damage", [lambda text: text[:-100], lambda text: "", lambda text: "[1]" + text])
def test_a_damaged_file_is_traced_and_written_again(traces, stepped, folder, damage):
    stepped(Walk())
    (path,) = folder.glob("*.json")
    whole = path.read_text()
    path.write_text(damage(whole))
    assert not isinstance(stepped(Walk()), Recalled)
    assert path.read_text() == whole
    assert isinstance(stepped(Walk()), Recalled)


def test_what_was_kept_with_another_jax_inside_is_traced(traces, stepped, monkeypatch):
    stepped(Walk())
    monkeypatch.setattr(jax._src.lax.lax, "mul", lambda x, y: x)
    assert not isinstance(stepped(Walk()), Recalled)


def test_a_file_names_the_modules_and_the_shapes_it_was_made_with(stepped, folder):
    stepped(Walk(), record=())
    (path,) = folder.glob("*.json")
    kept = json.loads(path.read_text().rpartition("//")[0])
    assert kept["state"][1] == [[[], "float32"], [[], "int32"]]
    assert {"jax", "jax._src.core", "drivetrain.sim.trace"} <= set(kept["installed"])


def test_a_folder_that_cannot_be_written_only_means_another_trace(traces, stepped, folder):
    folder.write_text("")
    assert stepped(Walk()).digest == stepped(Walk()).digest
    assert len(traces) == 2


@pytest.mark.release
def test_other_processes_find_it_whatever_their_order_of_sets(folder):
    def started(seed):
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
        )

    def said(process):
        return process.communicate("go\n", timeout=120)[0].strip()

    assert said(started(0)) == "Traced"  # by a process that no other test has imported anything into
    processes = [started(seed) for seed in (1, 2)]
    assert [said(process) for process in processes] == ["Recalled"] * 2


def test_nothing_is_recalled_that_was_never_kept():
    mark = fingerprint(Walk())
    assert recall(mark) is None
    assert mark.digest in path_of(mark).name
