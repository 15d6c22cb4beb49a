"""Environments of many spaces, for the tests: each registers itself as "strange_envs:NAME-v0"."""

import time
from typing import ClassVar

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple


class Shifted(gymnasium.Env):
    """Actions -1, 0, 1; discrete observations 5..7; the reward is the action; never ends."""

    action_space = Discrete(3, start=-1)
    observation_space = Discrete(3, start=5)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observe(0), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        return self.observe(action), float(np.sum(action)), False, False, {}

    def observe(self, action):
        """The observation after an action."""
        return 6 + action if isinstance(self.observation_space, Discrete) else self.observation_space.sample()


class Ending(Shifted):
    """Ends after 20 steps."""

    def reset(self, *, seed=None, options=None):
        self.left = 20
        self.observation_space.seed(seed)
        return super().reset(seed=seed)

    def step(self, action):
        self.left -= 1
        observation, reward, _, _, info = super().step(action)
        return observation, reward, self.left == 0, False, info


class Noted(Ending):
    """Notes what is done with environments of its kind, all of them in one list."""

    events: ClassVar[list[str]] = []

    def __init__(self):
        self.events.append("make")

    def reset(self, *, seed=None, options=None):
        self.events.append("reset")
        return super().reset(seed=seed)

    def step(self, action):
        self.events.append("step")
        return super().step(action)


class Patient(Ending):
    """Takes half a second to be made, and for each reset."""

    def __init__(self):
        time.sleep(0.5)

    def reset(self, *, seed=None, options=None):
        time.sleep(0.5)
        return super().reset(seed=seed)


class Slow(Ending):
    """Takes two thousandths of a second for a step."""

    step_s = 0.002

    def step(self, action):
        time.sleep(self.step_s)
        return super().step(action)


class Slower(Slow):
    """Takes a quarter of a second for a step."""

    step_s = 0.25


class Pictures(Ending):
    """Observes colour images, channels last."""

    observation_space = Box(0, 255, (40, 44, 3), np.uint8)


class Gray(Ending):
    """Observes gray images."""

    observation_space = Box(0, 255, (40, 40), np.uint8)


class Film(gymnasium.Env):
    """Gray images of its own chance; the reward is the action's; 30 steps."""

    action_space = Discrete(3)
    observation_space = Box(0, 255, (40, 40), np.uint8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 30
        return self.draw(), {}

    def step(self, action):
        self.left -= 1
        return self.draw(), float(action), self.left == 0, False, {}

    def draw(self):
        """An image."""
        return self.np_random.integers(0, 256, (40, 40), np.uint8)


class Small(Ending):
    """Observes images too small to convolve."""

    observation_space = Box(0, 255, (7, 7, 3), np.uint8)


class Nested(Ending):
    """Observes a dict of everything."""

    observation_space = Dict(
        {
            "camera": Box(0, 255, (3, 40, 40), np.uint8),
            "body": Tuple([Box(-1, 1, (2, 2), np.float64), Discrete(3, start=1)]),
            "dials": MultiDiscrete([2, 4]),
            "switches": MultiBinary(3),
        }
    )


class Driven(Nested):
    """Nested observations, real actions."""

    action_space = Box(-1, 1, (2,), np.float32)


class Seeing(Pictures):
    """Images, real actions."""

    action_space = Box(-1, 1, (2,), np.float32)


class Many(Shifted):
    """Several discrete actions at once."""

    action_space = MultiDiscrete([[2], [3]], start=[[0], [5]])

    def observe(self, action):
        return 5


class Talking(Shifted):
    """Observes words."""

    observation_space = Text(8)


class Oblong(Shifted):
    """Real actions of shape (2, 1) with uneven bounds."""

    action_space = Box(np.array([[-2.0], [0.0]], np.float32), np.array([[2.0], [10.0]], np.float32))

    def observe(self, action):
        return 5


class Unbounded(Oblong):
    """Actions without bounds."""

    action_space = Box(-np.inf, np.inf, (2,), np.float32)


class Spaceless(gymnasium.Env):
    """Does not say what it observes."""


class Listing(Shifted):
    """Says what it observes, but not as a space."""

    observation_space = (Discrete(3),)


class Blind(Shifted):
    """Observes nothing."""

    observation_space = Box(-1, 1, (0,), np.float32)


class Broken(Shifted):
    """Cannot be made."""

    def __init__(self):
        self.level = {}["level"]


class Leaving(Shifted):
    """Leaves the program when it is made."""

    def __init__(self):
        raise SystemExit(3)


class Wordless(Shifted):
    """Says nothing of why it cannot be made."""

    def __init__(self):
        assert not self


class Careless(Shifted):
    """Uses what is not there when it is made."""

    world = None

    def __init__(self):
        self.bodies = self.world.bodies


class Unspeakable(Exception):
    """Fails to say what it is about."""

    def __str__(self):
        raise RuntimeError


class Mute(Shifted):
    """Cannot be made, and cannot say why."""

    def __init__(self):
        raise Unspeakable


class Guarded(Shifted):
    """Does not show its spaces at once."""

    @property
    def observation_space(self):
        raise RuntimeError("not before reset")


class Bodiless(Shifted):
    """Makes its spaces of what is not there."""

    world = None

    @property
    def action_space(self):
        return Discrete(self.world.bodies)


class Seedless(Shifted):
    """Is reset as environments of Gym were."""

    def reset(self):
        return self.observe(0), {}


class Quitting(Shifted):
    """Leaves the program when it is closed."""

    def close(self):
        raise SystemExit(5)


class Unclosable(Shifted):
    """Cannot be closed."""

    def close(self):
        raise RuntimeError("it is held")


class Old(Shifted):
    """Answers as environments of Gym did; reset as Gymnasium's until `resets` is set."""

    resets = False

    def reset(self, *, seed=None, options=None):
        return self.observe(0) if self.resets else (self.observe(0), {})

    def step(self, action):
        return self.observe(action), 0.0, False, {}


class Uncounted(Nested):
    """Observes a category that its space does not have."""

    def observe(self, action):
        return {**super().observe(action), "dials": np.array([1, 4])}


for kind in (
    *(Spaceless, Listing, Blind, Broken, Leaving, Unclosable, Old, Uncounted),
    *(Wordless, Careless, Mute, Guarded, Bodiless, Quitting, Seedless),
    *(Shifted, Ending, Noted, Patient, Slow, Slower, Pictures, Gray, Film, Small, Nested, Driven, Seeing),
    *(Many, Talking, Oblong, Unbounded),
):
    gymnasium.register(f"{kind.__name__}-v0", kind)


def clipped():
    """Real actions whose bounds a wrapper has taken away."""
    return gymnasium.wrappers.ClipAction(Oblong())
