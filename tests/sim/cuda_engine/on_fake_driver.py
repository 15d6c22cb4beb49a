"""What runs in a process whose libcuda is the stand-in: a plugin of pytest, and what only it can show.

    pytest -p on_fake_driver -m gpu on_fake_driver.py test_cuda_gpu.py::...

Kernels are compiled by NVRTC as ever; what runs in their place is the same source behind the shim.
"""

import ctypes
import gc
import threading

import jax
import numpy as np
import pytest

pytestmark = pytest.mark.gpu


def kernel(num_arrays, first_step):
    """C++ that reads the parameters of a launch as the kernel declares them, and runs it."""
    arrays = ", ".join(f"*(void**)q[{3 + k}]" for k in range(num_arrays))
    return f"""
extern "C" int run_kernel(void** parameters, unsigned num_blocks) {{
  auto run = [](void* given) {{
    void** const q = (void**)given;
    drivetrain_run(*(int64_t*)q[0], *(int64_t*)q[1], *({first_step}*)q[2], {arrays});
  }};
  return shim::launch(num_blocks, THREADS, run, parameters) ? 0 : 719;
}}
"""


def libcuda():
    """The stand-in, as this process has it."""
    library = ctypes.CDLL("libcuda.so.1")
    library.fake_num_blocks.restype = ctypes.c_size_t
    return library


def pytest_collection_finish():
    """Before a kernel is loaded, the driver is told what it does."""
    from on_host import library_of

    from drivetrain.sim.engines.cuda import engine

    compile_program, kept = engine.compile_program, []

    def compiled(source, arch, folder):
        counts = []

        def end(num_arrays):
            counts.append(num_arrays)
            return kernel(num_arrays, "uint32_t")

        kept.append(library_of(source, end))
        libcuda().fake_kernel(ctypes.cast(kept[-1].run_kernel, ctypes.c_void_p), 3 + counts[0])
        return compile_program(source, arch, folder)

    engine.compile_program = compiled


class Foreign:
    """Another library's array."""

    def __init__(self, array):
        self.__dlpack__, self.__dlpack_device__ = array.__dlpack__, array.__dlpack_device__


@pytest.fixture
def rollouts():
    from drivetrain import sim

    return [sim.compile(sim.make("CartPole-v1"), 133, 6, engine) for engine in ("native", "cuda")]


ACTIONS = np.random.default_rng(0).integers(2, size=(6, 133), dtype=np.int32)


def test_arrays_go_out_with_their_place_and_form_in_any_thread_and_for_any_stream(rollouts):
    from cuda.core.utils import StridedMemoryView

    _, cuda = rollouts
    state, trajectory = cuda(cuda.reset(), ACTIONS)
    seen = []

    def look():
        for stream in (None, 1, 2, 0x7770, -1):
            trajectory["reward"].__dlpack__(stream=stream)
        for leaf in (*trajectory.values(), *jax.tree.leaves(state.env), state.keys, state.obs):
            view = StridedMemoryView.from_dlpack(leaf, stream_ptr=1)
            seen.append((leaf, view.ptr, view.shape, view.dtype, view.device_id, view.is_device_accessible))

    other = threading.Thread(target=look)
    other.start()
    other.join()
    assert len(seen) == len(trajectory) + len(jax.tree.leaves(state.env)) + 2
    for leaf, *found in seen:
        assert found == [leaf.ptr, leaf.shape, leaf.dtype, 0, True]


def test_arrays_of_other_libraries_are_taken_where_they_are_and_memory_goes_back(rollouts):
    native, cuda = rollouts
    gpu, before = cuda.runner.gpu, libcuda().fake_num_blocks()
    state, _ = cuda(cuda.reset(seed=3), Foreign(gpu.copied(ACTIONS)))
    expected, _ = native(native.reset(seed=3), ACTIONS)
    for x, y in zip(jax.tree.leaves(state.env), jax.tree.leaves(expected.env), strict=True):
        np.testing.assert_array_equal(np.asarray(x), y)
    assert libcuda().fake_num_blocks() > before
    del state, x
    gc.collect()
    assert (gpu.num_running, libcuda().fake_num_blocks()) == (0, before)


def test_empty_arrays_scalars_and_parts_go_out(rollouts):
    from cuda.core.utils import StridedMemoryView

    gpu, rows = rollouts[1].runner.gpu, np.arange(15, dtype=np.float32).reshape(5, 3)
    for array in (np.zeros((0, 3), np.float32), np.full((), 3, np.int64), np.ones(5, bool)):
        view = StridedMemoryView.from_dlpack(gpu.copied(array), stream_ptr=1)
        assert (view.shape, view.dtype) == (array.shape, array.dtype)
    for place, row in enumerate(rows):
        view = StridedMemoryView.from_dlpack(gpu.copied(rows)[place], stream_ptr=1)
        assert view.ptr % 16 == 0
        assert (ctypes.c_float * 3).from_address(view.ptr)[:] == row.tolist()
