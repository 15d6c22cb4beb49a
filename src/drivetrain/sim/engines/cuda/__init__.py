"""CUDA kernels: one step as CUDA C++, one thread per environment.

Block ─native's emitter─▶ CUDA C++ ─NVRTC─▶ machine code ─cuda.core─▶ launches on the caller's stream
"""

from drivetrain.sim.engines.cuda.engine import build

__all__ = ["build"]
