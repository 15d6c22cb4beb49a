"""Replay files: written whole or added to, read back whole or not at all.

    save ──▶ writing ──▶ part ──▶ file ──▶ index ──▶ reading ──▶ table, or inspection.py

The format is at the head of format.py; frames.py has what shared observations need on both ways.
"""

from drivetrain.replay.files.part import Known
from drivetrain.replay.files.reading import Saved, opened
from drivetrain.replay.files.writing import save

__all__ = ["Known", "Saved", "opened", "save"]
