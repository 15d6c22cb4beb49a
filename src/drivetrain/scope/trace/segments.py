"""Reads a session's folder: segments up to the last whole event, tables of sites, processes.

FOLDER/*.events, *.sites, *.json, *.gpu -> Trace
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivetrain.core.errors import FileFormatError
from drivetrain.scope.format import FORMAT
from drivetrain.scope.notes import read_notes
from drivetrain.scope.sites import Site
from drivetrain.scope.trace import gpu_segments
from drivetrain.scope.trace.events import BEGIN, END, SILENT, THREAD_END, Process, Thread, Trace, names_of
from drivetrain.scope.trace.files import LATEST_NS, header_of, read_json, sites_of

_HEADER = np.dtype(
    [
        ("magic", "S8"),
        ("version", "<u4"),
        ("header_nbytes", "<u4"),
        ("process_start", "<u8"),
        ("pid", "<u4"),
        ("tid", "<u4"),
        ("sequence", "<u4"),
        ("thread", "<u4"),
        ("nbytes", "<u8"),
        ("thread_name", "S16"),
        ("num_dropped", "<u8"),
        ("dropped_from_ns", "<u8"),
    ]
)
_EVENT = np.dtype([("time_ns", "<i8"), ("site", "<u4"), ("kind", "<u2"), ("value", "<u2")])
_MAGIC = b"dtscseg1"
_SHARED = np.dtype(
    [("magic", "S8"), ("version", "<u4"), ("unused", "<u4"), ("limit", "<u8"), ("taken", "<u8"), ("dropped", "<u8")]
)
_UNKNOWN = Site("unknown")
PROCESS_FILE = re.compile(r"(\d+)-(\d+)\.json$")
"""Its pid and its begin (scope/session.py)."""


class _Segment(NamedTuple):
    header: Any
    events: NDArray[Any]


class _Lived(NamedTuple):
    """Until when a process lived, or at least had events."""

    until_ns: int
    is_known: bool


def read_folder(folder: Path) -> Trace:
    """The trace of a session, finished or not.

    Raises:
        FileFormatError: The folder holds no session, or one of another version.
    """
    about = _session(folder)
    streams: dict[tuple[int, int, int], list[_Segment]] = defaultdict(list)
    for file in sorted(folder.glob("*.events")):
        if (segment := _segment(file)) is not None:
            head = segment.header
            streams[int(head["pid"]), int(head["process_start"]), int(head["thread"])].append(segment)
    processes = _processes(folder, [(pid, start) for pid, start, _ in streams])
    index = {(process.pid, process.start): number for number, process in enumerate(processes)}
    sites, numbers = _sites(folder, processes)
    end_ns = int(about.get("end_ns", LATEST_NS))
    found = [
        _thread(parts, index[pid, start], numbers[index[pid, start]], end_ns)
        for (pid, start, _), parts in streams.items()
    ]
    threads = tuple(thread for thread in found if thread.num_events)
    begin_ns, end_ns = _extent(about, threads)
    dropped, limit = _dropped(folder)
    about = {**about, "num_dropped": dropped}
    lived = _lived(about, processes, threads)
    notes = _notes(folder, about, limit, processes, threads, lived)
    threads = _while_processes_lived(threads, lived)
    notes += [*_unnamed(processes, threads, sites), *gpu_segments.lost_in(folder)]
    recorded = {key: gpu_segments.Recorded(number, numbers[number]) for key, number in index.items()}
    return Trace(
        begin_ns=begin_ns,
        end_ns=end_ns,
        sites=sites,
        processes=processes,
        threads=threads,
        about=about,
        notes=tuple(notes),
        gpu=gpu_segments.read_folder(folder, recorded),
    )


def _session(folder: Path) -> dict[str, Any]:
    file = folder / "session.json"
    if not file.is_file():
        raise FileFormatError(f"{folder}: expected the folder of a scope session, and it has no session.json")
    about = read_json(file)
    if about.get("format") != FORMAT:
        raise FileFormatError(
            f"{file}: expected format {FORMAT}, got {about.get('format')}; use the drivetrain it is of"
        )
    if about.get("keeps", "events") != "events":
        raise FileFormatError(
            f"{folder}: expected a session of events, got one of sums; `drivetrain report RUN` shows those of runs"
        )
    return about


def _segment(file: Path) -> _Segment | None:
    """None for a file that ends before its header is whole."""
    raw = file.read_bytes()
    header = header_of(file, raw, _HEADER, _MAGIC, "a segment")
    if header is None:
        return None
    start = int(header["header_nbytes"])
    whole = (len(raw) - start) // _EVENT.itemsize
    events = np.frombuffer(raw, _EVENT, whole, start)
    unwritten = np.flatnonzero(events["time_ns"] == 0)
    return _Segment(header, events[: unwritten[0]] if len(unwritten) else events)


def _thread(parts: list[_Segment], process: int, numbers: NDArray[np.int32], end_ns: int) -> Thread:
    parts = sorted(parts, key=lambda part: int(part.header["sequence"]))
    whole = [part for number, part in enumerate(parts) if int(part.header["sequence"]) == number]
    events = _until(end_ns, np.concatenate([part.events for part in whole]) if whole else np.zeros(0, _EVENT))
    site = events["site"].astype(np.int64)
    names_site = (events["kind"] == BEGIN) | (events["kind"] == END)
    # The last number stands for sites whose name did not reach the disk.
    site[names_site] = numbers[np.minimum(site[names_site], len(numbers) - 1)]
    head = parts[0].header
    return Thread(
        process=process,
        number=int(head["thread"]),
        tid=int(head["tid"]),
        name=head["thread_name"].decode(errors="replace"),
        time_ns=np.ascontiguousarray(events["time_ns"]),
        kind=events["kind"].astype(np.uint8),
        site=site.astype(np.int32),
        value=events["value"].copy(),
        num_dropped=sum(int(part.header["num_dropped"]) for part in parts),
    )


def _until(end_ns: int, events: NDArray[Any]) -> NDArray[Any]:
    """Without what came after the session: a forked process that goes on records as ever, and counts as ended there."""
    inside = np.flatnonzero(events["time_ns"] <= end_ns)
    number = int(inside[-1]) + 1 if len(inside) else 0
    if number in (0, len(events)):
        return events[:number]
    cut = events[: number + 1].copy()
    cut[-1] = (end_ns, 0, THREAD_END, 0)
    return cut


def _lived(about: dict[str, Any], processes: tuple[Process, ...], threads: tuple[Thread, ...]) -> dict[int, _Lived]:
    """Until when each process did. Known of one whose first thread has said that it ended, and of the program that
    `drivetrain profile` has started if a signal ended it; else it may have become anything by os.exec.
    """
    found: dict[int, _Lived] = {}
    for thread in threads:
        so_far = found.get(thread.process, _Lived(0, False))
        says_so = thread.tid == processes[thread.process].pid and thread.has_ended
        found[thread.process] = _Lived(max(int(thread.time_ns[-1]), so_far.until_ns), so_far.is_known or says_so)
    program = max((number for number in found if processes[number].pid == about.get("program")), default=-1)
    if program >= 0 and not found[program].is_known and about["exit_code"] < 0:
        found[program] = _Lived(int(about["end_ns"]), True)
    return found


def _while_processes_lived(threads: tuple[Thread, ...], lived: Mapping[int, _Lived]) -> tuple[Thread, ...]:
    """A thread that did not say that it ended was in what it was in until its process ended: it counts as ended there.
    One for whose events there was no room tells nothing.
    """

    def whole(thread: Thread) -> Thread:
        until_ns = lived[thread.process].until_ns
        if thread.has_ended or thread.num_dropped or thread.time_ns[-1] == until_ns:
            return thread
        return replace(
            thread,
            time_ns=np.append(thread.time_ns, until_ns),
            kind=np.append(thread.kind, np.uint8(THREAD_END)),
            site=np.append(thread.site, np.int32(0)),
            value=np.append(thread.value, np.uint16(SILENT)),
        )

    return tuple(map(whole, threads))


def _processes(folder: Path, recorded: list[tuple[int, int]]) -> tuple[Process, ...]:
    found = {key: Process(pid=key[0], start=key[1], parent=0, argv=()) for key in recorded}
    for file in folder.glob("*.json"):
        if match := PROCESS_FILE.fullmatch(file.name):
            about = read_json(file)
            key = (int(match[1]), int(match[2]))
            alone = {name: (first, second) for name, (first, second) in dict(about.get("alone_ns", {})).items()}
            found[key] = Process(
                pid=key[0], start=key[1], parent=about["parent"], argv=tuple(about["argv"]), alone_ns=alone
            )
    return tuple(found[key] for key in sorted(found, key=lambda key: (key[1], key[0])))


def _sites(folder: Path, processes: tuple[Process, ...]) -> tuple[tuple[Site, ...], list[NDArray[np.int32]]]:
    """All sites, and per process the index of each of its numbers; one more at the end is for the unknown."""
    sites: dict[Site, int] = {}
    numbers: list[NDArray[np.int32]] = []
    for process in processes:
        own = sites_of(folder, process.pid, process.start)
        size = max(own, default=-1) + 2
        listed = [own.get(number, _UNKNOWN) for number in range(size)]
        numbers.append(np.array([sites.setdefault(site, len(sites)) for site in listed], np.int32))
    return tuple(sites), numbers


def _unnamed(processes: tuple[Process, ...], threads: tuple[Thread, ...], sites: tuple[Site, ...]) -> list[str]:
    """What is to be said of processes whose tables of sites are not whole."""
    if _UNKNOWN not in sites:
        return []
    unknown = sites.index(_UNKNOWN)
    named = [(thread.kind == BEGIN) & (thread.site == unknown) for thread in threads]
    of = {thread.process for thread, there in zip(threads, named, strict=True) if there.any()}
    names = names_of(processes)
    return [
        f"The names of some sites of process {names[number]} did not reach the disk: their time counts as that "
        "of whatever is around them."
        for number in sorted(of)
    ]


def _extent(about: dict[str, Any], threads: tuple[Thread, ...]) -> tuple[int, int]:
    last = max((int(thread.time_ns[-1]) for thread in threads if thread.num_events), default=about["begin_ns"])
    first = min((int(thread.time_ns[0]) for thread in threads if thread.num_events), default=last)
    return min(int(about["begin_ns"]), first), int(about.get("end_ns", last))


def _dropped(folder: Path) -> tuple[int, int]:
    """Events for which there was no room, those of threads without a segment, too; and the bytes that all had."""
    shared = folder / "shared"
    if not shared.exists() or not (raw := shared.read_bytes()):
        return 0, 0
    state = np.frombuffer(raw, _SHARED, 1)[0]
    return int(state["dropped"]), int(state["limit"])


def _notes(
    folder: Path,
    about: dict[str, Any],
    limit: int,
    processes: tuple[Process, ...],
    threads: tuple[Thread, ...],
    lived: Mapping[int, _Lived],
) -> list[str]:
    notes: list[str] = []
    if "end_ns" not in about:
        notes.append(
            "The session was not ended: it still runs, its process was killed, or nothing could be written. Its end is "
            "its last event, and each process is shown as idle from its own on."
        )
    if about["num_dropped"]:
        notes.append(
            f"{about['num_dropped']} events found no room in {limit} bytes, or on the disk; "
            "a thread is shown as idle from where its first event was dropped."
        )
    # A thread for whose events there was no room could not say so, and why is told above.
    silent = {thread.process for thread in threads if not thread.num_dropped and not thread.has_ended}
    names = [name for n, name in enumerate(names_of(processes)) if n in silent and not lived[n].is_known]
    if names and "end_ns" in about:
        notes.append(
            "Processes that did not say that they ended (killed, left by os._exit or os.exec, or still running): "
            f"{', '.join(names)}. What came after the last event of each is shown as idle."
        )
    return notes + read_notes(folder)
