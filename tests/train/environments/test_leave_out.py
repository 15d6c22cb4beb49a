"""Entries of a dict of observations that are left out: text, as MiniGrid's mission, or what nobody needs."""

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")

from gymnasium.spaces import Box, Dict, Discrete, Text
from strange_envs import Ending

from drivetrain.core.errors import InvalidInput
from drivetrain.train import load_policy, train
from drivetrain.train.config import TrainConfig
from drivetrain.train.environments.environment import Environment
from drivetrain.train.environments.faults import EnvironmentFault
from drivetrain.train.runs.requirements import describe


class Missionary(Ending):
    """Observes what MiniGrid's environments do."""

    observation_space = Dict(
        {"direction": Discrete(4), "image": Box(0, 255, (7, 7, 3), np.uint8), "mission": Text(20)},
    )


def of(env, **settings):
    return TrainConfig.default("dqn", env).override(**settings)


def shown(config):
    return dict(describe(config).observations.entries)


def test_text_is_refused_by_its_name_and_with_what_leaves_it_out():
    sentence = r"got Text\(.*\) as 'mission', .*; leave that entry out \(leave_out mission\), or wrap it"
    with pytest.raises(InvalidInput, match=sentence):
        describe(of(Missionary))


def test_what_is_left_out_is_not_shown_and_all_else_is_as_ever():
    config = of(Missionary, leave_out=["mission"])
    entries = shown(config)
    assert list(entries) == ["direction", "image"]
    observation = Environment(config, describe(config)).reset(0)
    assert {name: array.shape for name, array in observation.items()} == {"direction": (1,), "image": (147,)}


def test_what_is_left_can_be_stacked():
    with pytest.raises(InvalidInput, match=r"got Discrete.*; leave it at 1, or leave that entry out"):
        describe(of(Missionary, leave_out=["mission"], frame_stack=3))
    config = of(Missionary, leave_out=("mission", "direction"), frame_stack=3)
    assert shown(config)["image"].shape == (3, 147)


@pytest.mark.parametrize(
    ("env", "names", "sentence"),
    [
        (Missionary, ["mision"], r"observations \(direction, image, mission\), got mision; leave out only what"),
        (Missionary, ["mission", "image", "direction"], "got mission, image, direction; .* not all of it$"),
        ("CartPole-v1", ["x"], r"observations \(none\), got x; leave"),
    ],
)
def test_names_that_are_not_there_and_all_of_them_are_refused(env, names, sentence):
    with pytest.raises(InvalidInput, match=f"^environment .*: leave_out: expected some of .*{sentence}"):
        describe(of(env, leave_out=names))


@pytest.mark.parametrize("names", ["mission", [3], None])
def test_what_is_no_list_of_names_is_refused(names):
    with pytest.raises(InvalidInput, match=r'^leave_out: expected names, as \("a", "b"\), got '):
        of(Missionary, leave_out=names)


def test_kernels_leave_nothing_out():
    with pytest.raises(InvalidInput, match=r"^leave_out: not among what a compiled simulator does"):
        of("drivetrain/CartPole-v1", leave_out=["x"])


def test_observations_of_another_form_are_told_of_as_ever(monkeypatch):
    config = of(Missionary, leave_out=["mission"])
    env = Environment(config, describe(config))
    for got, told in (({"image": 0}, "a dict of 1 entries"), (3, "int64")):
        monkeypatch.setattr(Missionary, "observe", lambda self, action, got=got: got)
        with pytest.raises(EnvironmentFault, match=rf"expected an observation direction: .*, got {told}"):
            env.reset(0)


@pytest.mark.whole
def test_a_run_keeps_what_it_leaves_out_and_its_policy_is_shown_either_form(tmp_path):
    small = {"warmup_steps": 40, "hidden": (8,), "batch_size": 4, "eval_episodes": 1, "final_eval_episodes": 1}
    train("dqn", Missionary, run_dir=tmp_path, num_actors=0, total_steps=60, leave_out=["mission"], **small)
    policy = load_policy(tmp_path, env=Missionary)
    assert policy.config.environment.leave_out == ("mission",)
    whole, _ = Missionary().reset(seed=0)
    part, _ = policy.make_env().reset(seed=0)
    assert (whole.keys(), part.keys()) == ({"direction", "image", "mission"}, {"direction", "image"})
    assert policy(whole) == policy(part)
