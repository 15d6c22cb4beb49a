"""`drivetrain envs`: which registered Gymnasium environments can be trained on, and by what."""

from dataclasses import dataclass

from drivetrain.cli.flags import read_flags


@dataclass(frozen=True, kw_only=True)
class _Flags:
    """List the registered Gymnasium environments, each with the algorithms that train on it."""

    all: bool = False
    """Also list those that none trains on, with the reason."""


def run(argv: list[str]) -> int:
    """Print one environment per line."""
    flags = read_flags(_Flags, argv, prog="drivetrain envs")
    from drivetrain.train.environments.environment import trainable

    found = trainable()
    width = max((len(env_id) for env_id, (algos, _) in found.items() if algos), default=0)
    for env_id, (algos, _) in found.items():
        if algos:
            print(f"{env_id:<{width}}  {', '.join(algos)}")
    if flags.all:
        for env_id, (_, reason) in found.items():
            if reason:
                print(f"{env_id}: {reason}")
    return 0
