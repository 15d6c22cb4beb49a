"""Launches from programs of JAX without a GPU: the handler as it is, a stand-in for libcuda, and the host's memory.

What is left out is XLA's stream: the handler is called with a number in its place, under a name for the CPU.
"""

import ctypes
import dataclasses
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("cuda.core", reason='needs the extra: pip install "drivetrain[cuda]"')

from on_host import driver, library_of

from drivetrain import sim
from drivetrain.sim.engines.cuda import engine
from drivetrain.sim.engines.cuda.kernel import FROM_DEVICE, THREADS, source_of
from drivetrain.sim.engines.cuda.program import compile_program
from drivetrain.sim.engines.custom_call import library
from drivetrain.sim.engines.signature import call_kernel

NUM_ENVS, NUM_STEPS, NUM_CALLS = 133, 6, 4
STREAM, KERNEL, TARGET = 7, 0x5EED, "drivetrain_cuda_on_host"
WITHOUT_XLAS_STREAM = f"""
static ffi::Error call_on_host(ffi::Buffer<ffi::U32> first, ffi::RemainingArgs inputs, ffi::RemainingRets outputs,
                               std::string_view kernel, int64_t num_envs, int64_t num_steps, int64_t num_blocks,
                               int64_t num_threads) {{
  return call((void*){STREAM}, first, inputs, outputs, kernel, num_envs, num_steps, num_blocks, num_threads);
}}
XLA_FFI_DEFINE_HANDLER_SYMBOL({TARGET}, call_on_host, ffi::Ffi::Bind() DRIVETRAIN_ARRAYS_AND_ATTRIBUTES);
"""


class Launched(ctypes.Structure):
    """What the stand-in for libcuda was asked for last."""

    _fields_ = (("kernel", ctypes.c_void_p), ("stream", ctypes.c_void_p), ("sizes", ctypes.c_uint * 7))


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    """A rollout of `native`, one of `cuda` with stand-ins for handler and driver, and what the driver was asked for."""
    oracle = sim.compile(sim.make("CartPole-v1"), NUM_ENVS, NUM_STEPS, "native")
    traced, settings = oracle.runner.traced, oracle.settings
    host = library_of(source_of(traced, FROM_DEVICE), driver)
    source = tmp_path_factory.mktemp("handler") / "cuda_on_host.cpp"
    source.write_text((library.HERE / "cuda.cpp").read_text() + WITHOUT_XLAS_STREAM)

    def handlers(*asked):
        assert asked == ("cuda.cpp", "drivetrain_cuda", "CUDA")
        return library.handlers(str(source), TARGET, "cpu")

    loaded = types.SimpleNamespace(handle=KERNEL)
    kernel = engine.Kernel(traced, settings, types.SimpleNamespace(device=types.SimpleNamespace(arch="90")), loaded)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "loaded", lambda source, arch: loaded)
        patch.setattr(engine, "handlers", handlers)
        patch.setattr(engine, "launcher", lambda: ctypes.cast(host.cuLaunchKernel, ctypes.c_void_p))
        assert kernel.program.target == "drivetrain_cuda"
        engine.entered.cache_clear()
    kernel.program = dataclasses.replace(kernel.program, target=TARGET)
    cuda = dataclasses.replace(oracle, engine="cuda", runner=kernel)
    return types.SimpleNamespace(native=oracle, cuda=cuda, launched=Launched.in_dll(host, "launched"))


def random_actions(*leading):
    return np.random.default_rng(0).integers(2, size=(*leading, NUM_STEPS, NUM_ENVS), dtype=np.int32)


@pytest.mark.release
def test_a_scan_of_launches_goes_where_native_goes(machine):
    actions = random_actions(NUM_CALLS)
    start = machine.native.reset(seed=3)
    state, trajectory = jax.jit(lambda state: jax.lax.scan(machine.cuda, state, actions))(start)
    expected = start
    for number in range(NUM_CALLS):
        expected, row = machine.native(expected, actions[number])
        for name, array in row.items():
            np.testing.assert_array_equal(np.asarray(trajectory[name][number]), array)
    for x, y in zip(jax.tree.leaves(state), jax.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y))


@pytest.mark.whole
def test_the_kernel_is_launched_on_the_stream_with_a_thread_for_each_environment(machine):
    jax.block_until_ready(jax.jit(machine.cuda)(machine.native.reset(), random_actions()))
    assert (machine.launched.kernel, machine.launched.stream) == (KERNEL, STREAM)
    assert list(machine.launched.sizes) == [-(-NUM_ENVS // THREADS), 1, 1, THREADS, 1, 1, 0]


def test_a_donated_state_stays_where_it_is(machine):
    state = jax.tree.map(lambda x: jnp.array(x, copy=True), machine.native.reset())
    before = [leaf.unsafe_buffer_pointer() for leaf in jax.tree.leaves(state.env)]
    after, _ = jax.jit(machine.cuda, donate_argnums=0)(state, random_actions())
    assert [leaf.unsafe_buffer_pointer() for leaf in jax.tree.leaves(after.env)] == before


def test_what_the_driver_refuses_is_an_error_of_the_program(machine):
    program = machine.cuda.runner.program
    refused = dataclasses.replace(program, attributes={**program.attributes, "num_threads": np.int64(0)})
    signature = machine.cuda.runner.signature

    def call(state, actions):
        return call_kernel(signature, refused, refused.launch, signature.flat(state, actions, ()), state.step)

    with pytest.raises(
        jax.errors.JaxRuntimeError, match=r"driver refuses the launch of .*kernel [0-9a-f]{12}: error 1"
    ):
        jax.block_until_ready(jax.jit(call)(machine.native.reset(), random_actions()))


@pytest.mark.release
def test_kernel_and_handler_are_compiled_for_gpus_and_known_to_xla(machine):
    _, said = compile_program(source_of(machine.native.runner.traced, FROM_DEVICE), "sm_90")
    assert "0 bytes spill stores" in said
    assert library.handlers("cuda.cpp", "drivetrain_cuda", "CUDA").drivetrain_cuda
