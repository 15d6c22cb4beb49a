"""What entering and leaving a context manager costs while it records, beside one in C that does nothing.

Loops of both in turn, in one process; nanoseconds per turn of each loop, written as JSON.
"""

import gc
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from drivetrain import scope
from drivetrain.scope import _native

NUM_TURNS = 2_000
NUM_ROUNDS = 1_000


def main(file: str) -> None:
    """Measure, and write {"span": [ns], "nothing": [ns]}."""
    found: dict[str, list[float]] = {"span": [], "nothing": []}
    span, nothing = scope.operation("empty"), _native.Nothing()
    with tempfile.TemporaryDirectory() as folder, scope.session(f"{folder}/run.scope", calibrate_every=0):
        gc.disable()
        _nanoseconds(span)  # until its clock knows the counter's rate
        for _ in range(NUM_ROUNDS):
            found["span"].append(_nanoseconds(span))
            found["nothing"].append(_nanoseconds(nothing))
    Path(file).write_text(json.dumps(found))


def _nanoseconds(what: Any) -> float:
    begin = time.perf_counter_ns()
    for _ in range(NUM_TURNS):
        with what:
            pass
    return (time.perf_counter_ns() - begin) / NUM_TURNS


if __name__ == "__main__":
    main(sys.argv[1])
