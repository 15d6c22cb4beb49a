"""The way of a call through the engine, with the host in the place of the GPU: memory, stream and launch are stand-ins.

What this cannot show is that cuda.core takes the calls as they are made; `test_cuda_gpu.py` does, on a GPU.
"""

import copy
import ctypes
import functools
import gc
import pickle
import types
import weakref

import jax
import numpy as np
import pytest

pytest.importorskip("cuda.core", reason='needs the extra: pip install "drivetrain[cuda]"')

from on_host import OnHost

from drivetrain import sim
from drivetrain.bench.gpu.graphs import replayed
from drivetrain.bench.sim.peers import ours_cuda
from drivetrain.bench.sim.peers.ours import compiled
from drivetrain.bench.sim.scene import Scene
from drivetrain.core.errors import InvalidInput, MissingExtra
from drivetrain.sim import compiler
from drivetrain.sim.engines.cuda import device, engine

NUM_ENVS, NUM_STEPS = 133, 6


class Event:
    is_done = False


class Stream:
    handle = 1

    def __init__(self):
        self.events, self.waited = [], []

    def record(self):
        self.events.append(Event())
        return self.events[-1]

    def wait(self, other):
        self.waited.append(other)

    def sync(self):
        for event in self.events:
            event.is_done = True

    def create_graph_builder(self):
        return Builder()


class Builder(list):
    """What is launched into it is called whenever it is launched."""

    def begin_building(self):
        assert not self

    def end_building(self):
        return self

    def complete(self):
        return self

    def launch(self, stream):
        assert all(call() for call in self)


class Buffer:
    def __init__(self, size, stream):
        self.memory, self.stream = np.empty(size, np.uint8), stream
        self.handle = self.memory.ctypes.data


class Device:
    device_id, arch = 0, "90"

    def __init__(self):
        self.default_stream, self.calls, self.full = Stream(), [], False

    def set_current(self):
        self.calls.append("current")

    def create_stream(self, stream):
        return stream

    def allocate(self, size, *, stream):
        if self.full:
            raise RuntimeError(f"CUDA_ERROR_{self.full}: in the words of cuda.core")
        return Buffer(size, stream)


@pytest.fixture
def gpu(monkeypatch):
    """A machine whose GPU is the host: its copies, and the architectures that were compiled for."""
    machine = types.SimpleNamespace(device=Device(), copies=[], compiled=[], host=None, page_locked=False)
    results = device.driver.CUresult

    def copy(to, start, nbytes, _):
        machine.copies.append(nbytes)
        machine.copied_from = start
        ctypes.memmove(int(to), int(start), nbytes)
        return (results.CUDA_SUCCESS,)

    def attribute(_, place):
        return (results.CUDA_SUCCESS, 1) if machine.page_locked else (results.CUDA_ERROR_INVALID_VALUE, 0)

    driver = types.SimpleNamespace(
        cuMemcpyHtoDAsync=copy, cuMemcpyDtoHAsync=copy, cuMemcpyDtoDAsync=copy, cuPointerGetAttribute=attribute,
        CUresult=results,
        CUpointer_attribute=device.driver.CUpointer_attribute,
    )  # fmt: skip

    def compiled(_, arch, folder):
        machine.compiled.append((arch, folder.name))
        return types.SimpleNamespace(get_kernel=lambda name: name), ""

    def launch(stream, config, kernel, num_envs, num_steps, first_step, *arrays):
        assert (kernel, config.block) == ("drivetrain_run", (128, 1, 1))
        assert [type(x) for x in (num_envs, num_steps, first_step)] == [np.int64, np.int64, np.uint32]
        pointers = (ctypes.c_void_p * len(arrays))(*arrays)
        words = config.grid[0], int(num_envs), int(num_steps), int(first_step), pointers
        if isinstance(stream, Builder):
            stream.append(functools.partial(machine.host.run, *words))
        else:
            machine.launched_on = stream
            assert machine.host.run(*words)

    monkeypatch.setattr(device, "opened", lambda: machine.device)
    monkeypatch.setattr(device, "driver", driver)
    monkeypatch.setattr(engine, "compile_program", compiled)
    monkeypatch.setattr(engine, "launch", launch)
    return machine


@functools.cache
def native():
    """A rollout of `native`, the same source on the host, a first state and actions: compiled once for all tests."""
    rollout = sim.compile(sim.make("CartPole-v1"), NUM_ENVS, NUM_STEPS, "native")
    actions = np.random.default_rng(0).integers(2, size=(NUM_STEPS, NUM_ENVS), dtype=np.int32)
    return rollout, OnHost(rollout.runner.traced, rollout.settings), rollout.reset(seed=3), actions


def on_gpu(gpu, stream=None):
    """A rollout of `cuda`, and what it starts from."""
    _, gpu.host, state, actions = native()
    return sim.compile(sim.make("CartPole-v1"), NUM_ENVS, NUM_STEPS, "cuda", stream=stream), state, actions


@pytest.mark.whole
def test_states_and_trajectories_stay_on_the_gpu_and_are_those_of_native(gpu):
    cuda, start, actions = on_gpu(gpu)
    oracle, expected, got = native()[0], start, start
    assert gpu.compiled == [("sm_90", "cuda")]
    for _ in range(3):
        (expected, row), (got, row_on_gpu) = oracle(expected, actions), cuda(got, actions)
    assert len(gpu.copies) == len(jax.tree.leaves(start.env)) + 2 + 3  # the first state once, actions three times
    for x, y in zip(jax.tree.leaves((expected, row)), jax.tree.leaves((got, row_on_gpu)), strict=True):
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y))
    assert row_on_gpu["obs"].__dlpack_device__() == (device.KIND, 0)
    after, _ = oracle(got, actions)  # another engine takes the state
    np.testing.assert_array_equal(after.env.theta, oracle(expected, actions)[0].env.theta)


def test_single_steps_replayed_as_a_graph_are_the_steps_that_native_takes(gpu):
    _, gpu.host, state, actions = native()
    single, oracle = (sim.compile(sim.make("CartPole-v1"), NUM_ENVS, 1, engine) for engine in ("cuda", "native"))
    gpu.host = OnHost(oracle.runner.traced, oracle.settings)
    row = actions[:1]
    replay, leaves = replayed(single, state, row, 5)
    expected = state
    for _ in range(5):
        expected, _ = oracle(expected, row)
    replay()
    for x, y in zip(jax.tree.leaves(expected.env), leaves, strict=True):
        np.testing.assert_array_equal(x, np.asarray(y))
    assert single.runner.gpu.num_running == 2  # the call that was looked at, and the replay
    single(state, row)  # goes on as before


def test_inputs_live_until_their_launch_is_done(gpu):
    cuda, state, actions = on_gpu(gpu)
    for _ in range(3):
        state, _ = cuda(state, actions)
    assert cuda.runner.gpu.num_running == 3
    gpu.device.default_stream.sync()
    cuda(state, actions)
    assert cuda.runner.gpu.num_running == 1


def test_inputs_of_a_rollout_that_is_gone_live_as_long_as_its_results(gpu):
    cuda, state, actions = on_gpu(gpu)
    given = cuda.runner.gpu.copied(actions)
    kept = weakref.ref(given)
    trajectory = cuda(state, given)[1]
    del cuda, given
    gc.collect()
    assert kept() is not None
    del trajectory
    gc.collect()
    assert kept() is None


def test_page_locked_arrays_are_copied_before_the_driver_is_told_of_them(gpu):
    cuda, _, actions = on_gpu(gpu)
    for gpu.page_locked in (False, True):
        cuda.runner.gpu.copied(actions)
        assert (gpu.copied_from == actions.ctypes.data) == (not gpu.page_locked)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_copies_of_what_is_on_the_gpu_are_on_the_host_and_are_taken_back(gpu, copied):
    cuda, state, actions = on_gpu(gpu)
    state, trajectory = cuda(state, actions)
    again, row = copied((state, trajectory))
    assert {type(leaf) for leaf in jax.tree.leaves(row)} == {np.ndarray}
    for x, y in zip(jax.tree.leaves(cuda(again, actions)), jax.tree.leaves(cuda(state, actions)), strict=True):
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y))


def test_the_callers_stream_is_used_and_waits_for_arrays_of_another(gpu):
    stream = Stream()
    (one, state, actions), (other, *_) = on_gpu(gpu), on_gpu(gpu, stream)
    state, _ = one(state, actions)
    assert gpu.launched_on is gpu.device.default_stream
    other(state, actions)
    assert gpu.launched_on is stream
    assert set(stream.waited) == {gpu.device.default_stream}


@pytest.mark.parametrize(("handle", "named"), [(0, 1), (1, 1), (77, 77)])
def test_other_libraries_are_told_the_stream_in_the_numbers_of_dlpack_which_has_no_0(gpu, monkeypatch, handle, named):
    stream, told = Stream(), []
    stream.handle = handle
    view = types.SimpleNamespace(from_any_interface=lambda leaf, *, stream_ptr: told.append(stream_ptr))
    monkeypatch.setattr(device, "StridedMemoryView", view)
    device.Gpu(stream).viewed(object())
    assert told == [named]


@pytest.mark.whole
def test_the_contender_of_the_bench_copies_its_actions_once_and_waits_after_so_many_calls(gpu):
    scene = Scene(env="CartPole-v1", num_envs=NUM_ENVS, num_steps=NUM_STEPS, num_calls=3)
    like = compiled(scene, "native")
    gpu.host = OnHost(like.runner.traced, like.settings)
    run = ours_cuda.simulator(scene)
    assert run() == 3 * NUM_STEPS * NUM_ENVS
    copied, stream = len(gpu.copies), gpu.device.default_stream
    assert all(event.is_done for event in stream.events)
    run()
    assert len(gpu.copies) == copied


def test_an_array_on_the_gpu_that_does_not_fit_is_refused(gpu):
    cuda, state, _ = on_gpu(gpu)
    wrong = cuda.runner.gpu.copied(np.zeros((NUM_STEPS, NUM_ENVS + 1), np.int32))
    with pytest.raises(InvalidInput, match=r"actions: expected a dense int32\[6,133\], got int32\[6, 134\].*convert"):
        cuda(state, wrong)


def test_a_gpu_without_room_says_what_would_make_room_and_other_failures_stay_what_they_are(gpu):
    cuda, state, actions = on_gpu(gpu)
    gpu.device.full = "OUT_OF_MEMORY"
    with pytest.raises(InvalidInput, match=r"expected room for .* on GPU 0, got none; .*PREALLOCATE=false") as refused:
        cuda(state, actions)
    assert "\n" not in str(refused.value)
    gpu.device.full = "LAUNCH_FAILED"
    with pytest.raises(RuntimeError, match="LAUNCH_FAILED"):
        cuda(state, actions)


def test_another_version_of_what_an_engine_needs_is_told_with_what_installs_it(monkeypatch):
    def refuse(module):
        raise ImportError("cannot import name 'FileStreamProgramCache' from 'cuda.core.utils'", name=missing)

    monkeypatch.setattr(compiler, "importlib", types.SimpleNamespace(import_module=refuse))
    missing = "cuda.core.utils"
    with pytest.raises(
        MissingExtra, match=r"engine 'cuda' needs another version: cannot import .*; pip install .drivetrain\[cuda\]"
    ):
        compiler.builder("cuda")
    missing = "drivetrain.sim.engines.cuda"
    with pytest.raises(ImportError, match="cannot import name"):
        compiler.builder("cuda")


@pytest.fixture
def exported(gpu, monkeypatch):
    """Where what goes out by DLPack begins, each time; and what was asked of the GPU before."""
    views = types.SimpleNamespace(from_buffer=lambda buffer, shape, *, dtype: views.seen.append(buffer) or views,
                                  __dlpack__=lambda **asked: "a capsule", seen=[])  # fmt: skip
    wait = types.SimpleNamespace(wait=lambda stream: gpu.device.calls.append("wait"))
    monkeypatch.setattr(device, "StridedMemoryView", views)
    monkeypatch.setattr(device, "LEGACY_DEFAULT_STREAM", wait)
    return views.seen


def test_arrays_go_out_in_threads_that_have_used_no_gpu(gpu, exported):
    array = on_gpu(gpu)[0].runner.gpu.copied(np.arange(4.0))
    gpu.device.calls.clear()
    assert array.__dlpack__(stream=1) == "a capsule"
    assert gpu.device.calls == ["current", "wait"]


@pytest.mark.parametrize("copy", [None, False])
def test_parts_go_out_where_xla_takes_them(gpu, exported, copy):
    rows = np.arange(15, dtype=np.float32).reshape(5, 3)
    array = on_gpu(gpu)[0].runner.gpu.copied(rows)
    for place, row in enumerate(rows):
        array[place].__dlpack__(copy=copy)
        begin = int(exported[-1].handle)
        is_copied = copy is None and 12 * place % device.ALIGNED_NBYTES != 0
        assert (begin == array.ptr + 12 * place) == (not is_copied)
        assert (ctypes.c_float * 3).from_address(begin)[:] == row.tolist()


def test_a_failed_copy_says_what_the_driver_says():
    with pytest.raises(RuntimeError, match="CUDA_ERROR_INVALID_VALUE"):
        device.done((device.driver.CUresult.CUDA_ERROR_INVALID_VALUE,))
