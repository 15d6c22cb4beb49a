"""Times short calls in blocks: long enough for the clock, preparations and garbage kept outside."""

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

BLOCK_NS = 200_000  # a block of calls should last so long
MOST_CALLS = 64
LEAST_BLOCKS = 3


@dataclass(frozen=True)
class Operation:
    """One kind of call: `prepare(n)` makes the arguments of the next n <= most_calls, off the clock."""

    prepare: Callable[[int], Sequence[tuple[Any, ...]]]
    call: Callable[..., object]
    most_calls: int = MOST_CALLS


@dataclass(frozen=True, kw_only=True)
class Timing:
    """One slice of time spent on one operation.

    Attributes:
        median_us: Wall time of a call, median over the blocks.
        smallest_us: That of the fastest block.
        cpu_us: CPU time of the whole process per call, mean over all blocks.
        num_calls: Calls that were timed.
    """

    median_us: float
    smallest_us: float
    cpu_us: float
    num_calls: int


def block_size(operation: Operation) -> int:
    """How many calls make a block of BLOCK_NS, by the fastest of some warm ones."""
    fastest = min(time_block(operation, 1)[0] for _ in range(5))
    return max(1, min(operation.most_calls, round(BLOCK_NS / max(fastest, 1.0))))


def time_slice(operation: Operation, *, calls: int, slice_s: float) -> Timing:
    """Time blocks of `calls` calls until `slice_s` has gone by, preparations included.

    Garbage is collected before, not meanwhile, as in `timeit`.
    """
    gc.collect()
    gc.disable()
    try:
        time_block(operation, min(calls, 8))  # the caches belonged to somebody else until now
        end = time.perf_counter() + slice_s
        blocks: list[tuple[float, float]] = []
        while len(blocks) < LEAST_BLOCKS or time.perf_counter() < end:
            blocks.append(time_block(operation, calls))
    finally:
        gc.enable()
    return Timing(
        median_us=statistics.median(wall for wall, _ in blocks) / 1e3,
        smallest_us=min(wall for wall, _ in blocks) / 1e3,
        cpu_us=statistics.fmean(cpu for _, cpu in blocks) / 1e3,
        num_calls=calls * len(blocks),
    )


def time_block(operation: Operation, calls: int) -> tuple[float, float]:
    """Wall and CPU nanoseconds per call of one block."""
    arguments = operation.prepare(calls)
    call = operation.call
    cpu = time.process_time_ns()
    start = time.perf_counter_ns()
    for each in arguments:
        call(*each)
    wall = time.perf_counter_ns() - start
    return wall / calls, (time.process_time_ns() - cpu) / calls
