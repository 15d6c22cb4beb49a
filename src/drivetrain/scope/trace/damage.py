"""What no recording says, in whatever form it is kept: found before anything is made of it."""

import math
from collections.abc import Iterator
from dataclasses import astuple
from typing import Any, cast

import numpy as np

from drivetrain.scope.sites import CLASSES
from drivetrain.scope.trace.events import BEGIN, COUNT, END, Process, Thread, Trace
from drivetrain.scope.trace.files import LATEST_NS


def found_in(trace: Trace) -> str | None:
    """What is expected of a trace, and what it has instead; None where nothing is wrong with it."""
    return next(_all_in(trace), None)


def _all_in(trace: Trace) -> Iterator[str]:
    if not 0 <= trace.begin_ns <= trace.end_ns < LATEST_NS:
        yield f"an end after a begin, got {trace.begin_ns} to {trace.end_ns} ns"
    for name, multiple in _items(trace.about.get("prior", {})):
        if multiple is not None and not _is_pair(multiple):
            yield f"two numbers for what {name} was expected to cost, got {multiple!r}"
    if not _is_count(dropped := trace.about.get("num_dropped", 0)):
        yield f"a number of events that found no room, got {dropped!r}"
    if not all(type(note) is str for note in trace.notes):
        yield f"notes that are texts, got {list(trace.notes)}"
    for site in trace.sites:
        if not all(type(text) is str for text in astuple(site)) or site.time_class not in ("", *CLASSES):
            yield f"sites of texts, and of a class of {', '.join(CLASSES)}, got {site}"
    for process in trace.processes:
        yield from _in_process(process)
    for thread in trace.threads:
        yield from _in_thread(trace, thread)


def _in_process(process: Process) -> Iterator[str]:
    whole = (process.pid, process.start, process.parent)
    if not all(map(_is_count, whole)):
        yield f"processes by whole numbers, got pid, start and parent {whole}"
    if not all(type(word) is str for word in process.argv):
        yield f"arguments of process {process.pid} that are texts, got {list(process.argv)}"
    for name, pair in _items(process.alone_ns):
        if not _is_pair(pair):
            yield f"two numbers for what {name} costs in process {process.pid}, got {pair!r}"


def _in_thread(trace: Trace, thread: Thread) -> Iterator[str]:
    where = f"in thread {thread.number}"
    if type(thread.process) is not int or not 0 <= thread.process < len(trace.processes):
        yield f"one of {len(trace.processes)} processes for thread {thread.number}, got number {thread.process}"
    numbers = (thread.number, thread.tid, thread.num_dropped)
    if not all(map(_is_count, numbers)) or type(thread.name) is not str:
        yield f"whole numbers and a name {where}, got {numbers} and {thread.name!r}"
    if len({len(column) for column in (thread.time_ns, thread.kind, thread.site, thread.value)}) > 1:
        yield f"as many times as events {where}, got others"
        return
    if not thread.num_events:
        return
    is_span = (thread.kind == BEGIN) | (thread.kind == END)
    if is_span.any() and not 0 <= thread.site[is_span].min() <= thread.site[is_span].max() < len(trace.sites):
        yield f"{len(trace.sites)} sites {where}, got others"
    if not BEGIN <= thread.kind.min() <= thread.kind.max() <= COUNT:
        yield f"kinds of events from {BEGIN} to {COUNT} {where}, got {thread.kind.min()} to {thread.kind.max()}"
    first, last = int(thread.time_ns[0]), int(thread.time_ns[-1])
    if not trace.begin_ns <= first <= last <= trace.end_ns or (np.diff(thread.time_ns) < 0).any():
        yield f"events in order of time {where}, got some that are earlier than those before them"


def _items(mapping: Any) -> Iterator[tuple[Any, Any]]:
    if not isinstance(mapping, dict):
        yield "everything", [mapping]  # what is None may stand for nothing known of one
        return
    yield from cast("dict[Any, Any]", mapping).items()


def _is_count(number: Any) -> bool:
    return type(number) is int and number >= 0


def _is_pair(numbers: Any) -> bool:
    """Of finite numbers that a float holds."""
    if not isinstance(numbers, list | tuple):
        return False
    pair = cast("list[Any]", numbers)
    return len(pair) == 2 and all(type(one) in (int, float) and abs(one) < 1e15 and math.isfinite(one) for one in pair)
