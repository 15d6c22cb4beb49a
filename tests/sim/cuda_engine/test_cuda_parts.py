"""Parts of CUDA kernels by themselves, on the host: functions of one thread, rows that a warp stores, the shim."""

import ctypes

import numpy as np
import pytest

pytest.importorskip("cuda.core", reason='needs the extra: pip install "drivetrain[cuda]"')

from on_host import SHIM, compile_on_host

from drivetrain.sim.engines.cuda.kernel import PRELUDE, SIZES
from drivetrain.sim.engines.native.compilation import lanes, load_kernel

ONE = [
    "exp", "expm1", "log", "log1p", "tanh", "logistic", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
    "cosh", "asinh", "acosh", "atanh", "exp2", "cbrt", "erf", "erfc", "erf_inv", "rsqrt", "floor", "ceil", "round_even",
    "round_away", "sign", "abs", "neg",
]  # fmt: skip
TWO = ["pow", "atan2", "nextafter", "rem", "div", "max", "min", "copysign"]
OF_VECTORS = """
#define ONE(name) extern "C" void name##_all(int64_t n, const float* x, const float*, float* out) { \\
  for (int64_t i = 0; i < n; i += LANES) store(out + i, 1, LANES, name##_(load<vf>(x + i, 1, LANES))); }
#define TWO(name) extern "C" void name##_all(int64_t n, const float* x, const float* y, float* out) { \\
  for (int64_t i = 0; i < n; i += LANES) \\
    store(out + i, 1, LANES, name##_(load<vf>(x + i, 1, LANES), load<vf>(y + i, 1, LANES))); }
"""
OF_THREADS = """
#define ONE(name) extern "C" void name##_all(int64_t n, const float* x, const float*, float* out) { \\
  for (int64_t i = 0; i < n; ++i) out[i] = name##_(vf(x[i])).x; }
#define TWO(name) extern "C" void name##_all(int64_t n, const float* x, const float* y, float* out) { \\
  for (int64_t i = 0; i < n; ++i) out[i] = name##_(vf(x[i]), vf(y[i])).x; }
"""
EVERY = "".join(f"ONE({name})\n" for name in ONE) + "".join(f"TWO({name})\n" for name in TWO)
ROWS = """
#define ROWS(T, V, SIZE) extern "C" int rows_##T##_##SIZE(int num_envs, T* to) { \\
  struct Call { int num_envs; T* to; } call{num_envs, to}; \\
  return shim::launch(2, THREADS, [](void* given) { \\
    const Call& c = *(Call*)given; \\
    const int tile = blockIdx.x * (THREADS / LANES) + threadIdx.x / LANES, left = c.num_envs - tile * LANES; \\
    if (left > 0) store_rows<T, SIZE>(c.to + tile * LANES * SIZE, left < LANES ? left : LANES, \\
      [&](int i) { return V(((tile * LANES + lane()) * SIZE + i) % 97); }); \\
  }, &call); }
"""
SIZES_OF_ROWS = (1, 2, 3, 4, 5, 8, 9, 16, 31, 36, 50, 64, 100, 400)
KINDS = {"uint8_t": ("vi", np.uint8), "int16_t": ("vi", np.int16), "float": ("vf", np.float32)}
MISSED = """
extern "C" int missed() {
  return shim::launch(1, THREADS, [](void*) { if (threadIdx.x % 2) __syncwarp(); }, nullptr);
}
"""


def on_threads(folder, source):
    whole = [SHIM.read_text(), SIZES, *(path.read_text() for path in PRELUDE), source]
    return compile_on_host("\n".join(whole), folder)


def pointer(array):
    return ctypes.c_void_p(array.ctypes.data)


@pytest.mark.release
def test_every_function_of_a_thread_has_the_bits_of_a_vectors_lane(tmp_path):
    vectors, threads = load_kernel(OF_VECTORS + EVERY, lanes()), on_threads(tmp_path, OF_THREADS + EVERY)
    x = np.arange(0, 2**32, 65521, dtype=np.uint64).astype(np.uint32)[:65536].view(np.float32)
    y = np.random.default_rng(0).permutation(x)
    for name in (*ONE, *TWO):
        expected, got = np.empty_like(x), np.empty_like(x)
        for library, out in ((vectors, expected), (threads, got)):
            getattr(library, f"{name}_all")(ctypes.c_int64(len(x)), pointer(x), pointer(y), pointer(out))
        nan = np.isnan(expected)
        np.testing.assert_array_equal(nan, np.isnan(got), err_msg=name)
        np.testing.assert_array_equal(expected.view(np.uint32)[~nan], got.view(np.uint32)[~nan], err_msg=name)


@pytest.mark.release
def test_rows_of_every_size_lie_one_after_another_and_nothing_beyond_them_is_written(tmp_path):
    every = "\n".join(f"ROWS({kind}, {of}, {size})" for kind, (of, _) in KINDS.items() for size in SIZES_OF_ROWS)
    library = on_threads(tmp_path, ROWS + every)
    for kind, (_, dtype) in KINDS.items():
        for size in SIZES_OF_ROWS:
            for num_envs in (1, 32, 77, 256):
                out = np.full(num_envs * size + 64, 101, dtype)
                assert getattr(library, f"rows_{kind}_{size}")(num_envs, pointer(out)) == 1
                expected = (np.arange(num_envs * size) % 97).astype(dtype)
                np.testing.assert_array_equal(out[:-64], expected, err_msg=f"{kind}[{size}]")
                assert (out[-64:] == 101).all()


def test_the_shim_notices_threads_that_miss_a_barrier(tmp_path):
    assert on_threads(tmp_path, MISSED).missed() == 0
