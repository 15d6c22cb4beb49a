"""Simulators of `drivetrain.sim` and gymnax: whether actors run them in one kernel with the policy."""

from dataclasses import dataclass
from typing import Literal, get_args

from drivetrain.core.docstrings import with_fields
from drivetrain.train.config.parts import require

SimEngine = Literal["auto", "native", "xla", "none"]
_NAMESPACES = ("drivetrain/", "gymnax/")


@with_fields
@dataclass(frozen=True, kw_only=True)
class SimulatorConfig:
    """How environments called drivetrain/NAME or gymnax/NAME are stepped while learning; of DQN and PPO."""

    sim_engine: SimEngine = "auto"
    """What compiles environments and policy into one kernel that takes all steps of a grant: "native", a C++ kernel, or
    "xla". "none": nothing, they are stepped through Gymnasium, one at a time. "auto": "native" for environments called
    drivetrain/NAME or gymnax/NAME; all others are Gymnasium's. In evaluations it steps the environments alone."""

    def __post_init__(self) -> None:
        known = get_args(SimEngine)
        require(self, "sim_engine", self.sim_engine in known, f"one of {', '.join(known)}")

    def engine_for(self, env: str) -> Literal["native", "xla"] | None:
        """What compiles an environment and its policy into one kernel; None: nothing does."""
        if self.sim_engine == "none" or not is_simulator(env):
            return None
        return "native" if self.sim_engine == "auto" else self.sim_engine


def is_simulator(env: str) -> bool:
    """Whether an environment of this name is one of `drivetrain.sim`'s or gymnax's."""
    return env.startswith(_NAMESPACES)
