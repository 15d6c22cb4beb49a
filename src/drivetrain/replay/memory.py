"""Where the memory of a replay goes, known before any of it is taken."""

from dataclasses import dataclass
from typing import Any

from drivetrain.core.docstrings import with_fields
from drivetrain.core.words import size
from drivetrain.replay import _native
from drivetrain.replay.schema import Schema


@dataclass(frozen=True)
class Region:
    """A part of the memory, or of every row."""

    name: str
    nbytes: int


@with_fields
@dataclass(frozen=True, kw_only=True)
class MemoryReport:
    """The parts of a replay's memory; `print` shows them as a table."""

    capacity: int
    """Rows."""
    regions: tuple[Region, ...]
    """The table's parts, then those of all its rows: fields under their names, joined by "/". Observations that are
    shared are one part, `frames`."""

    @property
    def nbytes(self) -> int:
        """All of them together: `Replay.nbytes`."""
        return sum(region.nbytes for region in self.regions)

    def largest(self) -> str:
        """The three largest parts in one line, for messages."""
        regions = sorted(self.regions, key=lambda region: -region.nbytes)[:3]
        return ", ".join(f"{region.name} {size(region.nbytes)}" for region in regions)

    def __str__(self) -> str:
        regions = [*self.regions, Region(f"total for {self.capacity} rows", self.nbytes)]
        width = max(len(region.name) for region in regions)
        return "\n".join(
            f"{region.name:{width}}  {size(region.nbytes):>10}  {region.nbytes / self.nbytes:6.1%}"
            for region in regions
        )


def report(capacity: int, schema: Schema, native: dict[str, Any]) -> MemoryReport:
    """The report for a table.

    Args:
        capacity: Rows.
        schema: Of the rows.
        native: The configuration of the native table.
    """
    parts = _native.table_regions(native)
    regions = [Region(name, nbytes) for name, nbytes in parts if name != "rows"]
    in_rows = [Region(field.name, capacity * field.nbytes) for field in schema.fields if not field.is_framed]
    in_rows += [Region("frames of a row", capacity * _native.links_nbytes(schema.num_refs))]
    in_rows += [Region("generation and owner", capacity * _native.ROW_HEADER_NBYTES)]
    padding = dict(parts)["rows"] - sum(region.nbytes for region in in_rows)
    regions += [*in_rows, Region("padding of rows", padding)]
    return MemoryReport(capacity=capacity, regions=tuple(region for region in regions if region.nbytes))
