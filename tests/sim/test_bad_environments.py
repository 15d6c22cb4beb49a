"""What cannot be compiled is told in one sentence, with the line and the remedy, before anything runs."""

import dataclasses
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import Applied, random_actions

from drivetrain import sim
from drivetrain.core.errors import CompileError, InvalidInput, MissingExtra
from drivetrain.sim.engines.native import forms, toolchain

NUMBER = jax.ShapeDtypeStruct((), jnp.float32)


def compiled(function, engine="native"):
    return sim.compile(Applied(function, NUMBER), 2, 1, engine, autoreset="disabled")


def test_a_python_branch_on_a_traced_value_names_the_line():
    with pytest.raises(CompileError, match=r"cannot be traced \(.*test_bad_environments.py:\d+\).*jax.lax.cond"):
        compiled(lambda x: x if x > 0 else -x, "xla")


def test_numpy_on_a_traced_value_names_the_remedy():
    with pytest.raises(CompileError, match=r"only known when it runs: compute it in jax.numpy"):
        compiled(lambda x: jnp.zeros(()) + np.sin(x), "xla")


def test_an_unsupported_primitive_is_named_with_the_line_and_a_suggestion():
    def function(x):
        return jax.pure_callback(lambda v: v, jax.ShapeDtypeStruct((), jnp.float32), x)

    with pytest.raises(
        CompileError, match=r"test_bad_environments.py:\d+: .*`pure_callback`.*cannot call back into Python"
    ):
        compiled(function)


def test_an_unsupported_type_is_named():
    with pytest.raises(CompileError, match=r"float16.*use one of bool, int8"):
        compiled(lambda x: x.astype(jnp.float16).astype(jnp.float32))


class Growing(Applied):
    def step(self, key, state, action, params):
        return action[0], jnp.zeros(3), jnp.float32(0), False, False, {}


def test_a_state_that_changes_its_shape_is_told_with_both_shapes():
    env = Growing(lambda x: x, NUMBER)
    with pytest.raises(CompileError, match=r"int32\[\] after `reset` and float32\[3\] after `step`"):
        sim.compile(env, 2, 1, "xla")


class Impure(Applied):
    kept = None

    def step(self, key, state, action, params):
        obs = action[0] if self.kept is None else self.kept + action[0]
        self.kept = action[0]
        return obs, state, jnp.float32(0), False, False, {}


def test_an_impure_environment_is_told_so():
    env = Impure(lambda x: x, NUMBER)
    with pytest.raises(CompileError, match=r"is impure: it leaves a traced value in the attribute 'kept'"):
        sim.compile(env, 2, 1, "xla")
    with pytest.raises(CompileError, match="is impure: it uses a value that an earlier trace left"):
        sim.compile(env, 2, 1, "xla")
    with pytest.raises(CompileError, match="is impure: it leaves a traced value in the attribute 'kept'"):
        sim.compile(Impure(lambda x: x, NUMBER), 2, 1, "xla", narrow_obs="bool")


def test_a_huge_environment_is_told_its_bytes(monkeypatch):
    monkeypatch.setattr(forms, "MOST_SCRATCH_NBYTES", 100)
    with pytest.raises(CompileError, match=r"needs \d+ bytes while it steps, and the limit of a native kernel is 100"):
        compiled(lambda x: jnp.cumsum(jnp.arange(200) * x)[3:].sum() + jnp.sort(jnp.arange(100.0) * x))


def test_without_a_compiler_the_remedy_is_named(monkeypatch):
    toolchain.compiler.cache_clear()
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(CompileError, match=r"needs? a C.. compiler, and found no no-such-compiler"):
        compiled(lambda x: x + 1)
    toolchain.compiler.cache_clear()


def test_a_damaged_kernel_is_compiled_again(monkeypatch, tmp_path):
    monkeypatch.setenv("DRIVETRAIN_CACHE", str(tmp_path))
    compiled(lambda x: x + 2)
    (kept,) = tmp_path.glob("*.so")
    whole = kept.read_bytes()
    kept.unlink()
    kept.write_bytes(whole[:1000])
    assert not toolchain.is_whole(kept)
    compiled(lambda x: x + 2)
    assert toolchain.is_whole(kept)


def test_a_folder_that_cannot_be_written_is_named(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DRIVETRAIN_CACHE", str(tmp_path / "file"))
    with pytest.raises(CompileError, match="set DRIVETRAIN_CACHE to a folder"):
        compiled(lambda x: x + 3)


def test_arguments_are_checked_one_by_one():
    env = sim.make("CartPole-v1")
    for arguments, message in [
        ({"num_envs": 0, "num_steps": 1}, "num_envs: expected at least 1, got 0"),
        ({"num_envs": 2.0, "num_steps": 1}, r"num_envs: expected an integer of at least 1, got 2\.0"),
        ({"num_envs": 1, "num_steps": "4"}, "num_steps: expected an integer of at least 1, got '4'"),
        (
            {"num_envs": 1, "num_steps": 1, "num_threads": True},
            "num_threads: expected an integer .* got True",
        ),
        ({"num_envs": 1, "num_steps": 1, "record": None}, r"record: expected names, as \(\), got None"),
        ({"num_envs": 1, "num_steps": 1, "engine": "opencl"}, "engine: expected one of xla, native, cuda, numpy"),
        ({"num_envs": 1, "num_steps": 1, "record": ("obs", "rewards")}, "record: expected distinct names"),
        ({"num_envs": 1, "num_steps": 1, "autoreset": "never"}, "autoreset: expected one of same_step"),
    ]:
        with pytest.raises(InvalidInput, match=message):
            sim.compile(env, **arguments)
    with pytest.raises(InvalidInput, match="without reset, step"):
        sim.compile(object(), 1, 1)
    with pytest.raises(InvalidInput, match="did you mean 'CartPole-v1'"):
        sim.make("CartPole-v0")


def test_arrays_that_do_not_fit_are_named():
    rollout = sim.compile(sim.make("CartPole-v1"), 3, 2, "native")
    state, actions = rollout.reset(), random_actions(rollout.env, 2, 3)
    with pytest.raises(InvalidInput, match=r"actions: expected int32\[2,3\], got int32\[1,3\]"):
        rollout(state, actions[:1])
    with pytest.raises(InvalidInput, match=r"actions: expected int32\[2,3\], got float64\[2,3\]"):
        rollout(state, actions.astype(float))
    rollout(state, actions.astype(np.int64))
    with pytest.raises(InvalidInput, match=r"state: expected a RolloutState, .* got a tuple"):
        rollout((state.env, state.keys), actions)
    for step in (-1, 1.5, None, 2**32):
        with pytest.raises(InvalidInput, match=r"state.step: expected a uint32, got"):
            rollout(dataclasses.replace(state, step=step), actions)


@pytest.mark.parametrize("engine", ["native", "numpy", "xla"])
def test_the_count_of_steps_begins_anew_after_its_last_number(engine):
    rollout = sim.compile(sim.make("CartPole-v1"), 3, 2, engine)
    last = dataclasses.replace(rollout.reset(), step=np.uint32(2**32 - 1))
    assert int(rollout(last, random_actions(rollout.env, 2, 3))[0].step) == 1


def test_without_pytorch_its_extra_is_named(monkeypatch):
    for name in list(sys.modules):
        if name == "torch" or name.startswith(("drivetrain.sim.engines.torch", "drivetrain.sim.engines.tensors")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(
        MissingExtra, match=r"this needs torch, which is not installed: pip install .drivetrain\[torch\]"
    ):
        compiled(lambda x: x + 1, "torch")
