"""`drivetrain report DIR...`: what a profiled program spent its time on, or several side by side."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from drivetrain import scope
from drivetrain.cli.flags import read_flags
from drivetrain.core.aside import save_text
from drivetrain.core.errors import InvalidInput
from drivetrain.core.outputs import require_folders
from drivetrain.core.paths import resolved
from drivetrain.scope.profile import Profile
from drivetrain.scope.report import beside, beside_json, beside_page, beside_terminal, page, perfetto, table, terminal
from drivetrain.scope.report.console import console
from drivetrain.scope.trace import kineto
from drivetrain.scope.trace.folder import is_part


@dataclass(frozen=True, kw_only=True)
class _Flags:
    """Show where the time of a recorded session went, raw and corrected for what recording cost."""

    folders: Annotated[
        tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="DIR...", help_behavior_hint="(required)")
    ]
    """The folder of the session, or of a training run; of several sessions, to see them side by side. A trace that
    torch.profiler exported may stand in place of a session."""
    html: Path | None = None
    """Write a page to this file that opens in any browser, without a network."""
    json: Path | None = None
    """Write all numbers to this file."""
    csv: Path | None = None
    """Write the breakdown to this file, one line per row."""
    perfetto: Path | None = None
    """Write all events to this file, for ui.perfetto.dev."""
    kineto: Annotated[tuple[Path, ...], tyro.conf.arg(help_behavior_hint="(default: none)")] = ()
    """Traces that torch.profiler exported (JSON, gzipped or not) while the session recorded, for what GPUs did; one per
    process."""
    pack: bool = False
    """First replace the recording by one small Parquet file."""

    def check(self) -> None:
        """Refuse what cannot be read or written. Not at construction: tyro would turn the sentence into a box.

        Raises:
            InvalidInput: A folder is none, or a file was asked for that holds one run only.
        """
        if not self.folders:
            raise InvalidInput("DIR: expected the folder of a recorded session, got nothing")
        for folder in self.folders:
            if not folder.exists():
                raise InvalidInput(f"DIR: expected the folder of a recorded session, and {folder} is none")
            if seeds := sorted(config.parent.name for config in folder.glob("seed-*/config.json")):
                held = f"{folder} holds those of several seeds: {', '.join(seeds)}"
                raise InvalidInput(f"DIR: expected the folder of one run, and {held}")
            if not folder.is_dir() and (self.pack or self.kineto):
                raise InvalidInput(f"--pack, --kineto: expected the folder of a recorded session, and {folder} is none")
            if _was_not_recorded(folder):
                raise InvalidInput(f"DIR: nothing to show, as the run in {folder} was not recorded (time_report)")
        if len({resolved(folder) for folder in self.folders}) < len(self.folders):
            raise InvalidInput("DIR: expected folders of different sessions, got one of them twice")
        if len(self.folders) > 1 and (self.csv is not None or self.perfetto is not None or self.kineto):
            raise InvalidInput("--csv, --perfetto, --kineto: expected one DIR, got several; write a file for each")
        require_folders(self.html, self.json, self.csv, self.perfetto)
        read = {resolved(path) for path in (*self.folders, *self.kineto)}
        for file in filter(None, (self.html, self.json, self.csv, self.perfetto)):
            if resolved(file) in read or any(_is_part(folder, file) for folder in self.folders):
                raise InvalidInput(f"{file}: expected a file of its own, got one of the recording; choose another name")
        for file in self.kineto:
            if not file.is_file():
                raise InvalidInput(f"--kineto: expected a trace that torch.profiler exported, and {file} is no file")
        if len({resolved(file) for file in self.kineto}) < len(self.kineto):
            raise InvalidInput("--kineto: expected different traces, got one of them twice")
        if any(map(_is_run, self.folders)) and (
            len(self.folders) > 1 or self.csv or self.perfetto or self.pack or self.kineto
        ):
            raise InvalidInput(
                "DIR: a training run keeps sums and no events, so it has a table, --html and --json, by itself only; "
                "`drivetrain profile -m drivetrain train ...` records events"
            )


def run(argv: list[str]) -> int:
    """Read, print, and write what was asked for."""
    flags = read_flags(_Flags, argv, prog="drivetrain report", apart="all DIRs stand together, in front of the flags")
    flags.check()
    if _is_run(flags.folders[0]):
        _training(flags, flags.folders[0])
        return 0
    if flags.pack:
        for folder in flags.folders:
            scope.pack(folder)
    profiles = {name: _profile(folder, flags.kineto) for name, folder in _named(flags.folders).items()}
    if len(profiles) > 1:
        _beside(flags, beside.lettered(profiles))
    else:
        _one(flags, *next(iter(profiles.items())))
    return 0


def _was_not_recorded(folder: Path) -> bool:
    """Whether a folder is a training run's, without times."""
    return all((folder / name).exists() for name in ("config.json", "lock", "logs")) and not _is_run(folder)


def _is_run(folder: Path) -> bool:
    """Whether a folder is a training run's; only then is the trainer imported."""
    if not (folder / "config.json").is_file():
        return False
    from drivetrain.train.telemetry import time_report

    return time_report.is_of_run(folder)


def _is_part(folder: Path, file: Path) -> bool:
    """Whether a file belongs to the recording, or to the run that was recorded."""
    if not _is_run(folder):
        return is_part(folder, file)
    from drivetrain.train.run_dir import folder as run_dir

    return run_dir.is_part(folder, file)


def _training(flags: _Flags, run_dir: Path) -> None:
    from drivetrain.train.telemetry import time_report

    totals = time_report.load(run_dir)
    assert totals is not None
    if flags.html is not None:
        time_report.write(run_dir, flags.html)
    if flags.json is not None:
        save_text(flags.json, json.dumps(totals.as_json(), indent=1) + "\n")
    time_report.show(run_dir, console())


def _profile(path: Path, exports: tuple[Path, ...]) -> Profile:
    if not path.is_dir():
        return Profile(kineto.trace_of(path))
    profile = scope.load(path)
    return Profile(kineto.into(profile.trace, exports)) if exports else profile


def _named(folders: tuple[Path, ...]) -> dict[str, Path]:
    """By the folder's own name; by the whole path where two have the same."""
    names = [folder.name for folder in folders]
    return {
        str(folder) if names.count(name) > 1 or not name else name: folder
        for name, folder in zip(names, folders, strict=True)
    }


def _one(flags: _Flags, name: str, profile: Profile) -> None:
    if flags.html is not None:
        _write_page(flags.html, page.render(profile, f"Where the time of {name} went"))
    if flags.json is not None:
        save_text(flags.json, json.dumps(profile.as_json(), indent=1) + "\n")
    if flags.csv is not None:
        table.write(profile, flags.csv)
    if flags.perfetto is not None:
        perfetto.write(profile, flags.perfetto)
    terminal.show(profile, console())


def _beside(flags: _Flags, runs: list[beside.Run]) -> None:
    if flags.html is not None:
        _write_page(flags.html, beside_page.render(runs, f"{len(runs)} runs side by side"))
    if flags.json is not None:
        save_text(flags.json, json.dumps(beside_json.as_json(runs), indent=1) + "\n")
    beside_terminal.show(runs, console())


def _write_page(file: Path, text: str) -> None:
    """Names of files need not be text in any encoding."""
    save_text(file, text, errors="xmlcharrefreplace")
