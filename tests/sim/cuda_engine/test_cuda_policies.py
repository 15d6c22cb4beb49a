"""Policies in CUDA kernels: the bits of `native` behind the shim, and machine code for a Hopper GPU from NVRTC."""

import jax
import numpy as np
import pytest

pytest.importorskip("cuda.core", reason='needs the extra: pip install "drivetrain[cuda]"')

from on_host import OnHost

from drivetrain import sim
from drivetrain.sim import compiler
from drivetrain.sim.engines.cuda.kernel import source_of
from drivetrain.sim.engines.cuda.program import compile_program

NUM_ENVS = 133  # more than a block, and neither a multiple of it nor of a warp


@pytest.mark.release
@pytest.mark.parametrize(
    ("name", "record"),
    [("CartPole-v1", ("obs", "action", "log_prob", "value")), ("Pendulum-v1", ("reward", "action", "log_prob"))],
)
def test_a_policy_acts_with_the_bits_of_native_and_compiles_for_a_gpu(name, record, monkeypatch):
    env = sim.make(name)
    act = sim.policies.mlp(env, hidden=(64, 20))
    params = jax.tree.map(np.asarray, jax.jit(act.init)(jax.random.key(2)))
    options = {"policy": act, "policy_params": params, "record": record}
    native = sim.compile(env, NUM_ENVS, 30, "native", **options)
    built = []

    def build(traced, settings):
        built.append(traced)
        return OnHost(traced, settings)

    monkeypatch.setattr(compiler, "builder", lambda engine: build)
    cuda = sim.compile(env, NUM_ENVS, 30, "native", **options)
    state = native.reset(seed=5)
    expected, got = native(state, policy=params), cuda(state, policy=params)
    for (path, x), y in zip(jax.tree_util.tree_leaves_with_path(expected), jax.tree.leaves(got), strict=True):
        assert np.asarray(x).tobytes() == np.asarray(y).tobytes(), jax.tree_util.keystr(path)
    program, said = compile_program(source_of(built[0]), "sm_90")
    assert len(program.code) > 1000
    assert "0 bytes spill stores" in said
