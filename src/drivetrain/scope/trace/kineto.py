"""Traces of torch.profiler (Kineto), for programs in which somebody else owns CUPTI.

    FILE -> Export -> GpuTrace, for a session of ours (`into`)
                   -> GpuTrace and threads from operators and annotations, alone (`trace_of`)

Kineto's times are of the wall clock; sessions note how far that is from the monotonic one.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from drivetrain.core.errors import InvalidInput
from drivetrain.scope.format import WALL_CLOCK
from drivetrain.scope.notes import GPU_REFUSED
from drivetrain.scope.trace.events import Process, Trace
from drivetrain.scope.trace.kineto_file import Export, read
from drivetrain.scope.trace.kineto_gpu import gpu_of
from drivetrain.scope.trace.kineto_threads import threads_of


def into(trace: Trace, files: Sequence[Path]) -> Trace:
    """The trace of a session with what Kineto recorded of GPUs meanwhile, one file per process.

    Raises:
        FileFormatError: See kineto_file.read.
        InvalidInput: The session has records of its own, does not know the wall clock, or none of the process.
    """
    if trace.gpu is not None and len(trace.gpu.activity):
        raise InvalidInput("--kineto: expected a session without records of GPUs, got one with its own; leave it out")
    if WALL_CLOCK not in trace.about:
        raise InvalidInput(f"--kineto: expected a session whose session.json has {WALL_CLOCK}; record it again")
    exports: list[tuple[Export, int]] = []
    for file in files:
        export = read(file).shifted(-int(trace.about[WALL_CLOCK]))
        process = _process_of(trace, export)
        if process is None:
            of = ", ".join(str(process.pid) for process in trace.processes)
            raise InvalidInput(f"--kineto: expected a trace of the session's processes {of}, {file} is of {export.pid}")
        exports.append((export, process))
    known = {(thread.process, thread.tid) for thread in trace.threads}
    found = gpu_of(exports, known)
    given = {process for _, process in exports}
    if len(given) < len(trace.processes):
        names = ", ".join(trace.process_names[process] for process in sorted(given))
        found = replace(found, notes=(*found.notes, f"What GPUs did is known of process {names} only, by --kineto."))
    if trace.gpu is not None:  # what NVML said while the session recorded nothing else of them
        found = replace(found, readings=trace.gpu.readings)
    return replace(trace, gpu=found, notes=tuple(note for note in trace.notes if not note.startswith(GPU_REFUSED)))


def _process_of(trace: Trace, export: Export) -> int | None:
    """Of those that had its number one after another, as by os.exec, the last that had begun by then; None where none
    had it.
    """
    mine = [number for number, process in enumerate(trace.processes) if process.pid == export.pid]
    first_ns = min((event.begin_ns for event in export.events), default=trace.end_ns)
    begun = [number for number in mine if trace.began_ns[number] <= first_ns] or mine[:1]
    return max(begun, key=lambda number: trace.began_ns[number], default=None)


def trace_of(file: Path) -> Trace:
    """The trace of a file alone; times are counted from its first event.

    Raises:
        FileFormatError: See kineto_file.read.
    """
    export = read(file)
    begin_ns = min((event.begin_ns for event in export.events), default=0)
    export = export.shifted(-begin_ns)
    sites, threads = threads_of(export.events)
    known = {(0, thread.tid) for thread in threads}
    return Trace(
        begin_ns=0,
        end_ns=max((event.end_ns for event in export.events), default=0),
        sites=sites,
        processes=(Process(pid=export.pid, start=0, parent=0, argv=()),),
        threads=threads,
        about={},
        notes=("Threads are known by operators and annotations only; what torch.profiler itself cost is not known.",),
        gpu=gpu_of([(export, 0)], known),
    )
