"""What every contender's process does around its simulator.

{"do": "open", "scene"}        -> {"open_s"}   makes it and takes its first steps, compilation included
{"do": "measure", "slice_s"}   -> a Slice

or {"missing": why}, or {"error": what}; see `bench/serving.py`.
"""

import gc
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from drivetrain.bench.serving import serve
from drivetrain.bench.sim.scene import Scene, from_request

Simulator = Callable[[], int]
"""Takes some steps of every environment, waits for them, and says how many steps that were altogether."""
WARM_UP_CALLS = 2


@dataclass(frozen=True, kw_only=True)
class Slice:
    """Steps of one slice of time, and what they took.

    Attributes:
        num_steps: Of all environments together.
        cpu_s: CPU time of the process and its children.
        wall_s: By the clock.
    """

    num_steps: int
    cpu_s: float
    wall_s: float


class Session:
    """The simulator that is open in this process."""

    def __init__(self, make: Callable[[Scene], Simulator]) -> None:
        """`make` opens a scene; it may raise `NotOffered`."""
        self.make = make
        self.simulator: Simulator | None = None

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out one request."""
        if request["do"] == "open":
            self.simulator = None  # the last scene's memory goes before the next one's is asked for
            gc.collect()
            start_s = time.perf_counter()
            self.simulator = self.make(from_request(request["scene"]))
            self.simulator()
            return {"open_s": time.perf_counter() - start_s}
        assert self.simulator is not None, "open a scene first"
        return asdict(measure(self.simulator, request["slice_s"]))


def measure(simulator: Simulator, slice_s: float) -> Slice:
    """Steps for a slice of time by the clock; at least one call, after a few that fill the caches."""
    for _ in range(WARM_UP_CALLS):
        simulator()
    gc.collect()
    gc.disable()
    num_steps, start_s, cpu_s = 0, time.perf_counter(), cpu_of_all_s()
    try:
        while num_steps == 0 or time.perf_counter() < start_s + slice_s:
            num_steps += simulator()
        return Slice(num_steps=num_steps, cpu_s=cpu_of_all_s() - cpu_s, wall_s=time.perf_counter() - start_s)
    finally:
        gc.enable()


def cpu_of_all_s() -> float:
    """CPU time of this process and of its children that are alive."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    ticks = 0
    for child in children:
        fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])  # utime and stime
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def serve_simulator(make: Callable[[Scene], Simulator]) -> None:
    """Be a contender's process."""
    serve(Session(make).answer)
