"""Schedules as Stable-Baselines3 and SBX take them: functions of the share of the run that is left."""

from collections.abc import Callable

from drivetrain.bench.train.settings import PpoSettings


def scheduled(start: float, settings: PpoSettings) -> float | Callable[[float], float]:
    """A value that falls linearly to 0, or stays."""
    return (lambda left: left * start) if settings.linear else start
