"""Who takes part in `drivetrain bench learning`: ourselves in several forms, and Stable-Baselines3."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from drivetrain.bench.learning.case import LearningCase
from drivetrain.bench.process import Rival
from drivetrain.bench.train.contenders import OURS, SB3
from drivetrain.bench.train.settings import DqnSettings
from drivetrain.core.errors import InvalidInput
from drivetrain.train.config import AGENTS
from drivetrain.train.config.simulator import SimEngine


@dataclass(frozen=True, kw_only=True)
class Side:
    """A rival in one of its forms.

    Attributes:
        name: On the command line and in records.
        title: In tables.
        rival: Its process.
        num_actors: Ours only: 0 is one process, in which steps and updates take turns; None is our
            default: processes, and their environments.
        sim_engine: Ours only, where the environment is a simulator: see `SimulatorConfig`.
        num_envs: Of the peer, whose settings are for one: environments, with the steps of all between blocks of
            updates. None: as the settings have it.
        algos: Algorithms that it is there for.
    """

    name: str
    title: str
    rival: Rival
    num_actors: int | None = None
    sim_engine: SimEngine = "auto"
    num_envs: int | None = None
    algos: Sequence[str] = tuple(AGENTS)

    def can_run(self, case: LearningCase) -> bool:
        """Whether it is there for the case's algorithm, and its environments share the steps of a block evenly."""
        settings = case.settings
        is_whole = not isinstance(settings, DqnSettings) or settings.train_freq % (self.num_envs or 1) == 0
        return case.algo in self.algos and is_whole


def _at(rival: Rival, module: str) -> Rival:
    return replace(rival, module=f"drivetrain.bench.learning.peers.{module}")


_OURS = _at(OURS, "ours")
_SB3 = _at(SB3, "sb3")
AGAINST_SB3 = (
    Side(name="ours", title="ours", rival=_OURS, num_actors=0),
    Side(name="ours-processes", title="ours, processes", rival=_OURS),
    Side(name="sb3", title="SB3", rival=_SB3),
)
"""Ours in turns with one environment, as Stable-Baselines3 does; with our processes; and Stable-Baselines3."""
SB3_WITH_EIGHT = Side(name="sb3-eight", title="SB3, 8 environments", rival=_SB3, num_envs=8, algos=("dqn",))
"""Stable-Baselines3 with as many environments as an actor of ours has, at the settings for one. Of DQN alone: PPO's
settings say how many, and SAC, TD3 and DDPG update after every step."""
ON_SIMULATORS = (
    Side(name="fused", title="fused", rival=_OURS, num_actors=0),
    Side(name="fused-processes", title="fused, processes", rival=_OURS, num_actors=1),
    Side(name="gymnasium", title="through Gymnasium", rival=_OURS, num_actors=0, sim_engine="none"),
)
"""Environments and policy in one kernel, in turns with the updates and beside them; and the same through Gymnasium."""


def chosen(names: Sequence[str], sides: Sequence[Side]) -> list[Side]:
    """The sides of some names, in their order; all where there are none.

    Raises:
        InvalidInput: There is no such side.
    """
    known = [side.name for side in sides]
    for name in names:
        if name not in known:
            raise InvalidInput(f"--sides: there is no side {name!r}: choose from {', '.join(known)}")
    return [side for side in sides if not names or side.name in names]
