"""What has changed of an environment since a checkpoint is said in Gymnasium's words."""

import numpy as np
import pytest
from gymnasium import spaces

from drivetrain.core.errors import InvalidInput
from drivetrain.train.environments.spaces import actions_of, observations_of
from drivetrain.train.interface import Interface
from drivetrain.train.run_dir.saving import describe_interface, require_same

PICTURE = spaces.Box(0, 255, (64, 64), np.uint8)
NUMBERS = spaces.Box(-1.0, 1.0, (3,), np.float32)


def of(observation, action):
    return Interface(observations=observations_of(observation, "x"), actions=actions_of(action, "x"))


def told(was, now):
    with pytest.raises(InvalidInput) as refused:
        require_same("x", of(*now), describe_interface(of(*was)), remedy="go back")
    return str(refused.value).removeprefix("environment 'x' has changed since the checkpoint: ")


@pytest.mark.parametrize(
    ("was", "now", "sentence"),
    [
        (spaces.Discrete(3), spaces.Discrete(4, start=1), "Discrete(3), and is Discrete(4, start=1)"),
        (spaces.MultiDiscrete([2, 3]), spaces.MultiBinary(2), "MultiDiscrete([2, 3]), and is MultiDiscrete([2, 2])"),
        (
            spaces.Box(np.float32([-1, -2]), np.float32([1, 2])),
            spaces.Box(-1.0, 1.0, (2,)),
            "Box([-1.0, -2.0], [1.0, 2.0], (2,), float32), and is Box(-1.0, 1.0, (2,), float32)",
        ),
    ],
)
def test_of_actions(was, now, sentence):
    assert told((NUMBERS, was), (NUMBERS, now)) == f"its action space was {sentence}; go back"


@pytest.mark.parametrize(
    ("was", "now", "sentence"),
    [
        (NUMBERS, PICTURE, " was a Box of 3 numbers kept as float32, and is Box(0, 255, (64, 64), uint8)"),
        (spaces.Discrete(3), spaces.MultiBinary(3), " was Discrete(3), and is MultiBinary(3)"),
        (
            spaces.Dict(speed=NUMBERS, camera=PICTURE),
            spaces.Dict(speed=spaces.Discrete(4), camera=PICTURE),
            ", entry 'speed', was a Box of 3 numbers kept as float32, and is Discrete(4)",
        ),
        (
            spaces.Dict(speed=NUMBERS, camera=PICTURE),
            spaces.Dict(speed=NUMBERS),
            " was a Dict or Tuple of 'speed', 'camera', and is a Dict or Tuple of 'speed'",
        ),
        (
            spaces.Dict(speed=NUMBERS),
            NUMBERS,
            " was a Dict or Tuple of 'speed', and is a Box of 3 numbers kept as float32",
        ),
    ],
)
def test_of_observations(was, now, sentence):
    assert told((was, spaces.Discrete(2)), (now, spaces.Discrete(2))) == f"its observation space{sentence}; go back"


def test_what_words_leave_out_and_what_another_version_wrote_are_shown_as_they_are():
    sentence = told((spaces.Dict({"a.b": NUMBERS}), NUMBERS), (spaces.Dict(a=spaces.Dict(b=NUMBERS)), NUMBERS))
    assert "paths=(('a.b',),)), and is" in sentence
    now = of(NUMBERS, spaces.Discrete(2))
    with pytest.raises(InvalidInput, match=r"its action space was Levers 3, and is Discrete\(2\); go back"):
        require_same("x", now, describe_interface(now) | {"actions": "Levers 3"}, remedy="go back")
