"""Simulators of `drivetrain.sim` and gymnax: whether actors run them in one kernel with the policy."""

from dataclasses import dataclass
from typing import Literal, get_args

from drivetrain.core.docstrings import with_fields
from drivetrain.core.errors import InvalidInput
from drivetrain.train.config.environment import EnvironmentConfig
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


def require_params(env: str, settings: EnvironmentConfig, engine: str | None) -> None:
    """Let parameters of a simulator pass, where there is one to have them.

    Args:
        env: The environment.
        settings: With its parameters.
        engine: What compiles it into one kernel with the policy; None: nothing does.

    Raises:
        InvalidInput: It is no simulator; or one is to be drawn, which kernels alone do.
    """
    drawn = settings.drawn_params
    if settings.sim_params and not is_simulator(env):
        raise InvalidInput(
            f"sim_params: expected none for {env!r}, which is no simulator; environments called drivetrain/NAME or "
            "gymnax/NAME are, and others are made with env_kwargs"
        )
    if drawn and engine is None:
        raise InvalidInput(
            f"sim_params: expected one number for {drawn[0]}, got {settings.sim_params[drawn[0]]}; environments "
            "differ in a kernel alone, as dqn and ppo have it with sim_engine native or xla"
        )


def is_simulator(env: str) -> bool:
    """Whether an environment of this name is one of `drivetrain.sim`'s or gymnax's."""
    return env.startswith(_NAMESPACES)
