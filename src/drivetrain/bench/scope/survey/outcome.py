"""One recorded run of a load: how its time is shared out once it has settled.

    Load -> python -m drivetrain.cli.main profile ... -> Profile -> Outcome

Settled: the second half of the simulator's steps of the main process, or, where it takes none itself, the whole of its
window. What is compiled, allocated or warmed up has been by then.
"""

import tempfile
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from drivetrain import scope
from drivetrain.bench.scope.held_out import main_thread
from drivetrain.bench.scope.survey.loads import Load
from drivetrain.bench.scope.trial import finish
from drivetrain.bench.scope.window import FILE, Window
from drivetrain.core.errors import RunError
from drivetrain.scope.profile import Profile
from drivetrain.scope.session import CALIBRATE_EVERY
from drivetrain.scope.sites import UNRECORDED
from drivetrain.scope.trace.blocks import MUTE_ALL, mask_of_events
from drivetrain.scope.trace.events import SIMULATED, STEP, Thread

RECORDING = "recording"
RESTING = ("wait", "idle")


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """How GPUs were used, in the window of the main process, as far as they were recorded.

    Attributes:
        busy: Share of it in which something ran on some device.
        bound: In which, besides, every thread rested.
        inflation: NVML's reading over the share in which the device was busy, of the device where it is largest; None
            where there are no readings.
    """

    busy: float
    bound: float
    inflation: float | None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a run came to.

    Attributes:
        operations: Operation -> its share of the time that all threads of all processes were busy.
        classes: Class of time -> the same.
        waiting: Share of the main thread's wall time that it waited.
        us_per_step: Wall time per step of the simulators, microseconds; that of a vector environment is one, wherever
            its environments run.
        transitions: Calls from Python into native code per step, of the whole run.
        num_steps: Steps of the simulators in the settled part.
        num_processes: That recorded.
        overhead: What recording added, as a share of the busy time; NaN where it is not known.
        gpu: None where no GPU was recorded, or none was used.
    """

    operations: Mapping[str, float]
    classes: Mapping[str, float]
    waiting: float
    us_per_step: float
    transitions: float
    num_steps: int
    num_processes: int
    overhead: float
    gpu: Gpu | None = None


def run(load: Load, calibrate_every: int = CALIBRATE_EVERY) -> Outcome:
    """Run a load once under `drivetrain profile`, in an empty folder that is removed afterwards.

    Args:
        load: Which.
        calibrate_every: One of so many blocks of steps is muted; 0: none, and the overhead is not known.

    Raises:
        RunError: It failed, took too long, or simulated nothing.
    """
    with tempfile.TemporaryDirectory(prefix="drivetrain-bench-") as name:
        folder = Path(name)
        program = load.program
        profile = ["-m", "drivetrain.cli.main", "profile", "-o", RECORDING, "--calibrate-every", str(calibrate_every)]
        finish([*profile, str(program.script), *program.arguments], folder)
        return outcome(scope.load(folder / RECORDING), Window.load(folder) if (folder / FILE).exists() else None)


def outcome(profile: Profile, window: Window | None) -> Outcome:
    """Sum up a recording.

    Raises:
        RunError: The program left no window, or took no step of a simulator that hooks know.
    """
    if window is None:
        raise RunError(f"the program left no {FILE}")
    begin_ns = settled_ns(profile, window)
    steps = _steps_of_all(profile, begin_ns, window.end_ns)
    if not steps:
        raise RunError("no step of a simulator is in the recording")
    operations, classes = _busy_ns(profile, begin_ns, window.end_ns)
    busy_ns = sum(operations.values())
    return Outcome(
        operations={name: ns / busy_ns for name, ns in operations.items()},
        classes={name: ns / busy_ns for name, ns in classes.items()},
        waiting=_waiting(profile, main_thread(profile, window.pid), begin_ns, window.end_ns),
        us_per_step=(window.end_ns - begin_ns) / steps / 1e3,
        transitions=sum(sum(calls.values()) for calls in (profile.transitions_per_step() or {}).values()),
        num_steps=round(steps),
        num_processes=len({thread.process for thread in profile.trace.threads}),
        overhead=_overhead(profile),
        gpu=gpu_in(profile, window),
    )


def settled_ns(profile: Profile, window: Window) -> int:
    """When the second half of the main process's own steps begins: with the first of them, since an on-policy
    algorithm learns between two rollouts and that belongs to the first half.
    """
    threads = [_times(t) for t in profile.trace.threads if profile.trace.processes[t.process].pid == window.pid]
    times = np.sort(np.concatenate(threads))
    own = times[(times >= window.begin_ns) & (times <= window.end_ns)]
    return int(own[len(own) // 2]) if len(own) > 1 else window.begin_ns


def _times(thread: Thread) -> NDArray[np.int64]:
    """When a thread's recorded steps of simulators ended, ascending."""
    return thread.time_ns[(thread.kind == STEP) & (thread.value == SIMULATED)]


def _steps_of_all(profile: Profile, begin_ns: int, end_ns: int) -> float:
    """Steps of simulators in a window, as `Profile.num_steps` counts them: without those of a vector environment's
    members, which are the same.
    """
    sums = {False: 0.0, True: 0.0}
    for index, thread in enumerate(profile.trace.threads):
        sums[profile.is_member(thread)] += _steps(profile, index, begin_ns, end_ns)
    return sums[False] or sums[True]


def _steps(profile: Profile, index: int, begin_ns: int, end_ns: int) -> float:
    """A thread's steps in a window: those recorded, over the share of the window in which steps were: not in blocks
    that are muted as a whole, which are chosen at random.
    """
    thread = profile.trace.threads[index]
    times, mask = _times(thread), mask_of_events(thread)
    recorded = int(((times > begin_ns) & (times <= end_ns)).sum())
    if mask is None or not recorded:
        return float(recorded)
    passed = np.diff(np.clip(thread.time_ns, begin_ns, end_ns))
    muted_ns = int(passed[mask[:-1] & MUTE_ALL == MUTE_ALL].sum())
    return recorded / (1 - muted_ns / (end_ns - begin_ns))


def _busy_ns(profile: Profile, begin_ns: int, end_ns: int) -> tuple[dict[str, float], dict[str, float]]:
    """Time by operation and by class in a window, over all threads, without waiting and what was left unrecorded.

    A process counts from its first operation on.
    """
    operations: dict[str, float] = defaultdict(float)
    classes: dict[str, float] = defaultdict(float)
    starts = [profile.first_operation_ns(process) for process in range(len(profile.trace.processes))]
    for thread, line in zip(profile.trace.threads, profile.timelines, strict=True):
        started_ns = max(begin_ns, starts[thread.process])
        totals = line.totals(profile.space.size, (started_ns, max(end_ns, started_ns)))
        for code in np.flatnonzero(totals).tolist():
            state = profile.space.state(code)
            if state.time_class not in (*RESTING, UNRECORDED.time_class):
                operations[state.operation] += float(totals[code])
                classes[state.time_class] += float(totals[code])
    return dict(operations), dict(classes)


def _waiting(profile: Profile, index: int, begin_ns: int, end_ns: int) -> float:
    """Share of a window that a thread waited."""
    totals = profile.timelines[index].totals(profile.space.size, (begin_ns, end_ns))
    codes = [code for code in np.flatnonzero(totals).tolist() if profile.space.state(code).time_class == "wait"]
    return float(totals[codes].sum() / (end_ns - begin_ns))


def gpu_in(profile: Profile, window: Window) -> Gpu | None:
    """How GPUs were used in a window, as far as they were recorded: blocks of steps without it are left out."""
    usage, devices = profile.usage, profile.devices
    if usage is None or devices is None or not usage.was_used:
        return None
    begin_ns, end_ns = devices.clock(np.array([window.begin_ns, window.end_ns])).tolist()
    recorded_ns = max(end_ns - begin_ns, 1)
    readings = [one.nvml.inflation for one in usage.devices if one.nvml is not None]
    return Gpu(
        busy=devices.recorded.within(begin_ns, end_ns).covered_ns / recorded_ns,
        bound=usage.bound_ns / recorded_ns,  # what waits for devices does so in the window
        inflation=max((one for one in readings if one is not None), default=None),
    )


def _overhead(profile: Profile) -> float:
    """What recording added over the time that threads were busy, of the whole run."""
    if profile.wall is None:
        return float("nan")
    busy_ns = sum(row.raw_ns for row in profile.breakdown() if row.time_class not in RESTING)
    return profile.overhead()["total_ns"] / busy_ns
