"""Simulators compiled from ordinary JAX environments: K steps of N environments in one call.

Where Gymnasium is installed, importing this package registers the ids drivetrain/NAME with it.
"""

from drivetrain.core.extras import naming_extra as _naming_extra

with _naming_extra("sim"):
    from drivetrain.sim import policies, random
    from drivetrain.sim.check import check_env
    from drivetrain.sim.compiler import compile
    from drivetrain.sim.explaining import explain
    from drivetrain.sim.gymnax import from_gymnax
    from drivetrain.sim.ids import register as _register
    from drivetrain.sim.registry import make
    from drivetrain.sim.vector import make_vec

__all__ = ["check_env", "compile", "explain", "from_gymnax", "make", "make_vec", "policies", "random"]

_register()
