"""Kinds of numbers: actions are of the space's own, observations of the declared one or refused."""

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")

from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete
from strange_envs import Shifted

from drivetrain.core.errors import InvalidInput
from drivetrain.train.config import TrainConfig
from drivetrain.train.environments.environment import Environment
from drivetrain.train.environments.faults import not_finite
from drivetrain.train.environments.spaces import actions_of, decoder, encoder, observations_of
from drivetrain.train.runs.requirements import describe


class Chooses(Shifted):
    """Takes nothing that is not in its space, as the environments of Gymnasium."""

    kind = np.int32

    def __init__(self):
        super().__init__()
        self.action_space = Discrete(3, start=-1, dtype=self.kind)

    def step(self, action):
        assert self.action_space.contains(action)
        assert type(action) is type(self.action_space.sample())
        return super().step(action)


class ChoosesBytes(Chooses):
    kind = np.int8


@pytest.mark.parametrize("env", [Chooses, ChoosesBytes])
def test_choices_are_of_the_kind_that_the_space_itself_gives(env):
    config = TrainConfig.default("dqn", env)
    made = Environment(config, describe(config))
    made.reset(0)
    for action in range(3):
        made.step(action)


def test_a_real_action_without_an_axis_is_an_array_as_the_space_gives_it():
    space = Box(-2, 3, ())
    action = decoder(actions_of(space, "x"))(np.array([0.5], np.float32))
    assert isinstance(action, np.ndarray)
    assert (action.shape, action.dtype, float(action)) == ((), np.float32, 1.75)
    assert space.contains(action)


@pytest.mark.parametrize(
    ("space", "seen"),
    [
        (Box(-100, 100, (2,), np.int8), np.array([3, -200])),
        (Box(0, 60_000, (2,), np.uint16), np.array([70_000, 1], np.uint32)),
        (MultiBinary(2), np.array([0, 256])),
    ],
)
def test_whole_numbers_beyond_the_declared_kind_are_refused_and_others_are_kept(space, seen):
    encode = encoder(observations_of(space, "x"), {"": (2,)})
    with pytest.raises(OverflowError, match=rf"^({np.abs(seen).max()}|-200) is beyond"):
        encode(seen)
    assert encode(np.array([1, 0], seen.dtype)).tolist() == [1, 0]


@pytest.mark.parametrize("space", [Discrete(2**31), MultiDiscrete([3, 2**40])])
def test_categories_that_are_more_than_can_be_stored_are_refused(space):
    with pytest.raises(InvalidInput, match=r"environment 'x': expected at most 2\^31 - 1 values .*MultiBinary"):
        observations_of(space, "x")
    assert encoder(observations_of(Discrete(5, start=2**40), "x"), {"": ()})(2**40 + 3) == 3


@pytest.mark.parametrize(
    "space", [MultiDiscrete([4, 50]), MultiDiscrete([[4, 50], [3, 2]]), MultiBinary(3), Discrete(5)]
)
def test_choices_are_not_stacked_to_arrays_of_numbers(space):
    class Choices(Shifted):
        def __init__(self):
            super().__init__()
            self.observation_space = space

    config = TrainConfig.default("dqn", Choices)
    with pytest.raises(InvalidInput) as refused:
        describe(config.override(frame_stack=2))
    told = " ".join(str(space).split())
    assert f"frame_stack is for Box observations, got {told} among them; leave it at 1" in str(refused.value)
    assert describe(config).frame_stack == 1


def test_a_number_that_is_none_is_among_those_that_are_told():
    rows = np.zeros((2, 17), np.float32)
    rows[1, 12] = np.nan
    told = "expected finite numbers in an observation, got [nan,  0.,  0.,  0.,  0.] from number 12 on in 'joints'"
    assert not_finite({"joints": rows}, 2) == (1, told)
    rows[1, 3] = np.inf
    assert "got [ 0.,  0.,  0., inf,  0.,  0.,  0.,  0.], which numbers" in not_finite(rows, 2)[1]
