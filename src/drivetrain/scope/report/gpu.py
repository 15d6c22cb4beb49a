"""What reports tell of GPUs: sentences, and the cells of tables, for the terminal and the page alike."""

from drivetrain.core.words import size
from drivetrain.scope.accelerator.recording import CallCost
from drivetrain.scope.accelerator.usage import DeviceUse, Usage
from drivetrain.scope.report import gpu_recording
from drivetrain.scope.report.amounts import others, part, seconds

NOT_RECORDED = "No GPU was recorded."
NOT_USED = "No GPU was used."
ONLY_CALLED = "CUDA was called, and nothing is known to have run on a GPU."
_MOST_CALLS = 12
_MOST_COMBINATIONS = 8

OPERATION_HEADINGS = ["launched by", "class", "GPU time", "share", "activities"]
DEVICE_HEADINGS = [
    "GPU",
    "busy",
    "of the time",
    "kernels",
    "copies",
    "NVML",
    "busy meanwhile",
    "inflation",
    "memory",
]
MEANWHILE_HEADINGS = ["what threads did while a GPU was busy", "time", "of that"]
CALL_HEADINGS = ["call", "class", "calls", "time", "each", "of that by recording"]


def in_words(usage: Usage | None) -> list[str]:
    """How busy it was, for whom, who waited, and how far NVML is from that; one plain sentence where none was used."""
    if usage is None:
        return [NOT_RECORDED]
    if not usage.was_used:
        return [ONLY_CALLED if usage.calls else NOT_USED]
    text = [
        _busy(usage),
        *gpu_recording.of_what(usage),
        *(_inflation(one) for one in usage.devices if one.nvml and one.nvml.inflation),
    ]
    if launching := _launching(usage):
        text.append(launching)
    text.append(_recording(usage))
    text += [gpu_recording.in_words(usage, one) for one in usage.recording.checks]
    return text


def _busy(usage: Usage) -> str:
    one = len(usage.devices) == 1
    which = "The GPU was" if one else f"Some of {len(usage.devices)} GPUs was"
    busy = f"{which} busy {part(usage.busy_ns, usage.recorded_ns)} of the time ({seconds(usage.busy_ns)})"
    by: dict[str, int] = {}
    for found in usage.operations:
        by[found.operation] = by.get(found.operation, 0) + found.ns
    if usage.gpu_ns:
        first = max(by, key=lambda name: by[name])
        whom = "calls that were not recorded" if first == "unattributed" else first
        busy += f"; {part(by[first], usage.gpu_ns)} of what ran was launched by {whom}"
    if not usage.bound_ns:
        return f"{busy}; at no time did the whole program wait for it."
    bound = f"{part(usage.bound_ns, usage.recorded_ns)} of the time ({seconds(usage.bound_ns)})"
    return f"{busy}. The program was bound by it {bound}: all threads waited while it worked."


def _inflation(use: DeviceUse) -> str:
    assert use.nvml is not None
    assert use.nvml.busy_share is not None
    return (
        f"NVML read {use.nvml.utilization:.0%} for GPU {use.device} where something ran {use.nvml.busy_share:.1%} of "
        f"the time, {use.nvml.inflation:.3g} times as much: it counts periods in which anything ran at all."
    )


def _launching(usage: Usage) -> str:
    """Launch overhead and synchronisation."""
    parts: list[str] = []
    api_ns, num_api = time_of_calls(usage, "accelerator_api")
    sync_ns, num_sync = time_of_calls(usage, "accelerator_sync")
    if num_api:
        parts.append(f"launching and copying took {seconds(api_ns)} in {num_api} call{'s' * (num_api != 1)}")
    if num_sync:
        parts.append(f"waiting for it {seconds(sync_ns)} in {num_sync}")
    if not parts:
        return ""
    text = ", ".join(parts)
    if usage.median_delay_ns is not None:
        text += f"; half of what was launched began within {seconds(usage.median_delay_ns)} of its call"
    return f"{text[0].upper()}{text[1:]}."


def time_of_calls(usage: Usage, time_class: str) -> tuple[int, int]:
    """From begin to end of all calls of a class, in nanoseconds, and how many there were."""
    mine = [one for one in usage.calls if one.time_class == time_class]
    return sum(one.ns for one in mine), sum(one.num for one in mine)


def _recording(usage: Usage) -> str:
    found = usage.recording
    if not found.num_records:
        return f"{usage.source} recorded nothing of its own overhead: what it added to calls is not known."
    return (
        f"Recording the GPU took {seconds(found.on_threads_ns)} in the program's threads and "
        f"{seconds(found.elsewhere_ns)} elsewhere, by {found.source}."
    )


def operation_cells(usage: Usage) -> list[list[str]]:
    """GPU time by launching operation."""
    return [
        [one.operation, one.time_class, seconds(one.ns), part(one.ns, usage.gpu_ns), str(one.num)]
        for one in usage.operations
    ]


def device_cells(usage: Usage) -> list[list[str]]:
    """Each device, with what NVML says of it."""
    return [
        [
            str(one.device),
            seconds(one.busy_ns),
            part(one.busy_ns, usage.recorded_ns),
            f"{seconds(one.kernel_ns)} in {one.num_kernels}",
            f"{seconds(one.copy_ns)} in {one.num_copies}, {size(one.copied_nbytes)}",
            *_nvml_cells(one),
        ]
        for one in usage.devices
    ]


def _nvml_cells(use: DeviceUse) -> list[str]:
    if use.nvml is None:
        return ["no readings", "", "", ""]
    share = "" if use.nvml.busy_share is None else f"{use.nvml.busy_share:.1%}"
    inflation = "" if use.nvml.inflation is None else f"{use.nvml.inflation:.3g}"
    return [f"{use.nvml.utilization:.0%}", share, inflation, size(use.nvml.most_memory_nbytes)]


def meanwhile_cells(usage: Usage) -> list[list[str]]:
    """What threads did while something ran; the shortest together."""
    found = [(", ".join(classes) or "nothing", ns) for classes, ns in usage.meanwhile.items()]
    if rest := found[_MOST_COMBINATIONS:]:
        found[_MOST_COMBINATIONS:] = [(others(len(rest)), sum(ns for _, ns in rest))]
    return [[name, seconds(ns), part(ns, usage.busy_ns)] for name, ns in found]


def call_cells(usage: Usage) -> list[list[str]]:
    """The calls that took longest, and the others together."""
    found = list(usage.calls)
    if rest := found[_MOST_CALLS:]:
        num, ns, overhead_ns = (sum(amounts) for amounts in zip(*(one[2:] for one in rest), strict=True))
        found[_MOST_CALLS:] = [CallCost(others(len(rest)), "", num, ns, overhead_ns)]
    return [
        [
            one.name,
            one.time_class,
            str(one.num),
            seconds(one.ns),
            seconds(one.ns / one.num),
            seconds(one.overhead_per_call_ns) if one.overhead_ns else "",
        ]
        for one in found
    ]
