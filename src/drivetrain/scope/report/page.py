"""The report as one HTML file that needs nothing else: no network, readable from disk.

Profile -> what dominates, in words; breakdown; GPUs; time line; processes; overhead; what was not captured

Charts are drawn in the browser, by the library that the page brings (chart.py). Every number of a chart stands in a
table beside it, which needs no script.
"""

from collections import Counter, defaultdict
from html import escape

from drivetrain.scope.accelerator.launches import GAP
from drivetrain.scope.profile import Profile
from drivetrain.scope.report import bars, gpu_page, ledger, strip, transitions
from drivetrain.scope.report.amounts import others, seconds
from drivetrain.scope.report.cells import table
from drivetrain.scope.report.frame import color_of, document
from drivetrain.scope.report.shares import Share, bounds, extent, in_words, shares
from drivetrain.scope.trace.events import Trace

_NOBODY = -1
_MOST_OVERLAPS = 20


def render(profile: Profile, title: str) -> str:
    """The page."""
    found = shares(profile.breakdown())
    of_devices = [*(one.operation for one in profile.usage.operations), GAP.operation] if profile.usage else []
    colors = color_of([*(share.operation for share in found), *of_devices])
    sections = [
        ("Where the time went", _words(profile) + _shares(found, colors) + _breakdown(found, colors)),
        ("GPUs", gpu_page.render(profile.usage)),
        ("Corrected for what recording cost", bars.render({"": found}, colors)),
        ("Over time", strip.render(profile, colors)),
        ("Python calling native code", transitions.render(profile, colors)),
        ("Processes and threads", _processes(profile.trace)),
        ("What went on at the same time", _overlaps(profile)),
        ("What recording cost", ledger.render(profile)),
        ("What was not captured", _notes(profile)),
    ]
    return document(title, extent(profile), sections)


def _words(profile: Profile) -> str:
    return "".join(f"<p>{escape(text)}</p>" for text in in_words(profile))


def _shares(found: list[Share], colors: dict[str, str]) -> str:
    """The chart, and a legend of all operations that also says it in words."""
    sums: dict[str, int] = {}
    for share in found:
        sums[share.operation] = sums.get(share.operation, 0) + share.raw_ns
    busy = sum(sums.values()) or 1
    legend = "".join(
        f'<li><i style="background:{colors[name]}"></i>{escape(name)} <b>{ns / busy:.1%}</b></li>'
        for name, ns in sorted(sums.items(), key=lambda item: -item[1])
    )
    return f"{bars.of_operations(found, colors)}<ul>{legend}</ul>"


def _breakdown(found: list[Share], colors: dict[str, str]) -> str:
    busy = sum(share.raw_ns for share in found) or 1
    rows = [
        [
            f'<i style="background:{colors[share.operation]}"></i>{escape(share.operation)}',
            share.time_class,
            seconds(share.raw_ns),
            f"{share.raw_ns / busy:.1%}",
            seconds(share.corrected_ns),
            f"{seconds(share.low_ns)} to {seconds(share.high_ns)}",
        ]
        for share in found
    ]
    return table(["operation", "class of time", "raw", "share", "corrected", "between"], rows, "breakdown")


def _processes(trace: Trace) -> str:
    """The tree of processes: children below their parents, and what one became by os.exec below what it was."""
    children: dict[int, list[int]] = defaultdict(list)
    for index, origin in enumerate(trace.origins):
        children[origin].append(index)
    num_threads = Counter(thread.process for thread in trace.threads)

    def branch(parent: int) -> str:
        items = ""
        for index in children[parent]:
            name, command = trace.process_names[index], escape(" ".join(trace.processes[index].argv)[:200])
            recorded = f"{num_threads[index]} recorded thread" + "s" * (num_threads[index] != 1)
            items += f"<li><b>{name}</b>, {recorded}: <code>{command}</code>{branch(index)}</li>"
        return f'<ul class="tree">{items}</ul>' if items else ""

    return branch(_NOBODY)


def _overlaps(profile: Profile) -> str:
    """The longest, and the others together."""
    found = [o for o in profile.overlaps() if o.ns]
    rows = [
        [
            escape(", ".join(o.operations)) or "nothing",
            ", ".join(o.classes),
            seconds(o.ns),
            f"{o.ns / profile.wall_ns:.1%}",
            *bounds(o),
        ]
        for o in found[:_MOST_OVERLAPS]
    ]
    if rest := found[_MOST_OVERLAPS:]:
        ns = sum(o.ns for o in rest)
        rows.append([others(len(rest)), "", seconds(ns), f"{ns / profile.wall_ns:.1%}", "", ""])
    return table(["operations", "classes", "time", "of the wall time", "corrected", "between"], rows, "overlaps")


def _notes(profile: Profile) -> str:
    notes = [
        *profile.notes,
        *(["GPU time is not recorded; waiting for a device shows where the program waits."] * (profile.usage is None)),
        "Threads that never entered a known operation, and programs that are not Python, are not seen.",
    ]
    return "<ul>" + "".join(f"<li>{escape(note)}</li>" for note in notes) + "</ul>"
