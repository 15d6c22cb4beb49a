"""Columns of integers as a Parquet file, a few bytes per row; everything else is JSON in its metadata.

Differences of times are small, and take a delta encoding; the column `what` holds few different numbers, and takes a
dictionary. Both are then compressed.
"""

# PyArrow ships no types:
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from drivetrain.core.aside import written_aside
from drivetrain.core.errors import FileFormatError

Columns = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class PackedFile:
    """A kind of file, with the columns that its writers and readers agree on.

    Attributes:
        content: What is in it, for messages.
        key: Under which its JSON stands in the metadata.
        version: Of its columns and JSON.
    """

    content: str
    key: bytes
    version: int

    def write(self, file: Path, columns: Columns, head: Mapping[str, Any]) -> None:
        """Write columns of equal length and what describes them; the file is there at once, or not at all."""
        described = {self.key: json.dumps({"version": self.version, **head}).encode()}
        table: Any = pa.table(dict(columns))
        with written_aside(file) as aside:
            pq.write_table(
                table.replace_schema_metadata(described),
                str(aside.name),
                compression="zstd",
                compression_level=9,
                use_dictionary=["what"],  # pyright: ignore[reportArgumentType]
                column_encoding={name: "DELTA_BINARY_PACKED" for name in columns if name != "what"},
            )

    def read(self, file: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """The columns, and what describes them.

        Raises:
            FileFormatError: The file is damaged, or of another kind or version.
        """
        try:
            table: Any = pq.read_table(file)
        except (pa.ArrowException, OSError) as error:  # damaged pages are an OSError
            raise FileFormatError(f"{file}: expected {self.content}, and it cannot be read: {error}") from error
        head = json.loads((table.schema.metadata or {}).get(self.key, b"{}"))
        if head.get("version") != self.version:
            raise FileFormatError(
                f"{file}: expected {self.content} of version {self.version}, got {head.get('version')}"
            )
        return {name: table[name].to_numpy() for name in table.column_names}, head
