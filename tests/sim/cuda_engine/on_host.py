"""The engine `cuda` without a GPU: its source compiled as C++ behind a shim, called as a kernel is."""

import ctypes
import dataclasses
import hashlib
import subprocess
from pathlib import Path

from drivetrain import sim
from drivetrain.core.caches import kernel_cache
from drivetrain.sim.engines.cuda.kernel import NAME, THREADS, source_of
from drivetrain.sim.engines.recycled import Recycled
from drivetrain.sim.engines.signature import Signature, call_kernel
from drivetrain.sim.engines.toolchain import FLAGS, compiler

CLASSIC = ("CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Knob")
"""What every run compares and compiles."""
SHIM = Path(__file__).with_name("shim.hpp")


def compile_on_host(source, folder):
    """A shared object of C++, or of CUDA C++ behind the shim."""
    command, _ = compiler()
    stem = Path(folder) / hashlib.sha256(source.encode()).hexdigest()
    text, result = stem.with_suffix(".cpp"), stem.with_suffix(".so")
    if not result.exists():
        text.write_text(source)
        # The plainest code: no wider than a thread. Signed numbers that overflow end the process: NVRTC has no -fwrapv.
        flags = [flag for flag in FLAGS if flag not in ("-march=native", "-fwrapv")]
        flags += ["-fsanitize=signed-integer-overflow", "-fsanitize-undefined-trap-on-error"]
        subprocess.run([*command, *flags, "-O1", str(text), "-o", str(result)], check=True, timeout=300)
    return ctypes.CDLL(str(result))


def launcher(num_arrays):
    """C++ that launches the kernel on an array of pointers."""
    arrays = ", ".join(f"c.p[{k}]" for k in range(num_arrays))
    return f"""
struct Call {{ int64_t num_envs, num_steps; uint32_t first_step; void* const* p; }};
extern "C" int launch(int64_t num_blocks, int64_t num_envs, int64_t num_steps, uint32_t first_step, void* const* p) {{
  Call call{{num_envs, num_steps, first_step, p}};
  auto run = [](void* given) {{
    const Call& c = *(Call*)given;
    {NAME}(c.num_envs, c.num_steps, c.first_step, {arrays});
  }};
  return shim::launch(num_blocks, THREADS, run, &call);
}}
"""


def driver(num_arrays):
    """C++ in the place of libcuda: what it was asked for last, and the kernel's own way of reading its parameters."""
    arrays = ", ".join(f"*(void**)q[{3 + k}]" for k in range(num_arrays))
    return f"""
extern "C" struct {{ void *kernel, *stream; unsigned sizes[7]; }} launched{{}};
extern "C" int cuLaunchKernel(void* kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                              unsigned bz, unsigned nbytes, void* stream, void** parameters, void** extra) {{
  launched = {{kernel, stream, {{gx, gy, gz, bx, by, bz, nbytes}}}};
  if (bx == 0 || extra != nullptr) return 1;
  auto run = [](void* given) {{
    void** const q = (void**)given;
    {NAME}(*(int64_t*)q[0], *(int64_t*)q[1], *(const uint32_t**)q[2], {arrays});
  }};
  return shim::launch(gx, (int)bx, run, parameters) ? 0 : 999;
}}
"""


def library_of(source, end):
    """A shared object of a kernel's source with what launches it, written for its number of arrays."""
    head = source[source.index(f"{NAME}(") :].partition("{")[0]
    whole = "\n".join([SHIM.read_text(), source, end(head.count("void*"))])
    return compile_on_host(whole, kernel_cache())


class OnHost:
    """A runner like the engine's, on NumPy arrays."""

    def __init__(self, traced, settings):
        self.traced, self.settings = traced, settings
        self.run = library_of(source_of(traced), launcher).launch
        self.run.argtypes = [ctypes.c_int64] * 3 + [ctypes.c_uint32, ctypes.c_void_p]

    def __call__(self, state, actions, shared=()):
        signature = Signature(self.traced, self.settings)
        leaves = signature.flat(state, actions, shared)
        return call_kernel(signature, Recycled(0), self.launch, leaves, state.step)

    def launch(self, number, inputs, outputs):
        arrays = [*inputs, *outputs]
        pointers = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
        settings = self.settings
        num_blocks = -(-settings.num_envs // THREADS)
        assert self.run(num_blocks, settings.num_envs, settings.num_steps, number, pointers), "threads missed a barrier"
        return outputs


def both(env, num_envs, num_steps, **options):
    """Rollouts of `native`, and of the source of `cuda` on the host."""
    native = sim.compile(env, num_envs, num_steps, "native", **options)
    return native, dataclasses.replace(native, runner=OnHost(native.runner.traced, native.settings))
