"""A small program recorded on a GPU, packed: what tests without a GPU read ever after, and what it says of CUPTI.

programs/training.py
    -> FOLDER/recording/{session.json, trace.parquet, gpu.parquet}, to be committed as tests/scope/recorded_on_gpu
    -> what CUPTI's documentation leaves open, as numbers
"""

import shutil
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from drivetrain import scope
from drivetrain.bench.gpu.plan import Found, Part
from drivetrain.bench.gpu.recorded import PROGRAMS, record
from drivetrain.bench.process import lacking
from drivetrain.bench.report import Case, Target
from drivetrain.scope.profile import Profile

NAME = "recording"
NUM_STEPS = 40
LEAST = "least"
_OPERATIONS = ("unattributed", "backpropagation")
_CLOCKS_NS = 50_000
"""How far CUPTI's times on devices and threads may be apart: it interpolates between their clocks."""


def run(folder: Path, limit_s: float) -> Found:
    """Record, pack, and look at it.

    Raises:
        RunError: The program failed, or the GPU was not recorded.
    """
    with tempfile.TemporaryDirectory(prefix="drivetrain-bench-") as name:
        made = Path(name)
        record(made, PROGRAMS / "training.py", str(NUM_STEPS), calibrate_every=0, limit_s=limit_s)
        scope.pack(made / "recording")
        shutil.rmtree(folder / NAME, ignore_errors=True)
        shutil.copytree(made / "recording", folder / NAME)
    return Found(cases=cases(scope.load(folder / NAME)))


def cases(profile: Profile) -> list[Case]:
    """Shares of what was recorded of which something holds, each beside the least that it has to be."""
    return [
        Case(
            name=f"{NAME}: {name}",
            unit="share",
            better="higher",
            group="What a recorded program says of CUPTI",
            samples={"ours": [value]},
            references={LEAST: [least]},
            targets=[Target(against=LEAST, aim=1.0)],
            notes=[f"{name.capitalize()}: {note}."],
        )
        for name, value, least, note in shares(profile)
    ]


def shares(profile: Profile) -> list[tuple[str, float, float, str]]:
    """What is counted, the share, the least that it has to be, and of what.

    Args:
        profile: Of a recording with a GPU in which something ran.
    """
    devices, usage = profile.devices, profile.usage
    assert devices is not None  # it was recorded
    assert usage is not None
    activity, api, trace = devices.gpu.activity, devices.calls.api, devices.trace
    known = devices.launches.call >= 0
    call = devices.launches.call[known]
    delay_ns = activity.begin_ns[known] - api.begin_ns[call]
    inside = (activity.begin_ns >= trace.begin_ns) & (activity.end_ns <= trace.end_ns)
    named = {(thread.process, thread.tid) for thread in trace.threads if thread.num_events}
    of_named = np.array([(int(api.process[row]), int(api.tid[row])) in named for row in call.tolist()], np.bool_)
    ns = {name: sum(one.ns for one in usage.operations if one.operation == name) for name in _OPERATIONS}
    return [
        ("with the call that launched it", _mean(known), 0.99, "of activities, by one correlation number"),
        ("not begun before that call", _mean(delay_ns >= -_CLOCKS_NS), 0.99, "of those, to 50 µs"),
        ("inside of the session's time", _mean(inside), 1.0, "of activities"),
        (
            "with an external id",
            _mean(api.external[call[of_named]] > 0),
            0.5,
            "of launches by threads with sites",
        ),
        ("attributed", 1 - ns["unattributed"] / usage.gpu_ns, 0.99, "of GPU time"),
        (
            "of backpropagation",
            ns["backpropagation"] / usage.gpu_ns,
            0.01,
            "of GPU time; autograd launches it",
        ),
    ]


def _mean(found: NDArray[np.bool_]) -> float:
    """Nothing to count holds nothing."""
    return float(found.mean()) if len(found) else 0.0


PART = Part(name=NAME, most_s=80, run=run, missing=lambda: lacking("torch", "pyarrow"))
