"""What was recorded of GPUs, in memory: activities on devices, calls of the driver's interfaces, readings of NVML.

    GpuApi (process, correlation) ---launched---> GpuActivity (process, correlation)

Rows may be in any order. Times are nanoseconds of the machine's monotonic clock, like those of all events. Columns are
some of those of CUPTI's activity records (NVIDIA's CUPTI documentation, CUpti_Activity*).
"""

from dataclasses import dataclass, fields, replace
from typing import Any, Self, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

KERNEL, COPY, SET, GRAPH = 1, 2, 3, 4
"""Kinds of activities: a kernel, a copy, memory set to a value, a CUDA graph recorded as a whole."""
RUNTIME, DRIVER, SYNC, OVERHEAD = 1, 2, 3, 4
"""Kinds of calls: of the runtime's or the driver's interface, waiting for a device, what recording itself took."""
STREAM_WAIT_EVENT = 2
"""The kind of synchronisation that no thread waits in (CUpti_ActivitySynchronizationType): a stream does."""
BUFFER_FLUSH, INSTRUMENTATION, RESOURCE, MODULE_LOADING, LAZY_LOADING, COMMAND_BUFFER_FULL = 1, 2, 3, 4, 5, 6
BUFFER_REQUEST, UVM_INIT = 7, 8
"""Kinds of overhead: CUpti_ActivityOverheadKind without its low 16 bits, so that the driver's compiler is 0."""
SWITCHED_OFF, SWITCHED_ON = 32, 33
"""Not CUPTI's: a thread switched the recording off, or on again (kSwitchedOff in scope/cupti/gpu_record.hpp)."""
OWN_OVERHEAD = (BUFFER_FLUSH, INSTRUMENTATION, RESOURCE, BUFFER_REQUEST, UVM_INIT, SWITCHED_OFF, SWITCHED_ON)
"""Those that only recording causes; the driver takes the others without CUPTI too."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Columns:
    """Arrays of equal length, one row for each thing that was recorded."""

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    @classmethod
    def dtypes(cls) -> dict[str, Any]:
        """Column -> the type of its numbers, as it is annotated."""
        hints = get_type_hints(cls)
        # NDArray[t] is ndarray[shape, dtype[t]] until NumPy 2.4, and an alias with the argument t since 2.5.
        last = {field.name: get_args(hints[field.name])[-1] for field in fields(cls)}
        return {name: (get_args(one) or (one,))[0] for name, one in last.items()}

    @classmethod
    def of(cls, **columns: Any) -> Self:
        """From anything that NumPy makes arrays of; columns that are left out are 0."""
        size = max((len(column) for column in columns.values()), default=0)
        types = cls.dtypes()
        zeros = {name: np.zeros(size, dtype) for name, dtype in types.items()}
        return cls(**{**zeros, **{name: np.asarray(column, types.get(name)) for name, column in columns.items()}})

    def where(self, wanted: NDArray[Any]) -> Self:
        """Some of the rows, or all in another order."""
        return replace(self, **{field.name: getattr(self, field.name)[wanted] for field in fields(self)})


@dataclass(frozen=True, kw_only=True, eq=False)
class GpuActivity(Columns):
    """What ran on devices."""

    begin_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    kind: NDArray[np.uint8]
    """KERNEL, COPY, SET or GRAPH."""
    device: NDArray[np.int16]
    context: NDArray[np.int32]
    stream: NDArray[np.int32]
    correlation: NDArray[np.uint32]
    """That of the call which launched it; all nodes of a graph have that of the graph's launch."""
    process: NDArray[np.int32]
    """Index into the trace's processes."""
    name: NDArray[np.int32]
    """Index into `GpuTrace.names`."""
    nbytes: NDArray[np.int64]
    """Copied or set; 0 for kernels."""
    copy_kind: NDArray[np.uint8]
    """From where to where (CUpti_ActivityMemcpyKind: 1 to the device, 2 from it, 8 on it, 10 between two); else 0."""
    graph: NDArray[np.uint32]
    """The CUDA graph that it is or belongs to; 0: none."""


@dataclass(frozen=True, kw_only=True, eq=False)
class GpuApi(Columns):
    """What threads called, and what recording them took."""

    begin_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    kind: NDArray[np.uint8]
    """RUNTIME, DRIVER, SYNC or OVERHEAD."""
    tid: NDArray[np.int64]
    """The operating system's number of the thread; 0 where it is not known (SYNC has it by its correlation then)."""
    correlation: NDArray[np.uint32]
    external: NDArray[np.uint64]
    """1 + the index into the trace's sites of what the thread was in when it called; 0: not known."""
    name: NDArray[np.int32]
    """Index into `GpuTrace.names`."""
    detail: NDArray[np.uint8]
    """SYNC: CUpti_ActivitySynchronizationType; OVERHEAD: its kind, as above; else 0."""
    process: NDArray[np.int32]


@dataclass(frozen=True, kw_only=True, eq=False)
class GpuReading(Columns):
    """Samples of NVML."""

    time_ns: NDArray[np.int64]
    device: NDArray[np.int16]
    utilization: NDArray[np.uint8]
    """Percent of the time before the sample during which some kernel ran, as NVML counts it."""
    memory_nbytes: NDArray[np.int64]
    """In use on the device, by all programs."""


CUPTI = "CUPTI"
"""Who records GPUs in sessions of ours."""


@dataclass(frozen=True, kw_only=True, eq=False)
class GpuTrace:
    """All of that of a session. Without any activity, no GPU was used."""

    activity: GpuActivity
    api: GpuApi
    readings: GpuReading
    names: tuple[str, ...]
    """Of kernels, of calls, of kinds of overhead."""
    notes: tuple[str, ...] = ()
    """What was not captured, and why, in sentences."""
    source: str = CUPTI
    """Who recorded it, in a word or two."""
