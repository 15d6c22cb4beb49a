"""Replay files: written whole or added to, read back whole or not at all.

save ──▶ writing ──▶ format ◀── reading ◀── opened ──▶ restore, or inspection.py
            │                      │
            └── frames: shared observations ──┘
"""

from drivetrain.replay.files.reading import Saved, opened
from drivetrain.replay.files.writing import Known, save

__all__ = ["Known", "Saved", "opened", "save"]
