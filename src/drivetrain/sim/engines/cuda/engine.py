"""The engine `cuda`: compiles a step for the GPU at hand and launches it on the caller's stream."""

# cuda.core chooses its modules by the version of CUDA when it is imported, which type checkers cannot follow.
# pyright: reportAttributeAccessIssue=false, reportMissingImports=false, reportMissingTypeStubs=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false

from collections import deque
from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np
from cuda.core import LaunchConfig, launch

from drivetrain.sim.api import RolloutState, Runner, Settings, Tree
from drivetrain.sim.engines.arrays import call_kernel
from drivetrain.sim.engines.cuda.device import DeviceArray, Gpu
from drivetrain.sim.engines.cuda.kernel import NAME, THREADS, source_of
from drivetrain.sim.engines.cuda.program import compile_program
from drivetrain.sim.engines.native.toolchain import cache_folder
from drivetrain.sim.trace import Traced


def build(traced: Traced, settings: Settings) -> Runner:
    """Find the GPU, then compile for it."""
    gpu = Gpu(settings.stream)
    program, _ = compile_program(source_of(traced), f"sm_{gpu.device.arch}", cache_folder() / "cuda")
    return Kernel(traced, settings, gpu, program.get_kernel(NAME))


class Kernel:
    """A loaded kernel with the shapes it takes. Calls share nothing but what keeps their inputs alive."""

    def __init__(self, traced: Traced, settings: Settings, gpu: Gpu, kernel: Any) -> None:
        """One thread per environment."""
        self.traced, self.settings, self.gpu, self.kernel = traced, settings, gpu, kernel
        self.config = LaunchConfig(grid=-(-settings.num_envs // THREADS), block=THREADS)
        self.lock, self.running = Lock(), deque[tuple[Any, Sequence[DeviceArray]]]()

    def __call__(self, state: RolloutState, actions: Tree, shared: Tree = ()) -> tuple[RolloutState, dict[str, Tree]]:
        """See `Runner`; returns when the launch is on the stream."""
        self.gpu.device.set_current()
        return call_kernel(self.traced, self.settings, self.gpu, self.launch, state, actions, shared)

    def launch(self, number: int, arrays: Sequence[DeviceArray]) -> None:
        """Put one launch on the stream. Arrays live until it is done: others may own them."""
        settings, stream = self.settings, self.gpu.stream
        counts = np.int64(settings.num_envs), np.int64(settings.num_steps), np.uint32(number)
        launch(stream, self.config, self.kernel, *counts, *(array.ptr for array in arrays))
        with self.lock:
            self.running.append((stream.record(), arrays))
            while self.running and self.running[0][0].is_done:
                self.running.popleft()
