"""Settings per environment, each with its source; the dataclasses' defaults serve all others."""

from typing import Any

from drivetrain.train.config import TrainConfig

_PRESETS: dict[tuple[str, str], dict[str, Any]] = {}


def preset(algo: str, env: str) -> TrainConfig:
    """The configuration to start from."""
    return TrainConfig(algo=algo, env=env).override(**_PRESETS.get((algo, env), {}))
