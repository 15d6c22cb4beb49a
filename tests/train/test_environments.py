"""Environments: which algorithm takes which, one sentence for the rest, and how actions are translated."""

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="needs the train extra")

import gymnasium

from drivetrain.core.errors import InvalidInput
from drivetrain.train.config import TrainConfig
from drivetrain.train.environments import Environment, describe, trainable
from drivetrain.train.interface import Categories, DiscreteActions


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


class Oblong(Shifted):
    """Real actions of shape (2, 1) with uneven bounds; the reward is their sum; keeps what it was told."""

    action_space = gymnasium.spaces.Box(np.array([[-2.0], [0.0]], np.float32), np.array([[2.0], [10.0]], np.float32))

    def step(self, action):
        assert self.action_space.contains(action)
        return 5, float(action.sum()), False, False, {}


class Unbounded(Shifted):
    """Actions without bounds."""

    action_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)


class Many(Shifted):
    """Several discrete actions at once."""

    action_space = gymnasium.spaces.MultiDiscrete([2, 3])


@pytest.fixture(autouse=True)
def _registered():
    own = {"drivetrain-test/Shifted-v0": Shifted, "drivetrain-test/Pictures-v0": Pictures}
    own["drivetrain-test/Nested-v0"] = Nested
    own["drivetrain-test/Oblong-v0"] = Oblong
    own["drivetrain-test/Unbounded-v0"] = Unbounded
    own["drivetrain-test/Many-v0"] = Many
    for env_id, entry_point in own.items():
        gymnasium.register(env_id, entry_point)
    yield
    for env_id in own:
        del gymnasium.registry[env_id]


def of(algo, name):
    return TrainConfig.default(algo, f"drivetrain-test/{name}-v0")


def make(algo, name):
    return Environment(of(algo, name), describe(of(algo, name)))


def test_actions_are_numbered_from_zero_whatever_the_environment_calls_them():
    interface = describe(of("dqn", "Shifted"))
    assert interface.actions == DiscreteActions(count=3, start=-1)
    env = Environment(of("dqn", "Shifted"), interface)
    env.reset(0)
    assert [env.step(action)[1] for action in (0, 1, 2)] == [-1.0, 0.0, 1.0]


def test_discrete_observations_are_stored_as_numbers_from_zero():
    assert describe(of("dqn", "Shifted")).observations == Categories(counts=(3,), starts=(5,))
    env = make("dqn", "Shifted")
    assert env.reset(0).tolist() == [0]
    assert env.step(2)[0].tolist() == [2]


@pytest.mark.parametrize(
    ("env_id", "sentence"),
    [
        ("CartPoleX-v1", r"'CartPoleX-v1' cannot be made: .*`drivetrain envs` lists"),
        ("Pendulum-v1", r"'Pendulum-v1': DQN needs discrete actions.*continuous.*use ddpg or td3 or sac"),
        ("drivetrain-test/Unbounded-v0", r"finite bounds, got Box.*RescaleAction"),
        ("drivetrain-test/Many-v0", r"expected Discrete or real-valued Box actions, got MultiDiscrete"),
        ("drivetrain-test/Pictures-v0", r"images \(84, 84, 3\).*no convolutional network"),
        ("drivetrain-test/Nested-v0", r"expected Box or Discrete observations.*FlattenObservation"),
        ("no_such_module:Env-v0", r"cannot be made"),
    ],
)
def test_what_dqn_cannot_use_is_refused_in_one_sentence(env_id, sentence):
    with pytest.raises(InvalidInput, match=sentence) as caught:
        describe(TrainConfig.default("dqn", env_id))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("algo", ["ddpg", "td3", "sac"])
def test_discrete_actions_are_refused_by_the_algorithms_for_continuous_ones(algo):
    with pytest.raises(InvalidInput, match=rf"{algo.upper()} needs continuous actions.*discrete.*use dqn"):
        describe(TrainConfig.default(algo, "CartPole-v1"))


def test_real_actions_run_from_minus_one_to_one_whatever_the_bounds_and_shape_of_the_environment():
    env = make("sac", "Oblong")
    env.reset(0)
    assert env.step(np.array([-1.0, -1.0], np.float32))[1] == -2.0
    assert env.step(np.array([1.0, 1.0], np.float32))[1] == 12.0
    assert env.step(np.array([0.0, 0.0], np.float32))[1] == 5.0
    assert env.step(np.array([0.5, -0.5], np.float32))[1] == 3.5


def test_the_list_names_what_can_be_trained_on_and_why_the_rest_cannot():
    found = trainable()
    assert found["CartPole-v1"] == (("dqn",), "")
    assert found["Pendulum-v1"] == (("ddpg", "td3", "sac"), "")
    algos, reason = found["drivetrain-test/Pictures-v0"]
    assert algos == ()
    assert "images" in reason
