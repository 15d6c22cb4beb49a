"""Environments: what DQN can use, one sentence for the rest, and actions that start elsewhere."""

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="needs the train extra")

import gymnasium

from drivetrain.core.errors import InvalidInput
from drivetrain.train.environments import Environment, describe, trainable


class Shifted(gymnasium.Env):
    """Actions -1, 0, 1; discrete observations 5..7; remembers what it was told."""

    action_space = gymnasium.spaces.Discrete(3, start=-1)
    observation_space = gymnasium.spaces.Discrete(3, start=5)

    def reset(self, *, seed=None, options=None):
        return 5, {}

    def step(self, action):
        return 6 + action, float(action), False, False, {}


class Pictures(Shifted):
    """Observes images."""

    observation_space = gymnasium.spaces.Box(0, 255, (84, 84, 3), np.uint8)


class Nested(Shifted):
    """Observes a dict."""

    observation_space = gymnasium.spaces.Dict({"a": gymnasium.spaces.Discrete(2)})


@pytest.fixture(autouse=True)
def _registered():
    own = {"drivetrain-test/Shifted-v0": Shifted, "drivetrain-test/Pictures-v0": Pictures}
    own["drivetrain-test/Nested-v0"] = Nested
    for env_id, entry_point in own.items():
        gymnasium.register(env_id, entry_point)
    yield
    for env_id in own:
        del gymnasium.registry[env_id]


def test_actions_are_numbered_from_zero_whatever_the_environment_calls_them():
    interface = describe("drivetrain-test/Shifted-v0")
    assert (interface.num_actions, interface.first_action) == (3, -1)
    env = Environment("drivetrain-test/Shifted-v0", interface)
    env.reset(0)
    assert [env.step(action)[1] for action in (0, 1, 2)] == [-1.0, 0.0, 1.0]


def test_discrete_observations_become_one_hot():
    env = Environment("drivetrain-test/Shifted-v0", describe("drivetrain-test/Shifted-v0"))
    assert env.reset(0).tolist() == [1.0, 0.0, 0.0]
    assert env.step(2)[0].tolist() == [0.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("env_id", "sentence"),
    [
        ("CartPoleX-v1", r"'CartPoleX-v1' cannot be made: .*`drivetrain envs` lists"),
        ("Pendulum-v1", r"'Pendulum-v1': DQN needs discrete actions, got Box"),
        ("drivetrain-test/Pictures-v0", r"images \(84, 84, 3\).*no convolutional network"),
        ("drivetrain-test/Nested-v0", r"expected Box or Discrete observations.*FlattenObservation"),
        ("no_such_module:Env-v0", r"cannot be made"),
    ],
)
def test_what_dqn_cannot_use_is_refused_in_one_sentence(env_id, sentence):
    with pytest.raises(InvalidInput, match=sentence) as caught:
        describe(env_id)
    assert "\n" not in str(caught.value)


def test_the_list_names_what_can_be_trained_on_and_why_the_rest_cannot():
    reasons = trainable()
    assert reasons["CartPole-v1"] == ""
    assert reasons["drivetrain-test/Shifted-v0"] == ""
    assert "discrete actions" in reasons["Pendulum-v1"]
