"""Reads a jaxpr into the representation: the only package that knows how JAX writes programs down.

Written against JAX 0.10 to 0.12, without its private modules. `importer.py` walks; a file for each family of
primitives holds the handlers, which are known as soon as they are imported here.
"""

from drivetrain.sim.ir.importer import (
    control,
    elementwise,
    functions,
    indexing,
    keys,
    movement,
    reductions,
    windows,
    written_out,
)
from drivetrain.sim.ir.importer.importer import import_jaxpr, is_key

__all__ = ["control", "elementwise", "functions", "import_jaxpr", "indexing", "is_key", "keys", "movement",
           "reductions", "windows", "written_out"]  # fmt: skip
