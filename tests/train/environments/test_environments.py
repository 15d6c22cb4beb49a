"""Environments: which algorithm takes which, one sentence for the rest, and how actions are translated."""

import contextlib
import sys

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="needs the train extra")

import gymnasium
import strange_envs
from gymnasium.spaces import Box, Dict, MultiDiscrete, Tuple
from gymnasium.wrappers import RecordEpisodeStatistics, TransformAction
from strange_envs import Old, Shifted, clipped

from drivetrain.core.errors import InvalidInput, RunError
from drivetrain.train.config import TrainConfig
from drivetrain.train.environments.environment import Environment, close_all, trainable
from drivetrain.train.environments.faults import require_ends, require_reward
from drivetrain.train.environments.spaces import actions_of, decoder, observations_of
from drivetrain.train.experience.experience import make_experience
from drivetrain.train.interface import Categories, DiscreteActions, Image, Interface, MultiDiscreteActions, Vector
from drivetrain.train.runs.requirements import describe


def of(algo, name, **settings):
    return TrainConfig.default(algo, f"strange_envs:{name}-v0").override(**settings)


def make(algo, name, **settings):
    config = of(algo, name, **settings)
    return Environment(config, describe(config))


def test_actions_are_numbered_from_zero_whatever_the_environment_calls_them():
    interface = describe(of("dqn", "Shifted"))
    assert interface.actions == DiscreteActions(count=3, start=-1)
    env = Environment(of("dqn", "Shifted"), interface)
    env.reset(0)
    assert [env.step(action)[1] for action in (0, 1, 2)] == [-1.0, 0.0, 1.0]


def test_discrete_observations_are_stored_as_numbers_from_zero():
    assert describe(of("dqn", "Shifted")).observations == Categories(counts=(3,), starts=(5,))
    env = make("dqn", "Shifted")
    assert env.reset(0).tolist() == [1]
    assert env.step(2)[0].tolist() == [2]


@pytest.mark.parametrize(
    ("env_id", "sentence"),
    [
        ("Pendulum-v1", r"'Pendulum-v1': DQN needs discrete actions.*continuous.*use ddpg, td3, sac or ppo"),
        ("strange_envs:Unbounded-v0", r"finite bounds, got Box.*TransformAction"),
        ("strange_envs:clipped", r"finite bounds, got Box\(-inf, inf.*leave out gymnasium.wrappers.ClipAction"),
        ("strange_envs:Spaceless-v0", r"expected a space of Gymnasium's as its observation_space, and it has none"),
        ("strange_envs:Listing-v0", r"a space of Gymnasium's as its observation_space, got builtins.tuple; set it"),
        ("strange_envs:Blind-v0", r"expected a number or more in its observation_space, got Box\(\[\], \[\], \(0,\)"),
        ("strange_envs:Broken-v0", r"cannot be made: KeyError: 'level' \(.*strange_envs.py, line \d+\)"),
        ("strange_envs:Leaving-v0", r"cannot be made: SystemExit: 3 \(.*strange_envs.py, line \d+\)"),
        ("strange_envs:Wordless-v0", r"cannot be made: AssertionError \(.*strange_envs.py, line \d+\); mend it"),
        ("strange_envs:Careless-v0", r"made: AttributeError: 'NoneType' .* 'bodies' \(.*strange_envs.py, line \d+\)"),
        ("strange_envs:Mute-v0", r"cannot be made: Unspeakable: its message cannot be read \(.*strange_envs.py"),
        ("strange_envs:Guarded-v0", r"its observation_space cannot be read: RuntimeError: not before reset \(.*; mend"),
        ("strange_envs:Bodiless-v0", r"its action_space cannot be read: AttributeError: 'NoneType' .*strange_envs.py"),
        ("strange_envs:Seedless-v0", r"expected reset\(\*, seed=None, options=None\), .* takes no seed; mend it"),
        ("strange_envs:Quitting-v0", r"cannot be closed: SystemExit: 5 \(.*; mend its close"),
        ("strange_envs:Unclosable-v0", r"cannot be closed: RuntimeError: it is held \(.*; mend its close"),
        ("strange_envs:Many-v0", r"DQN needs discrete actions, and these are multi-discrete"),
        ("strange_envs:Talking-v0", r"expected Box, .* or Tuple observations, got Text.*wrap it .*, in a function"),
        ("no_such_module:Env-v0", r"cannot be made"),
        ("strange_envs:nope", r"the module strange_envs has no function or class nope, and registers no id of that"),
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


def test_actions_are_bounded_again_by_the_wrapper_that_the_refusal_names():
    bounds = Box(-1, 1, (2, 1), np.float32)
    interface = describe(TrainConfig.default("sac", lambda: TransformAction(clipped(), lambda action: action, bounds)))
    assert interface.actions.low == (-1.0, -1.0)


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        (lambda self, action: (6, 0.0, np.zeros(2, bool), False, {}), r"True or False .* got bool\[2\] and False"),
        (lambda self, action: sys.exit("no licence"), r"and it left the program \(SystemExit\('no licence'\)\)"),
    ],
)
def test_ends_that_are_neither_true_nor_false_and_leaving_the_program_are_one_sentence(monkeypatch, step, sentence):
    monkeypatch.setattr(Old, "step", step)
    env = make("dqn", "Old")
    env.reset(0)
    with pytest.raises(RunError, match="step 1 of an episode: expected .*" + sentence):
        env.step(0)


@pytest.mark.parametrize(("resets", "sentence"), [(False, "step 1 of an episode"), (True, "the start of an episode")])
def test_they_are_told_through_a_wrapper_that_cannot_unpack_them_too(monkeypatch, resets, sentence):
    monkeypatch.setattr(Old, "resets", resets)
    config = TrainConfig.default("dqn", lambda: RecordEpisodeStatistics(Old()))
    env = Environment(config, describe(config))

    def play():
        env.reset(0)
        env.step(0)

    with pytest.raises(RunError, match=sentence + r": expected .* as of Gymnasium .* and a wrapper says: .*unpack"):
        play()


@pytest.mark.parametrize(
    ("resets", "sentence"),
    [
        (
            False,
            r"step 1 of an episode: expected \(observation, .*\) of step, as of Gymnasium .*got a tuple of 4 entries",
        ),
        (True, r"the start of an episode: expected \(observation, info\) of reset, as of Gymnasium .*got int64\[\]"),
    ],
)
def test_answers_in_the_form_of_gym_are_told_from_gymnasiums(monkeypatch, resets, sentence):
    monkeypatch.setattr(Old, "resets", resets)
    env = make("dqn", "Old")

    def play():
        env.reset(0)
        env.step(0)

    with pytest.raises(RunError, match=sentence):
        play()


@pytest.mark.parametrize(("terminated", "got"), [(None, "None"), ("no", "'no'"), (float("nan"), "nan"), (2, "2")])
def test_what_only_counts_as_true_or_false_is_no_end_of_an_episode(terminated, got):
    with pytest.raises(RunError, match=rf"expected True or False as terminated and .*, got {got} and False"):
        require_ends("X-v0", 3, terminated, False)


@pytest.mark.parametrize("true", [True, np.True_, 1, 1.0, np.array(True), np.array([1])])
def test_ends_of_episodes_may_be_numbers_and_arrays_of_one(true):
    assert require_ends("X-v0", 3, False, true) == (False, True)


def test_a_reward_beyond_float32_is_refused_as_the_environments():
    with pytest.raises(RunError, match=r"'X-v0', step 3 of .*: expected a finite number within float32 as .* 1e\+300"):
        require_reward("X-v0", 3, 1e300)


def test_a_wrapper_whose_reset_takes_no_seed_is_one_sentence():
    seedless = type("Seedless", (gymnasium.Wrapper,), {"reset": lambda self: self.env.reset()})
    config = TrainConfig.default("dqn", lambda: seedless(Shifted()))
    with pytest.raises(RunError, match=r"start of an episode: expected reset\(\*, seed=None, .*unexpected .*seed"):
        Environment(config, describe(config)).reset(0)


def showing(space, observation):
    """An environment that declares one thing and shows another."""
    return type("Showing", (Shifted,), {"observation_space": space, "observe": lambda self, action: observation})


@pytest.mark.parametrize(
    ("space", "observation", "sentence"),
    [
        (Box(-1, 1, (2, 3)), np.zeros((3, 2), np.float32), r"float32\[2, 3\], got float32\[3, 2\]"),
        (Box(-1, 1, (4,)), np.zeros((2, 2), np.float32), r"float32\[4\], got float32\[2, 2\]"),
        (
            Box(0, 255, (40, 44, 3), np.uint8),
            np.zeros((3, 40, 44), np.uint8),
            r"uint8\[40, 44, 3\], got .*\[3, 40, 44\]",
        ),
        (MultiDiscrete([[2, 2]]), np.zeros(2, np.int64), r"int32\[1, 2\], got int64\[2\]"),
        (
            Dict(a=Box(-1, 1, (4,))),
            {"a": np.zeros((2, 2))},
            r"a: float32\[4\], got a dict of .* \(a: float64\[2, 2\]\)",
        ),
    ],
)
def test_observations_of_another_shape_are_refused_also_where_the_numbers_would_fit(space, observation, sentence):
    config = TrainConfig.default("dqn", showing(space, observation))
    env = Environment(config, describe(config))
    with pytest.raises(RunError, match="the start of an episode: expected an observation " + sentence):
        env.reset(0)


@pytest.mark.parametrize("observation", [0.5, np.float64(0.5), [0.5], np.array([[0.5]])])
def test_one_number_may_come_in_any_shape(observation):
    config = TrainConfig.default("dqn", showing(Box(-1, 1, ()), observation))
    assert Environment(config, describe(config)).reset(0).tolist() == [0.5]


def test_entries_whose_keys_have_slashes_are_named_with_dots_and_stored():
    seen = {"walker/pos": np.zeros(3), "walker/vel": np.ones(2)}
    space = Dict({name: Box(-1, 1, array.shape) for name, array in seen.items()})
    config = TrainConfig.default("dqn", showing(space, seen))
    interface = describe(config)
    assert [name for name, _ in interface.observations.entries] == ["walker.pos", "walker.vel"]
    assert Environment(config, interface).reset(0)["walker.vel"].tolist() == [1.0, 1.0]
    make_experience(config, interface, shared=False).close()


@pytest.mark.parametrize("space", [Dict(), Tuple(()), Dict(a=Box(-1, 1, (0,)), b=Box(-1, 1, (2,)))])
def test_spaces_without_a_number_in_them_or_in_an_entry_are_refused(space):
    with pytest.raises(InvalidInput, match=r"expected a number or more in its .*, got .*; leave it out"):
        describe(TrainConfig.default("dqn", showing(space, None)))


def test_an_environment_that_cannot_be_closed_takes_nothing_with_it(capsys):
    class Stuck:
        def __init__(self):
            self.is_closed = False

        def close(self):
            self.is_closed = True
            raise RuntimeError("it is held")

    envs = [Stuck(), Stuck()]
    close_all(envs, "X-v0")
    assert all(env.is_closed for env in envs)
    err = capsys.readouterr().err
    assert "environment 'X-v0' cannot be closed: RuntimeError: it is held (" in err
    assert len(err.splitlines()) == 1


def test_actions_reach_bounds_whose_distance_no_number_holds():
    largest = np.finfo(np.float64).max
    decode = decoder(actions_of(Box(-largest, largest, (1,), np.float64), "X-v0"))
    assert [float(decode(np.array([action]))[0]) for action in (-1.0, 0.0, 1.0)] == [-largest, 0.0, largest]


def test_a_category_that_the_space_does_not_have_is_refused_by_name():
    env = make("dqn", "Uncounted")
    with pytest.raises(RunError, match=r"start of an episode: expected an observation of 'dials' in 0..3, got 4"):
        env.reset(0)


def test_real_actions_run_from_minus_one_to_one_whatever_the_bounds_and_shape_of_the_environment():
    env = make("sac", "Oblong")
    env.reset(0)
    assert env.step(np.array([-1.0, -1.0], np.float32))[1] == -2.0
    assert env.step(np.array([1.0, 1.0], np.float32))[1] == 12.0
    assert env.step(np.array([0.0, 0.0], np.float32))[1] == 5.0
    assert env.step(np.array([0.5, -0.5], np.float32))[1] == 3.5


def test_the_list_names_what_can_be_trained_on_and_why_the_rest_cannot():
    found = trainable()
    assert found["CartPole-v1"] == (("dqn", "ppo"), "")
    assert found["Pendulum-v1"] == (("ddpg", "td3", "sac", "ppo"), "")
    algos, reason = found["Talking-v0"]
    assert algos == ()
    assert "Text" in reason
    assert found["Nested-v0"] == (("dqn", "ppo"), "")


def test_images_are_stored_as_the_bytes_they_are_and_known_by_their_axes():
    assert describe(of("dqn", "Pictures")).observations == Image(shape=(40, 44, 3), axes="HWC")
    assert describe(of("dqn", "Gray")).observations == Image(shape=(40, 40), axes="HW")
    first = make("dqn", "Pictures").reset(1)
    assert (first.dtype, first.shape) == (np.uint8, (40, 44, 3))
    small = describe(of("dqn", "Small")).observations
    assert small == Vector(shape=(147,), dtype="uint8", scale=1 / 255)


def test_nested_observations_become_entries_named_by_their_path():
    interface = describe(of("dqn", "Nested"))
    assert interface.has_images
    assert interface.observations.stored == {
        "body.0": ((4,), "float32"),
        "body.1": ((1,), "int32"),
        "camera": ((3, 40, 40), "uint8"),
        "dials": ((2,), "int32"),
        "switches": ((3,), "int8"),
    }
    observation = make("dqn", "Nested").reset(3)
    space = strange_envs.Nested.observation_space
    space.seed(3)
    original = space.sample()
    assert np.array_equal(observation["camera"], original["camera"])
    assert np.allclose(observation["body.0"], original["body"][0].ravel())
    assert observation["body.1"] == original["body"][1] - 1
    assert np.array_equal(observation["switches"], original["switches"])


def test_several_choices_are_numbered_from_zero_and_given_back_in_the_environments_shape():
    interface = describe_actions("Many")
    assert interface.actions == MultiDiscreteActions(counts=(2, 3), starts=(0, 5), shape=(2, 1), dtype="int64")
    assert (interface.stored_action, interface.num_actions) == (((2,), "int64"), 5)
    env = Environment(of("dqn", "Many"), interface)
    env.reset(0)
    assert env.step(np.array([1, 2]))[1] == 1 + 7


def describe_actions(name):
    """The interface of an environment that no off-policy algorithm takes."""
    env = gymnasium.make(f"strange_envs:{name}-v0")
    return Interface(
        observations=observations_of(env.observation_space, name), actions=actions_of(env.action_space, name)
    )


def test_stacked_frames_are_the_newest_last_and_known_to_the_replay():
    interface = describe(of("dqn", "Gray", frame_stack=3))
    assert interface.frame_stack == 3
    assert interface.observations == Image(shape=(3, 40, 40), axes="KHW")
    env = make("dqn", "Gray", frame_stack=3)
    first, then = env.reset(0), env.step(0)[0]
    assert np.array_equal(first[0], first[2])
    assert np.array_equal(then[:2], first[1:])
    assert not np.array_equal(then[2], first[2])


class WritesIntoOneArray(gymnasium.Env):
    """Shows the number of its step, always in the same array."""

    observation_space = gymnasium.spaces.Box(0, 10, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self):
        self.shown = np.zeros(2, np.float32)

    def reset(self, *, seed=None, options=None):
        self.shown[:] = 1
        return self.shown, {}

    def step(self, action):
        self.shown += 1
        return self.shown, 0.0, False, False, {}


def test_frames_of_an_environment_that_writes_into_one_array_are_those_of_their_steps():
    config = TrainConfig.default("dqn", WritesIntoOneArray).override(frame_stack=3)
    env = Environment(config, describe(config))
    stacks = [env.reset(0), *(env.step(0)[0] for _ in range(3)), env.reset(0)]
    found = [np.ravel(stack)[::2].tolist() for stack in stacks]
    assert found == [[1, 1, 1], [1, 1, 2], [1, 2, 3], [2, 3, 4], [1, 1, 1]]


def test_stacked_vectors_keep_an_axis_for_the_frames():
    config = TrainConfig.default("dqn", "CartPole-v1").override(frame_stack=4)
    assert describe(config).observations == Vector(shape=(4, 4))


def test_frames_of_anything_but_boxes_are_refused():
    with pytest.raises(InvalidInput, match="frame_stack is for Box observations, got Discrete"):
        describe(of("dqn", "Shifted", frame_stack=2))


def test_an_environment_that_stacks_its_frames_itself_is_noticed():
    gymnasium.register("Stacking-v0", lambda: gymnasium.wrappers.FrameStackObservation(strange_envs.Gray(), 2))
    config = TrainConfig.default("dqn", "Stacking-v0")
    assert describe(config).frame_stack == 2


@pytest.mark.parametrize("shown", ["flat", "mean", "goal", "categories"])
def test_frames_that_an_environment_has_stacked_and_changed_are_an_observation_like_others(shown):
    class Changed(gymnasium.Wrapper):
        def __init__(self):
            env = gymnasium.make("CartPole-v1") if shown != "categories" else strange_envs.Ending()
            super().__init__(gymnasium.wrappers.FrameStackObservation(env, 3))
            box = gymnasium.spaces.Box(-9.0, 9.0, (12,) if shown == "flat" else (4,), np.float32)
            spaces = {"flat": box, "mean": box, "goal": gymnasium.spaces.Dict(all=self.env.observation_space, goal=box)}
            self.observation_space = spaces.get(shown, self.env.observation_space)

        def changed(self, obs):
            if shown == "categories":
                return obs
            mean = obs.mean(0).astype(np.float32)
            return {"flat": obs.reshape(-1), "mean": mean, "goal": {"all": obs, "goal": mean}}[shown]

        def reset(self, **options):
            obs, info = self.env.reset(**options)
            return self.changed(obs), info

        def step(self, action):
            obs, *rest = self.env.step(action)
            return self.changed(obs), *rest

    config = TrainConfig.default("dqn", Changed)
    interface = describe(config)
    assert interface.frame_stack == 1
    with contextlib.closing(Environment(config, interface)) as env:
        env.reset(seed=0)
        env.step(interface.zero_actions(1)[0])
