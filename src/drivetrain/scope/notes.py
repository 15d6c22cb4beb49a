"""Sentences on what a session does not hold: a file per cause, and all of them at the end of every report.

FOLDER/CAUSE.not-captured -> Trace.notes
"""

import contextlib
from pathlib import Path

PATTERN = "*.not-captured"
GPU_REFUSED = "GPU work was not recorded"
"""How a sentence begins that says why what GPUs did is not known (scope/cupti/layer.cpp writes them, too)."""


def leave_note(folder: Path, cause: str, sentence: str) -> None:
    """Say what is missing; the latest sentence of a cause holds.

    Never raises, for no program may fail of a note: where the disk refuses, it is not said.

    Args:
        folder: The session's.
        cause: Tells it from other notes; part of a file's name.
        sentence: In words for whoever reads the report.
    """
    with contextlib.suppress(OSError):
        (folder / PATTERN.replace("*", cause)).write_text(f"{sentence}\n", encoding="utf-8", errors="backslashreplace")


def take_note_back(folder: Path, cause: str) -> None:
    """What was said of this cause is no longer so. Never raises."""
    with contextlib.suppress(OSError):
        (folder / PATTERN.replace("*", cause)).unlink(missing_ok=True)


def read_notes(folder: Path) -> list[str]:
    """All that was said, by the names of their causes; what several processes say alike ("Process 71: ...") once."""
    alike: dict[str, list[str]] = {}
    for file in sorted(folder.glob(PATTERN)):
        text = file.read_text(encoding="utf-8", errors="replace").strip()
        what = text.removeprefix("Process ").lstrip("0123456789") if text.startswith("Process ") else text
        alike.setdefault(what, []).append(text)
    return [_together(what, texts) for what, texts in alike.items()]


def _together(what: str, texts: list[str]) -> str:
    others = ", ".join(text.removesuffix(what).removeprefix("Process ") for text in texts[1:])
    return f"{texts[0]} (likewise {others})" if others else texts[0]
