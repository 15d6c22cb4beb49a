"""The events themselves, for Perfetto's and Chrome's trace viewers: JSON of the Trace Event Format."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from drivetrain.core.aside import text_aside
from drivetrain.scope.profile import Profile
from drivetrain.scope.report import perfetto_gpu
from drivetrain.scope.sites import UNRECORDED, Site
from drivetrain.scope.trace.events import BEGIN, BLOCK, END, LANE, STEP, Thread

_MUTED = -1
"""In the place of a site: what a thread did was not recorded."""


def write(profile: Profile, file: Path) -> None:
    """One line per event; open it at ui.perfetto.dev or chrome://tracing."""
    with text_aside(file) as out:
        out.write("[\n")
        for number, event in enumerate(events(profile)):
            out.write((",\n" if number else "") + json.dumps(event, separators=(",", ":")))
        out.write("\n]\n")


def events(profile: Profile) -> Iterator[dict[str, Any]]:
    """Names of processes and threads, then their events; times in microseconds from the session's begin."""
    for process in profile.trace.processes:
        name = " ".join(process.argv)[:200] or str(process.pid)
        yield {"ph": "M", "pid": process.pid, "tid": 0, "name": "process_name", "args": {"name": name}}
    for thread in profile.trace.threads:
        yield from _thread(profile, thread)
    if profile.devices is not None:
        yield from perfetto_gpu.events(profile.devices)


def _thread(profile: Profile, thread: Thread) -> Iterator[dict[str, Any]]:
    where = {"pid": profile.trace.processes[thread.process].pid, "tid": thread.tid}
    yield {"ph": "M", **where, "name": "thread_name", "args": {"name": profile.thread_name(thread)}}
    sites: tuple[Site, ...] = profile.trace.sites
    for time_ns, kind, site in _nested(thread):
        at = {**where, "ts": (time_ns - profile.trace.begin_ns) / 1000}
        if kind == BEGIN:
            entered = UNRECORDED if site == _MUTED else sites[site]
            about = {"operation": entered.operation, "class": entered.time_class, "phase": entered.phase}
            args = {name: value for name, value in about.items() if value}
            yield {"ph": "B", **at, "name": entered.name, "cat": entered.operation or "scope", "args": args}
        elif kind == END:
            yield {"ph": "E", **at}
        elif kind == STEP:
            yield {"ph": "i", **at, "s": "t", "name": "step"}


def _nested(thread: Thread) -> Iterator[tuple[int, int, int]]:
    """Time, kind and site of events in which every end is of the innermost begin, as viewers take it, and each begin
    has one. What stands on another lane's stack (a task of asyncio that others have their turn before) is left, and
    begun again; so is what lies above a site that is left out of order. Otherwise as `scope/reference.py`. Blocks of
    steps that are muted are entered and left like a site: without, their time looks like that of what is around them.
    """
    stacks: dict[int, list[int]] = {0: []}
    lane, time_ns = 0, 0
    columns: Iterable[tuple[int, int, int]] = zip(
        thread.time_ns.tolist(), thread.kind.tolist(), thread.site.tolist(), strict=True
    )
    for time_ns, kind, site in columns:
        stack = stacks[lane]
        if kind == BLOCK:
            if bool(site) == (_MUTED in stack):  # two muted blocks in a row are one
                continue
            kind, site = (BEGIN if site else END), _MUTED
        if kind == BEGIN:
            stack.append(site)
            yield time_ns, BEGIN, site
        elif kind == END and site in stack:
            place = len(stack) - 1 - stack[::-1].index(site)
            yield from ((time_ns, END, left) for left in reversed(stack[place:]))
            del stack[place]
            yield from ((time_ns, BEGIN, again) for again in stack[place:])
        elif kind == LANE:
            if lane:
                yield from ((time_ns, END, left) for left in reversed(stack))
            lane = site
            if lane:
                yield from ((time_ns, BEGIN, again) for again in stacks.setdefault(lane, []))
        elif kind == STEP:
            yield time_ns, STEP, site
    yield from ((time_ns, END, left) for left in stacks[lane])
    yield from ((time_ns, END, left) for left in stacks[0] if lane)
