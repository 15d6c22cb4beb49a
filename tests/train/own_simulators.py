"""Simulators as somebody has them in a module: drivetrain/own_simulators:Walk."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from drivetrain.sim.spaces import Box, Discrete, MultiDiscrete


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class State:
    position: Any
    time: Any


class Walk:
    """Right or left through gusts; the way gained is the reward."""

    name = "Walk"

    def __init__(self, num_steps=30):
        self.num_steps = num_steps

    @property
    def default_params(self):
        return {"length": 10.0, "wind": 0.3}

    def reset(self, key, params):
        state = State(jax.random.uniform(key), jnp.int32(0))
        return state.position[None], state

    def step(self, key, state, action, params):
        length, wind = (params[name] if isinstance(params, dict) else getattr(params, name) for name in Params._fields)
        after = State(state.position + (2 * action - 1) + wind * jax.random.normal(key), state.time + 1)
        ends = after.position >= length, after.time >= self.num_steps
        return after.position[None], after, after.position - state.position, *ends, {}

    def action_space(self, params):
        return Discrete(2)

    def observation_space(self, params):
        return Box(-np.inf, np.inf, (1,))


class Halved(Walk):
    """Shows float16, which no engine but "xla" compiles."""

    def reset(self, key, params):
        obs, state = super().reset(key, params)
        return obs.astype(jnp.float16), state

    def step(self, key, state, action, params):
        obs, *rest = super().step(key, state, action, params)
        return obs.astype(jnp.float16), *rest

    def observation_space(self, params):
        return Box(-np.inf, np.inf, (1,), jnp.float16)


popped = []


class Popping(Walk):
    """Takes its settings out of what it is given; every step, of ten to thirty, has such a reward."""

    def __init__(self, config):
        super().__init__()
        self.gain = config.pop("gain", 1.0)
        popped.append(self.gain)

    def step(self, key, state, action, params):
        obs, after, _, *others = super().step(key, state, action, params)
        return obs, after, jnp.float32(self.gain), *others


class Rich(Walk):
    """Every step has a reward that no float32 is."""

    def step(self, key, state, action, params):
        obs, after, _, *others = super().step(key, state, action, params)
        return obs, after, jnp.int32(2**24 + 1), *others


class EndingIn(Walk):
    """The last observation of an episode, of ten or more steps, is no number, or its last reward is none."""

    def __init__(self, what="observation"):
        super().__init__()
        self.what = what

    def step(self, key, state, action, params):
        obs, after, reward, *ends, info = super().step(key, state, action, params)
        ended = ends[0] | ends[1]
        if self.what == "observation":
            return jnp.where(ended, jnp.nan, obs), after, reward, *ends, info
        return obs, after, jnp.where(ended, jnp.inf, reward), *ends, info


class Params(NamedTuple):
    """Of the one below."""

    length: float = 10.0
    wind: float = 0.3


class OfNamedTuple(Walk):
    """The same with parameters in a named tuple."""

    default_params = Params()


class OfAnyParams(Walk):
    """Parameters that are no numbers among others that are."""

    default_params: ClassVar = {
        "length": 10.0, "wind": 0.3, "gusts": {"low": 0.1}, "weights": np.ones(2), "steps": ((1, 2), (3,)), "on": True,
        "max_steps": 3,
    }  # fmt: skip


class Optional(Walk):
    """Options that Gymnasium's adapters of simulators have arguments of the same names for."""

    def __init__(self, name="Optional", params=10.0, engine="two-stroke", max_episode_steps=30, render_mode="never"):
        super().__init__(max_episode_steps)
        self.name, self.engine, self.render_mode = name, engine, render_mode
        self.default_length = params

    @property
    def default_params(self):
        return {"length": self.default_length, "wind": 0.3}


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Checked:
    length: float = 10.0
    wind: float = 0.3

    def __post_init__(self):
        if isinstance(self.length, float | np.ndarray) and self.length <= 0:
            raise ValueError("length must be positive")


class OfCheckedParams(Walk):
    """Parameters that look at themselves."""

    default_params = Checked()


class WithProperty(Walk):
    """A space where a function is expected."""

    action_space = Discrete(2)


class Branching(Walk):
    """A decision of Python's on an action, which cannot be traced."""

    def step(self, key, state, action, params):
        return super().step(key, state, 1 if action == 1 else 0, params)


class Raising(Walk):
    """A fault of the author's."""

    def step(self, key, state, action, params):
        return super().step(key, state, action, {"length": params["lenght"], "wind": 0.3})


class Calling(Walk):
    """What XLA does with the help of Python, and no kernel does."""

    def step(self, key, state, action, params):
        wind = jax.pure_callback(lambda x: x, jax.ShapeDtypeStruct((), jnp.float32), 0.3, vmap_method="sequential")
        return super().step(key, state, action, {**params, "wind": wind})


class TwoActions(Walk):
    """Two choices in place of one."""

    spaces = {"move": Discrete(2), "jump": Discrete(2)}  # noqa: RUF012

    def step(self, key, state, action, params):
        return super().step(key, state, action["move"], params)

    def action_space(self, params):
        return self

    def sample(self, key):
        return {name: space.sample(key) for name, space in self.spaces.items()}


class Unbounded(Walk):
    """A push of any strength."""

    def step(self, key, state, action, params):
        return super().step(key, state, action[0], params)

    def action_space(self, params):
        return Box(-np.inf, np.inf, (1,))


class Dials:
    """Two dials are turned to what is shown; the reward is how many are. An episode has eight steps."""

    name = "Dials"
    default_params = None
    num_values = (2, 4)

    def reset(self, key, params):
        wanted = jax.random.randint(key, (2,), 0, jnp.array(self.num_values))
        return wanted, (wanted, jnp.int32(0))

    def step(self, key, state, action, params):
        (wanted, time), following = state, self.reset(key, params)[0]
        return following, (following, time + 1), (action == wanted).sum().astype(jnp.float32), False, time >= 7, {}

    def action_space(self, params):
        return MultiDiscrete(self.num_values)

    def observation_space(self, params):
        return MultiDiscrete(self.num_values)


class Levers(Walk):
    """As many levers as its parameters say, each with as many notches."""

    @property
    def default_params(self):
        return {"length": 10.0, "wind": 0.3, "levers": 2, "notches": 3}

    def step(self, key, state, action, params):
        return super().step(key, state, action[0] > 0, params)

    def action_space(self, params):
        return MultiDiscrete((int(params["notches"]),) * int(params["levers"]))


class Drawn(Walk):
    """It has a picture: a wall as long as it went."""

    def render(self, state, params):
        picture = np.zeros((20, 40, 3), np.uint8)
        picture[:, : int(4 * state.position)] = 255
        return picture
