"""The time line as an overview: one strip per thread and stream, each cell an interval and what dominated it."""

from collections.abc import Iterator
from html import escape

import numpy as np
from numpy.typing import NDArray

from drivetrain.scope.profile import Profile
from drivetrain.scope.report.amounts import seconds
from drivetrain.scope.sites import CLASSES
from drivetrain.scope.timeline import Timeline

NUM_CELLS = 200
_MOST_STRIPS = 24
_HEIGHT = 18


def render(profile: Profile, colors: dict[str, str]) -> str:
    """SVG, the busiest threads first where there are many; gaps are idle."""
    strips: list[tuple[float, str, NDArray[np.int64]]] = []
    for label, line in _lines(profile):
        cells = dominant(profile, line)
        strips.append((float((cells >= 0).sum()), label, cells))
    strips.sort(key=lambda strip: -strip[0])
    left_out = len(strips) - _MOST_STRIPS
    drawn = "".join(_strip(profile, *strip[1:], colors) for strip in strips[:_MOST_STRIPS])
    more = f"<p>{left_out} threads and streams with less to show are left out here.</p>" if left_out > 0 else ""
    return (
        f'<div class="strips">{drawn}</div><p class="axis"><span>0</span><span>{seconds(profile.wall_ns)}</span></p>'
        f"<p>Each of {NUM_CELLS} cells shows the operation that took most of it; empty where the thread was idle.</p>"
        f"{more}"
    )


def _lines(profile: Profile) -> Iterator[tuple[str, Timeline]]:
    """What has a strip, and how it is called: threads, and streams of GPUs."""
    for thread, line in zip(profile.trace.threads, profile.timelines, strict=True):
        yield f"{profile.process_name(thread.process)} {profile.thread_name(thread)}", line
    for track, line in profile.devices.lines_of_tracks.items() if profile.devices else ():
        yield f"{profile.process_name(track.process)} {track.name}", line


def dominant(profile: Profile, line: Timeline) -> NDArray[np.int64]:
    """Per cell the index of the operation with most time in it; -1 where that is idle."""
    per_operation = len(CLASSES) * len(profile.space.phases)
    operation = line.state // per_operation
    operation = np.where(line.state // len(profile.space.phases) % len(CLASSES) == CLASSES.index("idle"), -1, operation)
    first, last = int(line.edge_ns[0]), int(line.edge_ns[-1])
    bounds = first + np.arange(NUM_CELLS + 1) * ((last - first) / NUM_CELLS)
    num = len(profile.space.operations)
    time_in = np.zeros((num + 1, NUM_CELLS))
    for index in range(-1, num):
        spent = np.concatenate([[0], np.cumsum(np.diff(line.edge_ns) * (operation == index))])
        # Time in this operation up to a bound is linear between edges.
        time_in[index] = np.diff(np.interp(bounds, line.edge_ns, spent))
    best = time_in.argmax(axis=0)
    return np.where(best == num, -1, best)


def _strip(profile: Profile, label: str, cells: NDArray[np.int64], colors: dict[str, str]) -> str:
    changes = np.flatnonzero(np.diff(cells, prepend=-2))
    ends = np.append(changes[1:], len(cells))
    rects = "".join(
        f'<rect x="{first}" width="{end - first}" height="{_HEIGHT}" style="fill:{colors[name]}">'
        f"<title>{escape(name)}</title></rect>"
        for first, end in zip(changes.tolist(), ends.tolist(), strict=True)
        if cells[first] >= 0 and (name := profile.space.operations[int(cells[first])]) in colors
    )
    return (
        f'<figure><figcaption>{escape(label)}</figcaption><svg viewBox="0 0 {NUM_CELLS} {_HEIGHT}" '
        f'preserveAspectRatio="none" role="img" aria-label="{escape(label)} over time">{rects}</svg></figure>'
    )
