"""How long it takes until a kernel can run: the first time, and with the kernel kept on disk.

A process of its own:   {"env"} -> {"first_s", "kept_s": [...], "making_s": [...], "loading_s"}

first     `sim.compile` with an empty cache: tracing, passes, the C++ compiler, loading
kept      `sim.compile` of the same environment, made anew, with source and kernel on disk: its fingerprint or, where
          that is faster, a trace; loading. Several times, since each is short
loading   of that, finding the kernel on disk, checking and loading it
making    what the environment's own constructor takes before that, as of gymnax's FourRooms, which reads its map
          from JAX cell by cell; in neither of the others
"""

import os
import tempfile
import time
from collections.abc import Mapping
from typing import Any

from drivetrain import sim
from drivetrain.bench.serving import NotOffered, serve
from drivetrain.core.errors import CompileError
from drivetrain.sim.api import Settings
from drivetrain.sim.engines.native.engine import load, written_for
from drivetrain.sim.gymnax import adapted
from drivetrain.sim.trace import trace

NUM_KEPT = 5
SETTINGS = Settings(num_envs=1024, num_steps=64, record=(), autoreset="same_step", num_threads=1)


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """Compile one environment, and again from what is kept."""
    sim.make(request["env"])  # imports the library
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DRIVETRAIN_CACHE"] = folder
        try:
            (_, first_s), *kept = (made_and_compiled_s(request["env"]) for _ in range(1 + NUM_KEPT))
        except CompileError as error:
            raise NotOffered(str(error)) from error
        env: Any = adapted(sim.make(request["env"]))
        written = written_for(trace(env, env.default_params, "same_step", ()), SETTINGS)
        loading_s = seconds(lambda: load(written))
    making_s, kept_s = zip(*kept, strict=True)
    return {"first_s": first_s, "kept_s": kept_s, "making_s": making_s, "loading_s": loading_s}


def made_and_compiled_s(name: str) -> tuple[float, float]:
    """How long it takes to make an environment that nobody has seen yet, and to compile it."""
    made: list[Any] = []
    making_s = seconds(lambda: made.append(sim.make(name)))
    return making_s, seconds(lambda: sim.compile(made[0], SETTINGS.num_envs, SETTINGS.num_steps, "native", record=()))


def seconds(act: Any) -> float:
    """How long it takes."""
    start_s = time.perf_counter()
    act()
    return time.perf_counter() - start_s


if __name__ == "__main__":
    serve(answer)
