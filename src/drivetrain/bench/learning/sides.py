"""Who takes part in `drivetrain bench learning`: ourselves in two forms, and Stable-Baselines3."""

from collections.abc import Sequence
from dataclasses import dataclass

from drivetrain.bench.process import Rival
from drivetrain.bench.train.contenders import OURS, SB3
from drivetrain.core.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class Side:
    """A rival in one of its forms.

    Attributes:
        name: On the command line, in records and tables.
        rival: Its process.
        num_actors: Ours only: 0 is one process and one environment, in which steps and updates take
            turns as in Stable-Baselines3; None is our default: processes, and their environments.
    """

    name: str
    rival: Rival
    num_actors: int | None = None


def _at(rival: Rival, module: str) -> Rival:
    return Rival(
        name=rival.name,
        module=f"drivetrain.bench.learning.peers.{module}",
        requires=rival.requires,
        install=rival.install,
    )


PEER = "sb3"
SIDES = (
    Side(name="ours", rival=_at(OURS, "ours"), num_actors=0),
    Side(name="ours-processes", rival=_at(OURS, "ours")),
    Side(name=PEER, rival=_at(SB3, "sb3")),
)
TITLES = {"ours": "ours", "ours-processes": "ours, processes", PEER: "SB3"}


def chosen(names: Sequence[str]) -> list[Side]:
    """The sides of some names, in their order; all where there are none.

    Raises:
        InvalidInput: There is no such side.
    """
    known = [side.name for side in SIDES]
    for name in names:
        if name not in known:
            raise InvalidInput(f"--sides: there is no side {name!r}: choose from {', '.join(known)}")
    return [side for side in SIDES if not names or side.name in names]
