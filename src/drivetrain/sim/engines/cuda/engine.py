"""The engine `cuda`: compiles a step for the GPU at hand and launches it on the caller's stream."""

# cuda.core chooses its modules by the version of CUDA when it is imported, which type checkers cannot follow.
# pyright: reportAttributeAccessIssue=false, reportMissingImports=false, reportMissingTypeStubs=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false

import ctypes
import functools
import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from cuda.core import LaunchConfig, launch

from drivetrain.core.caches import kernel_cache
from drivetrain.sim.api import RolloutState, Runner, Settings, Tree
from drivetrain.sim.engines.arrays import any_traced
from drivetrain.sim.engines.cuda.device import DeviceArray, Gpu
from drivetrain.sim.engines.cuda.kernel import FROM_DEVICE, NAME, THREADS, source_of
from drivetrain.sim.engines.cuda.program import compile_program
from drivetrain.sim.engines.custom_call.library import enter, handlers
from drivetrain.sim.engines.custom_call.program import Program, program_of
from drivetrain.sim.engines.signature import Signature, call_kernel
from drivetrain.sim.recalling import Recalled
from drivetrain.sim.trace import Traced


def build(traced: Traced | Recalled, settings: Settings) -> Runner:
    """Find the GPU, then compile for it."""
    gpu = Gpu(settings.stream)
    return Kernel(traced, settings, gpu, loaded(source_of(traced), gpu.device.arch))


def loaded(source: str, arch: str) -> Any:
    """The kernel of a source on the GPU, compiled now or before."""
    program, _ = compile_program(source, f"sm_{arch}", kernel_cache() / "cuda")
    return program.get_kernel(NAME)


@functools.cache  # which keeps the kernel loaded, since programs may run as long as the process
def entered(source: str, arch: str) -> tuple[str, Any]:
    """A kernel that programs of JAX may call: the hash of what it was made from, and itself."""
    digest, kernel = hashlib.sha256(f"{arch} {source}".encode()).hexdigest(), loaded(source, arch)
    handler = handlers("cuda.cpp", "drivetrain_cuda", "CUDA")
    handler.drivetrain_launch_by(launcher())
    enter(handler, digest, int(kernel.handle))
    return digest, kernel


def launcher() -> ctypes.c_void_p:
    """The driver's function that launches a kernel; the driver is loaded, since there is a GPU."""
    return ctypes.cast(ctypes.CDLL("libcuda.so.1").cuLaunchKernel, ctypes.c_void_p)


class Kernel:
    """A loaded kernel with the shapes it takes. Calls share nothing but the GPU, which keeps their inputs alive."""

    def __init__(self, traced: Traced | Recalled, settings: Settings, gpu: Gpu, kernel: Any) -> None:
        """One thread per environment."""
        self.traced, self.settings, self.gpu, self.kernel = traced, settings, gpu, kernel
        self.signature = Signature(traced, settings)
        self.config = LaunchConfig(grid=-(-settings.num_envs // THREADS), block=THREADS)

    def __call__(self, state: RolloutState, actions: Tree, shared: Tree = ()) -> tuple[RolloutState, dict[str, Tree]]:
        """See `Runner`; returns when the launch is on the stream. In a program that JAX traces, an operation of it."""
        leaves = self.signature.flat(state, actions, shared)
        if any_traced((state.step, *leaves)):
            return call_kernel(self.signature, self.program, self.program.launch, leaves, state.step)
        self.gpu.device.set_current()
        return call_kernel(self.signature, self.gpu, self.launch, leaves, state.step)

    @functools.cached_property
    def program(self) -> Program:
        """What the kernel is in programs of JAX, which run it on streams of XLA's."""
        digest, _ = entered(source_of(self.traced, FROM_DEVICE), self.gpu.device.arch)
        counts = {"num_blocks": self.config.grid[0], "num_threads": THREADS}
        return program_of("drivetrain_cuda", digest, self.traced, self.settings, **counts)

    def launch(
        self, number: int, inputs: Sequence[DeviceArray], outputs: Sequence[DeviceArray]
    ) -> Sequence[DeviceArray]:
        """Put one launch on the stream. Arrays live until it is done: others may own them."""
        arrays = [*inputs, *outputs]
        self.put(self.gpu.stream, number, arrays)
        self.gpu.keep(arrays)
        return outputs

    def put(self, stream: Any, number: int, arrays: Sequence[DeviceArray]) -> None:
        """Put one launch on a stream, or into a graph that is being built."""
        counts = np.int64(self.settings.num_envs), np.int64(self.settings.num_steps), np.uint32(number)
        launch(stream, self.config, self.kernel, *counts, *(array.ptr for array in arrays))
