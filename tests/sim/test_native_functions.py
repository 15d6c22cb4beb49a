"""The elementary functions of native kernels by themselves: errors in units of the last place, special values.

A unit of the last place is the distance from the exact result, rounded to float32, to the next float32. The exact
result is NumPy's in double precision. Every function is tried on evenly spaced bit patterns,
so as often between 1e-30 and 1e-29 as between 1 and 10. docs/sim.md states the bounds.
"""

import ctypes
import math
import platform

import numpy as np
import pytest

from drivetrain.sim.engines.native.compilation import PRELUDE, lanes, load_kernel
from drivetrain.sim.engines.toolchain import load_library

# name -> (exact, lowest, highest argument, bound in units of the last place)
UNARY = {
    "exp": (np.exp, -np.inf, np.inf, 1.0),
    "expm1": (np.expm1, -np.inf, np.inf, 1.5),
    "log": (np.log, 0.0, np.inf, 1.0),
    "log1p": (np.log1p, -1.0, np.inf, 2.0),
    "tanh": (np.tanh, -np.inf, np.inf, 2.5),
    "logistic": (lambda x: 1 / (1 + np.exp(-x)), -np.inf, np.inf, 2.5),
    "sqrt": (np.sqrt, 0.0, np.inf, 0.5001),
    "sin": (np.sin, -20.0, 20.0, 2.0),
    "cos": (np.cos, -20.0, 20.0, 2.0),
    "tan": (np.tan, -np.inf, np.inf, 0.51),
    "asin": (np.arcsin, -1.0, 1.0, 0.51),
    "acos": (np.arccos, -1.0, 1.0, 0.51),
    "atan": (np.arctan, -np.inf, np.inf, 0.51),
    "sinh": (np.sinh, -np.inf, np.inf, 0.51),
    "cosh": (np.cosh, -np.inf, np.inf, 0.51),
    "asinh": (np.arcsinh, -np.inf, np.inf, 0.51),
    "acosh": (np.arccosh, 1.0, np.inf, 0.51),
    "atanh": (np.arctanh, -1.0, 1.0, 0.51),
    "exp2": (np.exp2, -np.inf, np.inf, 0.51),
    "cbrt": (np.cbrt, -np.inf, np.inf, 0.51),
    "erf": (np.vectorize(math.erf, otypes=[float]), -np.inf, np.inf, 0.51),
    "erfc": (np.vectorize(math.erfc, otypes=[float]), -np.inf, np.inf, 0.51),
}
POW_BOUND = 0.51
TURNED_BOUND = 1e-7  # of sine and cosine, absolute, for every argument
SOURCE = """
#define EVERY(name) extern "C" void name##_all(int64_t n, const float* x, const float*, float* out) { \\
  for (int64_t i = 0; i < n; i += LANES) store(out + i, 1, LANES, name##_(load<vf>(x + i, 1, LANES))); }
#define EVERY2(name) extern "C" void name##_all(int64_t n, const float* x, const float* y, float* out) { \\
  for (int64_t i = 0; i < n; i += LANES) \\
    store(out + i, 1, LANES, name##_(load<vf>(x + i, 1, LANES), load<vf>(y + i, 1, LANES))); }
EVERY(exp) EVERY(expm1) EVERY(log) EVERY(log1p) EVERY(tanh) EVERY(logistic) EVERY(sqrt) EVERY(sin) EVERY(cos)
EVERY(tan) EVERY(asin) EVERY(acos) EVERY(atan) EVERY(sinh) EVERY(cosh) EVERY(asinh) EVERY(acosh) EVERY(atanh)
EVERY(exp2) EVERY(cbrt) EVERY(erf) EVERY(erfc) EVERY2(pow) EVERY2(atan2) EVERY2(nextafter)
"""
FUSED = """
extern "C" void compared(int64_t n, const float* a, const float* b, const float* c, float* got, float* expected) {
  for (int64_t i = 0; i < n; i += LANES)
    store(got + i, 1, LANES, fma_(load<vf>(a + i, 1, LANES), load<vf>(b + i, 1, LANES), load<vf>(c + i, 1, LANES)));
  for (int64_t i = 0; i < n; ++i) expected[i] = __builtin_fmaf(a[i], b[i], c[i]);
}
"""
MIXED = 4099  # a prime, so that bit patterns of all endings are met
DENSE = 61


@pytest.fixture(scope="module")
def native():
    """The functions of a kernel's prelude, on arrays: native("sin", x)."""
    width = lanes()
    library = load_kernel(SOURCE, width)

    def call(name, x, y=None):
        x, y = (np.asarray(z, np.float32) for z in np.broadcast_arrays(x, x if y is None else y))
        padded = [np.resize(z.reshape(-1), -(-z.size // width) * width) for z in (x, y)]
        out = np.empty_like(padded[0])
        pointers = [ctypes.c_void_p(z.ctypes.data) for z in (*padded, out)]
        getattr(library, f"{name}_all")(ctypes.c_int64(len(out)), *pointers)
        return out[: x.size].reshape(x.shape)

    return call


def bit_patterns(stride, low=-np.inf, high=np.inf, part=0, num_parts=1):
    """Every stride-th finite float32 between two numbers, or a part of them."""
    begin, end = (2**32 * k // num_parts for k in (part, part + 1))
    patterns = np.arange(begin, end, stride, dtype=np.uint64).astype(np.uint32).view(np.float32)
    return patterns[np.isfinite(patterns) & (patterns >= low) & (patterns <= high)]


def units(got, exact):
    """The error of each result in units of the last place; results that are both infinite or NaN have none."""
    with np.errstate(all="ignore"):
        nearest = exact.astype(np.float32)
        unit = np.spacing(np.minimum(np.abs(nearest), np.finfo(np.float32).max)).astype(np.float64)
        error = np.abs(got.astype(np.float64) - exact) / unit
        same = (got == nearest) | (np.isnan(got) & np.isnan(nearest))
    return np.where(same, np.minimum(np.nan_to_num(error), 0.5), np.nan_to_num(error, nan=np.inf))


def worst(native, name, x):
    """The largest error over some arguments, and where."""
    with np.errstate(all="ignore"):
        errors = units(native(name, x), UNARY[name][0](x.astype(np.float64)))
    place = int(np.argmax(errors))
    return float(errors[place]), float(x[place])


def assert_bound(native, name, stride, num_parts=1):
    _, low, high, bound = UNARY[name]
    for part in range(num_parts):
        x = bit_patterns(stride, low, high, part, num_parts)
        if len(x):
            error, place = worst(native, name, x)
            assert error <= bound, f"{name}({place}) is {error:.3f} units off"


@pytest.mark.parametrize("name", UNARY)
def test_errors_stay_within_the_stated_bounds(native, name):
    assert_bound(native, name, MIXED)


@pytest.mark.slow  # up to 70 million arguments of each function, in double precision by NumPy
@pytest.mark.parametrize("name", UNARY)
def test_errors_stay_within_the_stated_bounds_for_one_in_61_of_all_floats(native, name):
    assert_bound(native, name, DENSE, num_parts=64)


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_sine_and_cosine_are_close_for_every_argument_also_where_they_are_nearly_zero(native, name):
    quarters = (np.arange(-1500, 1501) * (math.pi / 2)).astype(np.float32)
    beside = [np.nextafter(quarters, np.float32(side)) for side in (-np.inf, np.inf)]
    x = np.concatenate([bit_patterns(MIXED), quarters, *beside, np.linspace(-2048, 2048, 200_001, dtype=np.float32)])
    error = np.abs(native(name, x) - UNARY[name][0](x.astype(np.float64)))
    assert error.max() <= TURNED_BOUND, x[int(np.argmax(error))]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="others have the instruction")
@pytest.mark.parametrize("width", [4, 8])
def test_multiply_adds_without_an_instruction_round_once(width):
    text = "\n".join([*(path.read_text() for path in PRELUDE), FUSED])
    library = load_library(text, ("-O1", "-mno-fma", f"-DLANES={width}"))
    rng = np.random.default_rng(0)
    a, b, c = rng.integers(0, 2**32, (3, 2**18), dtype=np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        near = -a * b * (1 + rng.integers(-3, 4, a.size).astype(np.float32) * np.float32(2**-23))  # nearly all cancels
        tie = (a * b * rng.choice([2**24, 2**25, 2**-24, 2**-25], a.size)).astype(np.float32)  # between two numbers
    usual = rng.normal(size=(3, a.size)).astype(np.float32)
    for each in ((a, b, c), (a, b, near), (a, b, tie), usual):
        given = [np.ascontiguousarray(x) for x in each]
        got, expected = np.empty((2, a.size), np.float32)
        library.compared(ctypes.c_int64(a.size), *(ctypes.c_void_p(x.ctypes.data) for x in (*given, got, expected)))
        np.testing.assert_array_equal(got, expected)
        finite = np.isfinite(got)
        np.testing.assert_array_equal(got.view(np.uint32)[finite], expected.view(np.uint32)[finite])


@pytest.mark.parametrize("spread", [0.3, 1, 5, 30])
def test_powers_are_nearly_rounded(native, spread):
    rng = np.random.default_rng(0)
    y = (rng.normal(size=100_000) * spread).astype(np.float32)
    with np.errstate(all="ignore"):
        x = np.exp(rng.normal(size=100_000) * spread).astype(np.float32)
        errors = units(native("pow", x, y), np.power(x.astype(np.float64), y.astype(np.float64)))
    assert errors.max() <= POW_BOUND, (x[int(np.argmax(errors))], y[int(np.argmax(errors))])


LARGE, TINY = np.finfo(np.float32).max, np.float32(1e-45)
ODD = np.array([0.0, -0.0, 1, -1, 2, -2, 3, -3, 0.5, -0.5, np.inf, -np.inf, np.nan, TINY, -TINY, LARGE, -LARGE, 1e-38,
                16777216, -16777217, 1e30], np.float32)  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_special_values_are_those_of_c(native, name):
    with np.errstate(all="ignore"):
        expected = UNARY[name][0](ODD.astype(np.float64)).astype(np.float32)
    got = native(name, ODD)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(expected))
    np.testing.assert_array_equal(got == 0, expected == 0)
    signed = ~np.isnan(got) & ~((name == "sin") & (ODD == 0))  # sin(-0) is 0
    np.testing.assert_array_equal(np.signbit(got)[signed], np.signbit(expected)[signed])


def test_special_powers_are_those_of_c(native):
    x, y = np.meshgrid(ODD, ODD)
    with np.errstate(all="ignore"):
        expected = np.power(x.astype(np.float64), y.astype(np.float64)).astype(np.float32)
    got = native("pow", x, y)
    assert units(got, expected.astype(np.float64)).max() <= 1
    signed = ~np.isnan(got)
    np.testing.assert_array_equal(np.signbit(got)[signed], np.signbit(expected)[signed])


def test_results_may_be_denormal(native):
    x = np.linspace(-103, -88, 1000, dtype=np.float32)
    got = native("exp", x)
    assert ((got > 0) & (got < np.finfo(np.float32).tiny)).sum() > 900
    np.testing.assert_allclose(native("logistic", x), got, rtol=0, atol=3e-45)


@pytest.mark.release
def test_every_width_gives_the_same_bits(native):
    x = bit_patterns(MIXED * 16)
    for width in {4, 8, 16} - {lanes()}:
        library = load_kernel(SOURCE, width)
        whole = np.ascontiguousarray(x[: len(x) // 16 * 16])
        for name in UNARY:
            out = np.empty_like(whole)
            pointers = [ctypes.c_void_p(z.ctypes.data) for z in (whole, whole, out)]
            getattr(library, f"{name}_all")(ctypes.c_int64(len(out)), *pointers)
            np.testing.assert_array_equal(out.view(np.uint32), native(name, whole).view(np.uint32))


def test_angles_of_points_and_neighbours_of_floats_are_those_of_c(native):
    rng = np.random.default_rng(1)
    spread = np.exp(rng.normal(size=(2, 50_000)) * 20).astype(np.float32) * rng.choice([-1, 1], (2, 50_000))
    for y, x in (spread.astype(np.float32), np.meshgrid(ODD, ODD)):
        angles, exact = native("atan2", y, x), np.arctan2(y.astype(np.float64), x.astype(np.float64))
        assert units(angles, exact).max() <= 0.51
        signed = ~np.isnan(exact)
        np.testing.assert_array_equal(np.signbit(angles)[signed], np.signbit(exact)[signed])
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(native("nextafter", y, x), np.nextafter(y, x))
