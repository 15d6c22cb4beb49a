"""How an environment is wrapped, and how what it gives reaches the networks."""

import copy
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, cast

from drivetrain.core.docstrings import with_fields
from drivetrain.core.errors import InvalidInput
from drivetrain.train.config.parts import require


@with_fields
@dataclass(frozen=True, kw_only=True)
class EnvironmentConfig:
    """The wrappers around an environment; the same in training and evaluation but where it says so."""

    env_kwargs: dict[str, Any] = field(default_factory=dict[str, Any], hash=False)
    """What the environment is made with, by name, in training and evaluation: {"continuous": true} for Gymnasium's
    LunarLander-v3. Each is given a copy of its own. Values are those that JSON has; whatever else it takes, a function
    gives it that makes it."""
    sim_params: dict[str, Any] = field(default_factory=dict[str, Any], hash=False)
    """Parameters of a simulator other than its usual ones, by name: {"half_length": 0.7, "gravity": [8, 12]} for
    drivetrain/CartPole-v1. A number holds in training and evaluation. Of a pair, [low, high], each training environment
    of a kernel draws its own, uniformly, for as long as its actor lives (domain randomisation); evaluations keep the
    simulator's own number."""
    leave_out: tuple[str, ...] = ()
    """Entries of a dict of observations that are not shown, by name, as text that networks cannot read: ("mission",)
    for MiniGrid's."""
    frame_stack: int = 1
    """Last observations that the network sees together, for Box observations; each is stored once."""
    atari: bool = False
    """Preprocess an ALE environment (Machado et al. 2018, arXiv:1709.06009): up to `noop_max` idle steps at
    the start, `frame_skip` frames per step, the pixelwise maximum of the last two, gray, 84 x 84."""
    noop_max: int = 30
    """Most idle steps at the start of an episode, with `atari`."""
    frame_skip: int = 4
    """Frames for which an action is held, with `atari`."""
    terminal_on_life_loss: bool = False
    """A lost life ends a training episode, with `atari`, and the game goes on in the next one (Mnih et al. 2015), but
    for deterministic runs, whose episodes each begin a game; never an evaluation's."""
    clip_rewards: bool = False
    """Learn from the sign of each reward (Mnih et al. 2015); returns are reported unclipped."""
    normalize_observations: bool = False
    """Show the network (observation - mean) / deviation of all observations so far, number by number, cut off at
    +-10; of Box observations stored as float32, alone or in dicts and tuples."""
    normalize_rewards: bool = False
    """Learn from rewards divided by the deviation of all discounted returns so far, cut off at +-10; after
    clip_rewards. Returns are reported as they are."""

    def __post_init__(self) -> None:
        for name, value in self.sim_params.items():
            told = f"sim_params: expected a number for {name}, or [low, high], got {value!r}"
            if not (_is_number(value) or _is_pair(value)):
                raise InvalidInput(told)
            if _is_pair(value) and value[0] > value[1]:
                raise InvalidInput(f"{told}, whose low is above its high")
        require(self, "frame_stack", 1 <= self.frame_stack <= 64, "in 1..64")
        require(self, "noop_max", self.noop_max >= 0, "at least 0")
        require(self, "frame_skip", self.frame_skip >= 1, "at least 1")
        for name, usual in self.of_atari().items():
            require(self, name, self.atari or getattr(self, name) == usual, f"{usual} without atari")

    @classmethod
    def of_atari(cls) -> dict[str, Any]:
        """Settings that say something with `atari` alone, as they are by default."""
        return {name: getattr(cls, name) for name in ("noop_max", "frame_skip", "terminal_on_life_loss")}

    @property
    def fresh_kwargs(self) -> dict[str, Any]:
        """`env_kwargs` for one environment, which may change what it is given."""
        return copy.deepcopy(self.env_kwargs)

    @property
    def drawn_params(self) -> tuple[str, ...]:
        """The parameters of `sim_params` that each training environment draws."""
        return tuple(name for name, value in self.sim_params.items() if isinstance(value, list))


def _is_number(value: Any) -> bool:
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    except OverflowError:  # a whole number beyond all that floats can hold
        return False


def _is_pair(value: Any) -> bool:
    if not isinstance(value, list):
        return False
    pair = cast("list[Any]", value)
    return len(pair) == 2 and all(map(_is_number, pair))
