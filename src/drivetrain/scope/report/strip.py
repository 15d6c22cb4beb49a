"""The time line as an overview: one strip per thread and stream, each cell an interval and what dominated it."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from drivetrain.scope.profile import Profile
from drivetrain.scope.report.amounts import brief
from drivetrain.scope.report.chart import Bar, Chart, Line, Row, unit_of_time
from drivetrain.scope.sites import CLASSES
from drivetrain.scope.timeline import Timeline

NUM_CELLS = 200
_MOST_STRIPS = 24


def render(profile: Profile, colors: dict[str, str]) -> str:
    """The chart, the busiest threads first where there are many; gaps are idle."""
    strips: list[tuple[float, str, Sequence[Bar]]] = []
    for label, line in _lines(profile):
        cells = dominant(profile, line)
        strips.append((float((cells >= 0).sum()), label, _bars(profile, line, cells, colors)))
    strips.sort(key=lambda strip: -strip[0])
    unit, per = unit_of_time(profile.wall_ns)
    drawn = Chart(
        says="What threads and streams did over time",
        rows=[Row(label=label, lines=[Line(bars=bars)]) for _, label, bars in strips],
        unit=unit,
        per=per,
        most_rows=_MOST_STRIPS,
        over_time=True,
    ).render()
    if not drawn:
        return "<p>Nothing was recorded.</p>"
    return f"{drawn}<p>Each of {NUM_CELLS} cells shows the operation that took most of it; empty where it was idle.</p>"


def _lines(profile: Profile) -> Iterator[tuple[str, Timeline]]:
    """What has a strip, and how it is called: threads, and streams of GPUs."""
    names = profile.trace.process_names
    for thread, line in zip(profile.trace.threads, profile.timelines, strict=True):
        yield f"{names[thread.process]} {profile.thread_name(thread)}", line
    for track, line in profile.devices.lines_of_tracks.items() if profile.devices else ():
        yield f"{names[track.process]} {track.name}", line


def dominant(profile: Profile, line: Timeline) -> NDArray[np.int64]:
    """Per cell the index of the operation with most time in it; -1 where that is idle."""
    is_idle = profile.space.class_of(line.state) == CLASSES.index("idle")
    operation = np.where(is_idle, -1, profile.space.operation_of(line.state))
    first, last = int(line.edge_ns[0]), int(line.edge_ns[-1])
    bounds = first + np.arange(NUM_CELLS + 1) * ((last - first) / NUM_CELLS)
    names, place = np.unique(np.append(operation, -1), return_inverse=True)
    found = np.roll(names, -1)  # where times are equal, idle comes last
    # Between two of these points neither the operation nor the cell changes.
    points = np.union1d(line.edge_ns, bounds)
    at = np.searchsorted(line.edge_ns, points[:-1], "right") - 1
    cell = np.searchsorted(bounds, points[:-1], "right") - 1
    which = (place[np.clip(at, 0, len(operation) - 1)] - 1) % len(found) * NUM_CELLS + np.clip(cell, 0, NUM_CELLS - 1)
    time_in = np.bincount(which, np.diff(points), len(found) * NUM_CELLS).reshape(len(found), NUM_CELLS)
    return found[time_in.argmax(axis=0)]


def _bars(profile: Profile, line: Timeline, cells: NDArray[np.int64], colors: dict[str, str]) -> list[Bar]:
    """Neighbouring cells of the same operation as one."""
    cell_ns = (int(line.edge_ns[-1]) - int(line.edge_ns[0])) / NUM_CELLS
    changes = np.flatnonzero(np.diff(cells, prepend=-2))
    ends = np.append(changes[1:], len(cells))
    return [
        Bar(start=first * cell_ns, stop=end * cell_ns, color=colors[name], says=brief(name))
        for first, end in zip(changes.tolist(), ends.tolist(), strict=True)
        if cells[first] >= 0 and (name := profile.space.operations[int(cells[first])]) in colors
    ]
