"""Reads the folder of a session that kept sums: per thread, time and entries of every path of sites.

FOLDER/session.json, *.json, *.sites, *.totals -> ThreadTotals
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.core._native import process_is_alive
from drivetrain.core.errors import FileFormatError
from drivetrain.scope.format import TOTALS
from drivetrain.scope.sites import Site
from drivetrain.scope.states import BASE, State
from drivetrain.scope.trace.files import LATEST_NS, header_of, read_json, sites_of

# TotalsHeader and SitePath of cpp/include/drivetrain/event_log_totals.hpp
_HEADER = np.dtype(
    [
        ("magic", "S8"),
        ("version", "<u4"),
        ("header_nbytes", "<u4"),
        ("process_start", "<u8"),
        ("pid", "<u4"),
        ("tid", "<u4"),
        ("thread", "<u4"),
        ("num_paths", "<u4"),
        ("begin_ns", "<i8"),
        ("until_ns", "<i8"),
        ("num_unplaced", "<u8"),
        ("num_steps", "<u8", 3),
        ("has_ended", "<u4"),
        ("unused", "<u4"),
    ]
)
_PATH = np.dtype(
    [
        ("ns", "<i8"),
        ("num_entered", "<i8"),
        ("site", "<u4"),
        ("parent", "<u4"),
        ("first_child", "<u4"),
        ("next_sibling", "<u4"),
    ]
)
_MAGIC = b"dtsctot1"


@dataclass(frozen=True, kw_only=True)
class SiteTotal:
    """What one path of sites came to; `site` is its last."""

    site: Site
    state: State
    """What the thread is in there: what sites of the path do not set is that of the ones around them."""
    ns: int
    """In this path, and in none below it."""
    num_entered: int


@dataclass(frozen=True, kw_only=True)
class ThreadTotals:
    """One thread of a session."""

    name: str
    """Of its process, as that called itself; else its number."""
    is_main: bool
    begin_ns: int
    until_ns: int
    """Up to where time is counted: its end, or its last event."""
    has_ended: bool
    """False for a thread that was killed, left by os._exit, or still runs."""
    num_unplaced: int
    """Entries of paths for which there was no room; their time is that of the path around."""
    paths: tuple[SiteTotal, ...]
    """The first is outside all sites."""
    is_running: bool = False
    """Whether its process was alive when this was read."""


def read(folder: Path) -> tuple[dict[str, Any], list[ThreadTotals]]:
    """What session.json says, and all threads, in the order of their begin; also of a session that still runs.

    Raises:
        FileFormatError: The folder holds no such session, or one that is damaged or of another version.
    """
    try:
        about, threads = _read(folder)
        wrong = next(_wrong_in(about, threads), None)
    except (LookupError, TypeError, ValueError, OverflowError) as error:  # missing, cut, no number
        raise FileFormatError(
            f"{folder}: expected sums, got damaged ones ({type(error).__name__}: {error}); they cannot be shown"
        ) from error
    if wrong is not None:
        raise FileFormatError(f"{folder}: expected {wrong}: its sums are damaged and cannot be shown")
    return about, threads


def _read(folder: Path) -> tuple[dict[str, Any], list[ThreadTotals]]:
    file = folder / "session.json"
    about: dict[str, Any] = read_json(file) if file.is_file() else {}
    if about.get("keeps") != TOTALS:
        raise FileFormatError(f"{folder}: expected the folder of a session that kept sums, and it is none")
    threads = [thread for path in folder.glob("*.totals") if (thread := _thread(folder, path)) is not None]
    return about, sorted(threads, key=lambda thread: thread.begin_ns)


def _wrong_in(about: dict[str, Any], threads: list[ThreadTotals]) -> Iterator[str]:
    """What no session says: what is expected instead, and what there is."""
    begin_ns = int(about["begin_ns"])
    if not 0 <= begin_ns <= int(about.get("end_ns", begin_ns)) < LATEST_NS:
        yield f"an end after a begin, got {begin_ns} to {about.get('end_ns')} ns"
    for thread in threads:
        if type(thread.name) is not str:
            yield f"names of processes that are texts, got {thread.name!r}"
        if not 0 <= thread.begin_ns <= thread.until_ns < LATEST_NS:
            yield f"an end of {thread.name} after its begin, got {thread.begin_ns} to {thread.until_ns} ns"
        spent_ns, num_entered = [path.ns for path in thread.paths], [path.num_entered for path in thread.paths]
        if not 0 <= min(spent_ns, default=0) <= max(spent_ns, default=0) < LATEST_NS:
            yield f"times of {thread.name}, got {spent_ns} ns"
        if not 0 <= min(num_entered, default=0) <= max(num_entered, default=0) < LATEST_NS:
            yield f"numbers of entries of {thread.name}, got {num_entered}"


def _thread(folder: Path, file: Path) -> ThreadTotals | None:
    """None for a file whose writer was killed before its header was whole."""
    raw = file.read_bytes()
    head = header_of(file, raw, _HEADER, _MAGIC, "sums")
    if head is None:
        return None
    pid, start = int(head["pid"]), int(head["process_start"])
    paths = np.frombuffer(raw, _PATH, int(head["num_paths"]), int(head["header_nbytes"]))
    return ThreadTotals(
        name=_name(folder / f"{pid}-{start}.json") or str(pid),
        is_main=pid == int(head["tid"]),
        begin_ns=int(head["begin_ns"]),
        until_ns=int(head["until_ns"]),
        has_ended=bool(head["has_ended"]),
        num_unplaced=int(head["num_unplaced"]),
        paths=_resolved(paths, sites_of(folder, pid, start)),
        is_running=process_is_alive(pid, start),
    )


def _resolved(paths: NDArray[Any], sites: dict[int, Site]) -> tuple[SiteTotal, ...]:
    """Parents stand before their children, so one pass says what each path is."""
    found: list[SiteTotal] = []
    for number, path in enumerate(paths):
        site, state = Site(""), BASE
        if number > 0:
            site = sites.get(int(path["site"]), Site("unknown"))
            if path["parent"] >= number:
                raise ValueError(f"path {number} lies below path {path['parent']}")
            around = found[int(path["parent"])].state
            own = State(site.operation, site.time_class, site.phase)
            state = State(*(mine or above for mine, above in zip(own, around, strict=True)))
        found.append(SiteTotal(site=site, state=state, ns=int(path["ns"]), num_entered=int(path["num_entered"])))
    return tuple(found)


def _name(file: Path) -> str:
    return read_json(file).get("name", "") if file.exists() else ""
