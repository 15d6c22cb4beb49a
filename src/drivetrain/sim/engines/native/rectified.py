"""Which products have a vector that rectified linear units gave, and which of them leave zeros out (rectified.hpp).

Sums stay in the order of the rows, and zero times a finite weight adds nothing, so the bits are those of the whole
product. Where a weight is infinite or NaN, or most units are not zero, the whole product is computed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from drivetrain.sim.engines.native.emitter import Emitter
from drivetrain.sim.engines.native.expressions import ELEMENT
from drivetrain.sim.engines.native.position import Index
from drivetrain.sim.ir.build import row_major
from drivetrain.sim.ir.program import Op, Value

ROWS, COLUMNS = range(32, 65, 8), range(48, 65, 8)
"""Sizes where it pays: sums of fewer columns wait for each other, and more weights leave the cache."""
MOST_KEPT = 3 / 4
"""Of all units, up to which leaving the others out is faster."""


@dataclass(frozen=True, kw_only=True)
class Rectified:
    """A product that may leave zeros out."""

    vector: Value
    weights: str
    """C++ of a pointer to its matrix."""
    num_rows: int
    num_columns: int


@dataclass(frozen=True, kw_only=True)
class Kept:
    """C++ that leaves zeros out, which begins with an `#ifdef` whose end the writer of the whole product writes."""

    product: Rectified
    names: str
    """Of each tile's units that are not zero, in an array."""
    are_few: str
    """Whether they are, in all tiles together."""

    def sums(self, at: Emitter, q: int) -> Iterator[tuple[list[Index], list[str]]]:
        """Where a block of columns of one tile's product is, and the C++ of their sums, as often as there are any."""
        sums, j, r, num = at.new("m"), at.new("i"), at.new("r"), self.product.num_columns
        with at.braces():
            at.line(f"alignas(32) float {sums}[8 * {num}];")
            at.line(f"times_kept<{self.product.num_rows}, {num}>({self.names}[{q}], {self.product.weights}, {sums});")
            with at.braces(f"for (int {j} = 0; {j} < {num}; {j} += 8)"):
                at.line(f"vf {r}[8];")
                at.line(f"turned({sums} + {j}, {num}, {r});")
                yield [Index({j: 1}, k) for k in range(8)], [f"{r}[{k}]" for k in range(8)]


def write_kept(at: Emitter, product: Rectified, vectors: Sequence[str]) -> Kept:
    """The units of each tile that are not zero.

    Args:
        vectors: C++ names of the tiles' vectors, in memory.
    """
    rows, names, finite = product.num_rows, at.new("k"), at.new("finite")
    size = rows * product.num_columns
    once = ["#ifdef SKIPS_ZEROS", f"const bool {finite} = all_finite<{size}>({product.weights});", "#endif"]
    at.lines[at.start : at.start] = ["    " + line for line in once]
    at.line("#ifdef SKIPS_ZEROS")
    at.line(f"Kept<{rows}> {names}[{len(vectors)}];")
    num_kept = " + ".join(f"keep({vector}, {names}[{q}])" for q, vector in enumerate(vectors))
    most = int(MOST_KEPT * rows * 8 * len(vectors))
    at.scratch_nbytes += 4 * (rows * len(vectors) + product.num_columns)
    return Kept(product=product, names=names, are_few=f"{finite} && {num_kept} <= {most}")


def rectified(at: Emitter, product: Op) -> Rectified | None:
    """What a product is if it leaves zeros out."""
    x, y = product.inputs
    weights = pointer_to(at, y)
    if weights is None or x.size not in ROWS or product.out.size not in COLUMNS or not is_rectified(at, x):
        return None
    return Rectified(vector=x, weights=weights, num_rows=x.size, num_columns=product.out.size)


def is_rectified(at: Emitter, value: Value) -> bool:
    """Whether a value is max(z, 0)."""
    op = at.maker(value)
    return op is not None and op.name == "max" and any(at.number_of(part) == 0 for part in op.inputs)


def pointer_to(at: Emitter, matrix: Value) -> str | None:
    """Where a matrix of all environments lies, row after row, if it does."""
    if matrix in at.shared:
        return at.shared[matrix] if ELEMENT[matrix.dtype] == "float" else None
    op = at.maker(matrix)
    if op is None or op.name != "view" or op.attrs["strides"] != row_major(matrix.shape):
        return None
    whole = pointer_to(at, op.inputs[0])
    return None if whole is None else f"({whole} + {op.attrs['offset']})"
