"""`drivetrain envs`: which registered Gymnasium environments can be trained on."""

from dataclasses import dataclass

import tyro


@dataclass(frozen=True, kw_only=True)
class _Flags:
    """List the registered Gymnasium environments that DQN can train on."""

    all: bool = False
    """Also list the others, with the reason."""


def run(argv: list[str]) -> int:
    """Print one environment per line."""
    flags = tyro.cli(_Flags, prog="drivetrain envs", args=argv)
    from drivetrain.train.environments import trainable

    reasons = trainable()
    for env_id in sorted(env_id for env_id, reason in reasons.items() if not reason):
        print(env_id)
    if flags.all:
        for env_id in sorted(env_id for env_id, reason in reasons.items() if reason):
            print(f"{env_id}: {reasons[env_id]}")
    return 0
