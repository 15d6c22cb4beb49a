"""The rows of the breakdown as CSV, for spreadsheets."""

import csv
from dataclasses import asdict, fields
from pathlib import Path

from drivetrain.core.aside import text_aside
from drivetrain.scope.profile import Profile, Row


def write(profile: Profile, file: Path) -> None:
    """One line per thread, operation, class and phase, with the names of `--json`."""
    names = [field.name for field in fields(Row)]
    with text_aside(file, newline="", errors="backslashreplace") as out:
        writer = csv.writer(out)
        writer.writerow(["class" if name == "time_class" else name for name in names])
        writer.writerows([asdict(row)[name] for name in names] for row in profile.breakdown())
