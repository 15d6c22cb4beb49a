"""The section of the page on GPUs."""

from html import escape

from drivetrain.scope.accelerator.usage import Usage
from drivetrain.scope.report import gpu, gpu_recording
from drivetrain.scope.report.cells import table


def render(usage: Usage | None) -> str:
    """Sentences, then tables; one sentence where no GPU was used."""
    words = "".join(f"<p>{escape(text)}</p>" for text in gpu.in_words(usage))
    if usage is None or not usage.was_used:
        return words
    tables = [
        (gpu.OPERATION_HEADINGS, gpu.operation_cells(usage), "gpu"),
        (gpu.DEVICE_HEADINGS, gpu.device_cells(usage), "devices"),
        (gpu.MEANWHILE_HEADINGS, gpu.meanwhile_cells(usage), "meanwhile"),
        (gpu.CALL_HEADINGS, gpu.call_cells(usage), "calls"),
        (gpu_recording.HEADINGS, gpu_recording.cells(usage), "checks"),
    ]
    return words + "".join(
        table(headings, [[escape(cell) for cell in row] for row in rows], name)
        for headings, rows, name in tables
        if rows
    )
