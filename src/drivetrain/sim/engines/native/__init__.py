"""Native kernels: one step as C++ over tiles of one hardware vector of environments.

Block ─passes─▶ scalars and arrays ─emitter─▶ C++ ─compilation─▶ shared object ─engine─▶ NumPy arrays
"""

from drivetrain.sim.engines.native.engine import build

__all__ = ["build"]
