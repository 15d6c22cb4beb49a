"""Threads of a program as torch.profiler saw them: annotations as operations, operators as native time.

`record_function("inference")`           operation "inference", Python's time
`Optimizer.step#...`, `.zero_grad#...`   operation "optimizer"
`autograd::engine::evaluate_function...` operation "backpropagation", native
any other operator that is in no other   native, in the operation around it
`ProfilerStep#N`                         a step of the program
"""

from collections.abc import Sequence

import numpy as np

from drivetrain.scope.sites import Site
from drivetrain.scope.trace.events import BEGIN, END, MARKED, STEP, Thread
from drivetrain.scope.trace.kineto_file import Event

_STEP = "ProfilerStep#"
_BACKWARD = "autograd::engine::evaluate_function"
_OPTIMIZER = ("Optimizer.step#", "Optimizer.zero_grad#")


def threads_of(events: Sequence[Event]) -> tuple[tuple[Site, ...], tuple[Thread, ...]]:
    """Sites, and all threads of a process that some span is of, in order of their first."""
    spans: dict[int, list[Event]] = {}
    for event in sorted(events, key=lambda event: (event.begin_ns, -event.end_ns)):
        if event.is_span:
            spans.setdefault(event.tid, []).append(event)
    sites: dict[Site, int] = {}
    threads = [_thread(number, tid, own, sites) for number, (tid, own) in enumerate(spans.items())]
    return tuple(sites), tuple(threads)


def _thread(number: int, tid: int, spans: Sequence[Event], sites: dict[Site, int]) -> Thread:
    found: list[tuple[int, int, int]] = []
    inside: list[tuple[int, int, bool]] = []  # of each open span its end, site, and whether it is an operator

    def close(until_ns: int | None) -> None:
        while inside and (until_ns is None or inside[-1][0] <= until_ns):
            end_ns, site, _ = inside.pop()
            found.append((end_ns, END, site))

    for event in spans:
        close(event.begin_ns)
        # Rounding may leave a span a nanosecond longer than the one around it.
        end_ns = min(event.end_ns, inside[-1][0]) if inside else event.end_ns
        site = _site(event)
        if event.name.startswith(_STEP):
            found.append((event.begin_ns, STEP, 0))
        elif site.operation or not any(is_operator for *_, is_operator in inside):
            place = sites.setdefault(site, len(sites))
            found.append((event.begin_ns, BEGIN, place))
            inside.append((end_ns, place, event.category == "cpu_op"))
    close(None)
    columns = list(zip(*found, strict=True)) if found else [(), (), ()]
    return Thread(
        process=0,
        number=number,
        tid=tid,
        name="",
        time_ns=np.array(columns[0], np.int64),
        kind=np.array(columns[1], np.uint8),
        site=np.array(columns[2], np.int32),
        value=np.full(len(found), MARKED, np.uint16),
    )


def _site(event: Event) -> Site:
    if event.name.startswith(_OPTIMIZER):
        return Site(event.name, "optimizer", "python")
    if event.name.startswith(_BACKWARD):
        return Site(event.name, "backpropagation", "backend")
    if event.category == "user_annotation":
        return Site(event.name, event.name, "python")
    return Site(event.name, time_class="backend")
