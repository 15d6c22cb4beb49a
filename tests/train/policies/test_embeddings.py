"""Stored embeddings: after the switch everything is as the whole network has it, and encoders stand still."""

import re

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")
import jax.numpy as jnp
import optax
from one_sample import errors_of
from whole_run import same

from drivetrain.core.errors import InvalidInput
from drivetrain.train import train
from drivetrain.train.config import TrainConfig
from drivetrain.train.learner.learner import Learner
from drivetrain.train.policies.embeddings import Encoders
from drivetrain.train.policies.policy import make_policy
from drivetrain.train.run_dir.checkpoint import load_checkpoint, load_replay
from drivetrain.train.runs.freezing import freeze_encoders
from drivetrain.train.runs.requirements import describe
from drivetrain.train.runs.tried import require_updates

SMALL = {
    "num_actors": 0, "total_steps": 60, "envs_per_actor": 2, "warmup_steps": 40, "hidden": (8,), "batch_size": 4,
    "update_ratio": "1/4", "eval_interval_steps": 60, "eval_episodes": 1, "final_eval_episodes": 2,
    "capacity": 100, "prioritized": True, "updates_per_call": 2, "eval_max_steps": 10, "num_step": 2,
    "freeze_encoder_after": 60,
}  # fmt: skip
TARGETS_LIKE_ONLINE = {"target_tau": 1.0}
NOISY = {"frame_stack": 3, "noisy": True, "dueling": True, "target_tau": 1.0}
CASES = [
    pytest.param("dqn", "Gray", TARGETS_LIKE_ONLINE, id="dqn"),
    # Each compiles as much again:
    pytest.param("dqn", "Gray", NOISY, id="noisy dqn", marks=pytest.mark.slow),
    pytest.param("sac", "Driven", TARGETS_LIKE_ONLINE, id="sac", marks=pytest.mark.slow),
    pytest.param("td3", "Seeing", TARGETS_LIKE_ONLINE | {"policy_delay": 1}, id="td3", marks=pytest.mark.slow),
    pytest.param("ddpg", "Driven", TARGETS_LIKE_ONLINE, id="ddpg", marks=pytest.mark.slow),
]


def close(left, right):
    return np.allclose(left, right, rtol=1e-3, atol=1e-4)


@pytest.mark.release
@pytest.mark.parametrize(("algo", "env", "settings"), CASES)
def test_values_and_actions_after_the_switch_are_those_of_the_whole_network(tmp_path, full_disk, algo, env, settings):
    run_dir = train(algo, f"strange_envs:{env}-v0", run_dir=str(tmp_path / "run"), **SMALL | settings).run_dir
    config = TrainConfig.load(run_dir / "config.json")
    interface, before = describe(config), load_checkpoint(run_dir)[0]
    images = load_replay(run_dir, shared=False)
    with full_disk(50_000), pytest.raises(OSError, match="large"):
        freeze_encoders(config, interface, run_dir, (60, 5))
    assert same(load_checkpoint(run_dir)[0], before), "a switch that fails leaves the checkpoint as it was"
    origin, sentence = freeze_encoders(config, interface, run_dir, (60, 5))
    assert (origin.num_steps, origin.num_updates, origin.encoder_frozen) == (60, 5, True)
    assert re.search(r"\d KiB of replay become \d+\.\d\d KiB", sentence)
    after, embeddings = load_checkpoint(run_dir)[0], load_replay(run_dir, shared=False)
    encoders = Encoders.frozen(config, interface, after)
    whole, layers = Learner(config, interface), Learner(config, interface, encoders)
    whole.learned.restore(before)
    layers.learned.restore(after)
    assert np.array_equal(layers.learned.vector, whole.learned.vector)
    assert not any(name.startswith("state/") and "torso" in name for name in layers.learned.arrays())

    shown, stored = images.sample(4), embeddings.sample(4)
    assert np.array_equal(shown.data["action"], stored.data["action"])
    policies = (
        make_policy(config, interface, whole.learned.vector),
        encoders.policy(config, interface, layers.learned.vector),
    )
    for name in ("obs", "next_obs"):
        embedded = encoders.embed(shown.data[name])
        assert all(close(embedded[who], stored.data[name][who]) for who in embedded)
        assert close(policies[0].act(shown.data[name]), policies[1].act(stored.data[name]))
    batches = [replay.sample(4, num_batches=1) for replay in (images, embeddings)]
    errors = [errors_of(learner, batch) for learner, batch in zip((whole, layers), batches, strict=True)]
    assert errors[0].max() > 1e-3
    assert close(*errors)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"freeze_encoder_after": 40}, r"freeze_encoder_after: expected more than warmup_steps \(40\)"),
        ({"save_replay": False}, "expected save_replay beside it, as the replay is converted in the checkpoint"),
        ({"normalize_observations": True}, "expected no normalize_observations beside it"),
    ],
)
def test_what_cannot_be_frozen_is_refused_in_a_sentence(settings, message):
    with pytest.raises(InvalidInput, match=message):
        TrainConfig.default("dqn", "E").override(**SMALL | settings)


def test_environments_without_images_are_refused_before_anything_starts(tmp_path):
    with pytest.raises(InvalidInput, match="environment 'CartPole-v1' shows no images, whose encoder could be frozen"):
        train("dqn", "CartPole-v1", run_dir=str(tmp_path / "run"), freeze_encoder_after=2_000)
    assert not (tmp_path / "run").exists()
    with pytest.raises(InvalidInput, match="unknown setting 'freeze_encoder_after' for ppo"):
        TrainConfig.default("ppo", "E").override(freeze_encoder_after=2_000)


def test_a_torso_that_learns_nothing_is_refused_before_anything_starts(tmp_path):
    torso = (lambda key, obs: {}, lambda params, obs: obs.reshape(obs.shape[0], -1)[:, ::40] / 255.0)
    with pytest.raises(InvalidInput, match="freeze_encoder_after: the torso has no parameters that could be frozen"):
        train("dqn", "strange_envs:Pictures-v0", run_dir=str(tmp_path / "run"), torso=torso, **SMALL)
    assert not (tmp_path / "run").exists()


def test_an_optimizer_that_does_not_keep_encoders_apart_is_refused_before_anything_starts(tmp_path):
    torso = (lambda key, obs: {"w": jnp.ones(3)}, lambda params, obs: params["w"] * obs[:, 0, 0, :3] / 255.0)
    config = TrainConfig.default("dqn", "strange_envs:Gray-v0").override(**SMALL, frame_stack=3, torso=torso)
    interface = describe(config)
    require_updates(config.override(optimizer=optax.adafactor), interface)
    with pytest.raises(InvalidInput, match=r"freeze_encoder_after: expected an optimizer that keeps apart what .*flat"):
        require_updates(config.override(optimizer=lambda rate: optax.flatten(optax.adam(rate))), interface)
