"""One of several tiles that a kernel is written for at once: what the same values are called in it."""

from contextlib import contextmanager
from typing import Any

from drivetrain.sim.engines.native.emitter import Emitter
from drivetrain.sim.engines.native.memory import Memory


class Tile:
    """Names of values and memory of arrays, as an emitter has them for one tile alone."""

    def __init__(self, at: Emitter, number: int) -> None:
        """It begins with the names that there are, which all tiles share."""
        self.number, self.names, self.memory = number, dict(at.names), Memory()
        self.base, self.row, self.num = f"base{number}", f"row{number}", f"n{number}"
        """C++ names of its first environment, that one's row in a record, and how many environments it has."""

    @contextmanager
    def chosen(self, at: Emitter) -> Any:
        """What is written in the body of this is of this tile."""
        others = at.names, at.plan.memory
        at.names, at.plan.memory = self.names, self.memory
        yield
        self.names = at.names
        at.names, at.plan.memory = others
