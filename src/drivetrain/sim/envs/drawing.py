"""Pictures of states in NumPy: shapes with smooth edges on a canvas, and boards of coloured cells.

A frame is uint8[height, width, 3], red, green, blue.
"""

from collections.abc import Iterable
from math import cos, sin
from typing import Any

import numpy as np
import numpy.typing as npt

Frame = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]
Colour = tuple[int, int, int]
Point = tuple[float, float]

PAPER: Colour = (250, 249, 245)
INK: Colour = (43, 45, 66)
GREY: Colour = (190, 192, 200)
BLUE: Colour = (60, 110, 180)
RED: Colour = (214, 69, 65)
GREEN: Colour = (70, 150, 90)
GOLD: Colour = (224, 164, 44)

FRAME_HEIGHT, FRAME_WIDTH = 240, 360
CELL = 20
"""Pixels of a cell's side on a board."""


class Canvas:
    """A sheet of paper with coordinates of its own: y goes up, and units are those of the simulator.

    Args:
        centre: The point in its middle.
        height: From its lower to its upper edge.
    """

    def __init__(self, centre: Point, height: float) -> None:
        """Empty."""
        self.scale = FRAME_HEIGHT / height
        rows, columns = np.mgrid[:FRAME_HEIGHT, :FRAME_WIDTH]
        self.x: Floats = centre[0] + (columns + 0.5 - FRAME_WIDTH / 2) / self.scale
        self.y: Floats = centre[1] - (rows + 0.5 - FRAME_HEIGHT / 2) / self.scale
        self.pixels: Floats = np.full((FRAME_HEIGHT, FRAME_WIDTH, 3), PAPER, np.float64)

    def fill(self, distance: Floats, colour: Colour) -> None:
        """Colour where a signed distance is negative; a pixel on the edge by its share."""
        share = np.clip(0.5 - distance * self.scale, 0.0, 1.0)[..., None]
        self.pixels += share * (np.array(colour) - self.pixels)

    def disc(self, centre: Point, radius: float, colour: Colour) -> None:
        """A filled circle."""
        self.fill(np.hypot(self.x - centre[0], self.y - centre[1]) - radius, colour)

    def line(self, start: Point, end: Point, width: float, colour: Colour) -> None:
        """A stroke with round ends."""
        dx, dy = end[0] - start[0], end[1] - start[1]
        x, y = self.x - start[0], self.y - start[1]
        along = np.clip((x * dx + y * dy) / max(dx * dx + dy * dy, 1e-12), 0.0, 1.0)
        self.fill(np.hypot(x - along * dx, y - along * dy) - width / 2, colour)

    def box(self, centre: Point, size: Point, colour: Colour, angle: float = 0.0) -> None:
        """A filled rectangle, turned anticlockwise by an angle."""
        x, y = self.x - centre[0], self.y - centre[1]
        along, across = cos(angle) * x + sin(angle) * y, cos(angle) * y - sin(angle) * x
        self.fill(np.maximum(np.abs(along) - size[0] / 2, np.abs(across) - size[1] / 2), colour)

    def below(self, heights: Floats, colour: Colour) -> None:
        """Everything below a curve: a height for each column of pixels."""
        self.fill(self.y - heights, colour)

    def frame(self) -> Frame:
        """The picture."""
        return np.rint(self.pixels).astype(np.uint8)


def board(height: int, width: int, layers: Iterable[tuple[Any, Colour]]) -> Frame:
    """A board of cells with thin lines between them.

    Args:
        layers: Booleans [height, width] and their colour; later ones cover earlier ones.
    """
    cells = np.broadcast_to(np.array(PAPER, np.uint8), (height, width, 3)).copy()
    for where, colour in layers:
        cells[np.asarray(where, bool)] = colour
    picture = cells.repeat(CELL, axis=0).repeat(CELL, axis=1)
    picture[::CELL] = picture[:, ::CELL] = (232, 231, 226)
    return picture
