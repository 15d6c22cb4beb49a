"""The errors drivetrain raises: one hierarchy, each message saying expected, got, where, remedy.

The hierarchy:

    DrivetrainError
    |-- InvalidInput (ValueError)     an argument or array does not fit
    |-- NotEnoughData                 fewer transitions than asked for
    |-- Closed                        the object was closed
    |-- TimedOut (TimeoutError)       a wait took longer than allowed
    |-- SegmentError                  a shared-memory segment cannot be used
    |   |-- OwnerDead                 ... because its owner is gone
    |   `-- ForeignSegment            ... because it is no segment of this kind or version
    |-- FileFormatError               a file is truncated, foreign, or from a newer version
    |-- CompileError                  an environment cannot be traced or compiled
    |-- MissingExtra (ImportError)    an optional dependency is not installed
    `-- RunError                      a training run could not start or go on
"""


class DrivetrainError(Exception):
    """Base of all errors raised on purpose by drivetrain."""


class InvalidInput(DrivetrainError, ValueError):
    """An argument or array does not fit; nothing was changed."""


class NotEnoughData(DrivetrainError):
    """Fewer transitions are committed than the call needs."""


class Closed(DrivetrainError):
    """The object was closed before this call."""


class TimedOut(DrivetrainError, TimeoutError):
    """A wait took longer than its caller allowed; nothing was changed."""


class SegmentError(DrivetrainError):
    """A shared-memory segment cannot be created, attached or used."""


class OwnerDead(SegmentError):
    """The process that owns the segment is gone, and the segment with it."""


class ForeignSegment(SegmentError):
    """The memory is not a segment of this kind and version."""


class FileFormatError(DrivetrainError):
    """A file is truncated, damaged, not ours, or written by a newer version."""


class CompileError(DrivetrainError):
    """An environment cannot be traced or compiled; the message says what to change."""


class MissingExtra(DrivetrainError, ImportError):
    """An optional dependency is not installed; the message names the extra."""


class RunError(DrivetrainError):
    """A training run could not start, or had to end."""
