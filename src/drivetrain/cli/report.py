"""`drivetrain report DIR`: what a profiled program spent its time on."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import rich.console
import tyro

from drivetrain import scope
from drivetrain.core.errors import InvalidInput
from drivetrain.scope.report import page, perfetto, table, terminal


@dataclass(frozen=True, kw_only=True)
class _Flags:
    """Show where the time of a recorded session went, raw and corrected for what recording cost."""

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """The folder of the session."""
    html: Path | None = None
    """Write a page to this file that opens in any browser, without a network."""
    json: Path | None = None
    """Write all numbers to this file."""
    csv: Path | None = None
    """Write the breakdown to this file, one line per row."""
    perfetto: Path | None = None
    """Write all events to this file, for ui.perfetto.dev."""
    pack: bool = False
    """First replace the recording by one small Parquet file."""


def run(argv: list[str]) -> int:
    """Read, print, and write what was asked for."""
    flags = tyro.cli(_Flags, prog="drivetrain report", args=argv)
    if not flags.folder.is_dir():
        raise InvalidInput(f"DIR: expected the folder of a recorded session, and {flags.folder} is none")
    if flags.pack:
        scope.pack(flags.folder)
    profile = scope.load(flags.folder)
    if flags.html is not None:
        flags.html.write_text(page.render(profile, f"Where the time of {flags.folder.name} went"))
    if flags.json is not None:
        flags.json.write_text(json.dumps(profile.as_json(), indent=1) + "\n")
    if flags.csv is not None:
        table.write(profile, flags.csv)
    if flags.perfetto is not None:
        perfetto.write(profile, flags.perfetto)
    terminal.show(profile, rich.console.Console())
    return 0
