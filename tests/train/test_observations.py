"""Whole runs on images, stacks of frames and nested observations, and what the replay keeps of them."""

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")

from drivetrain.train import train
from drivetrain.train.actor.actor import Actor
from drivetrain.train.config import TrainConfig
from drivetrain.train.experience.experience import make_replay, writers
from drivetrain.train.networks import initial_vector
from drivetrain.train.policies.policy import make_policy, policy_network
from drivetrain.train.runs.requirements import describe

SMALL = {
    "num_actors": 0, "total_steps": 60, "envs_per_actor": 2, "warmup_steps": 40, "hidden": (8,), "batch_size": 4,
    "update_ratio": "1/4", "eval_interval_steps": 60, "eval_episodes": 1, "final_eval_episodes": 2,
    "capacity": 100, "updates_per_call": 2, "eval_max_steps": 10, "num_step": 2,
}  # fmt: skip


@pytest.mark.release
@pytest.mark.parametrize(
    ("algo", "env", "settings"),
    [
        ("dqn", "Gray", {"frame_stack": 2, "dueling": True}),
        ("sac", "Driven", {}),
        pytest.param("dqn", "Nested", {}, marks=pytest.mark.slow),
        pytest.param("td3", "Seeing", {}, marks=pytest.mark.slow),
        pytest.param("ddpg", "Driven", {}, marks=pytest.mark.slow),
    ],
)
def test_every_kind_of_observation_can_be_learned_from(tmp_path, algo, env, settings):
    result = train(algo, f"strange_envs:{env}-v0", run_dir=str(tmp_path), **{**SMALL, **settings})
    assert (result.num_steps, result.num_updates) == (60, 5)
    assert np.isfinite(result.returns).all()


def filled(config):
    """A replay that an actor of a run has written to."""
    interface = describe(config)
    replay = make_replay(config, interface, shared=False)
    vector = initial_vector(policy_network(config, interface), np.random.default_rng(0))
    policy = make_policy(config, interface, vector)
    actor = Actor(config, interface, policy, writers(replay, 0))
    for start in range(0, 40, 2):
        actor.step(2, start)
    actor.close()
    return replay


def config_for(env, **settings):
    fixed = {"num_actors": 1, "envs_per_actor": 2, "num_step": 1, "prioritized": False, "capacity": 1_000}
    return TrainConfig.default("dqn", f"strange_envs:{env}-v0").override(hidden=(8,), **fixed, **settings)


def test_frames_of_a_stack_are_stored_once_and_come_back_as_stacks():
    with filled(config_for("Gray", frame_stack=4)) as stacked, filled(config_for("Gray")) as single:
        data = stacked.sample(32, beta=1.0).data
        assert (data["obs"].dtype, data["obs"].shape) == (np.uint8, (32, 4, 40, 40))
        assert np.array_equal(data["obs"][:, 1:], data["next_obs"][:, :-1])
        assert stacked.nbytes < 1.3 * single.nbytes


def test_nested_observations_come_back_entry_by_entry():
    with filled(config_for("Nested")) as replay:
        obs = replay.sample(8, beta=1.0).data["obs"]
        assert {name: (array.dtype.name, array.shape[1:]) for name, array in obs.items()} == {
            "body.0": ("float32", (4,)),
            "body.1": ("int32", (1,)),
            "camera": ("uint8", (3, 40, 40)),
            "dials": ("int32", (2,)),
            "switches": ("int8", (3,)),
        }


def test_clipped_rewards_are_signs_in_the_replay():
    settings = {"num_actors": 1, "envs_per_actor": 2, "hidden": (8,), "num_step": 1, "capacity": 1_000}
    config = TrainConfig.default("sac", "strange_envs:Oblong-v0").override(**settings)
    with filled(config) as raw, filled(config.override(clip_rewards=True)) as clipped:
        assert not set(raw.sample(32, beta=1.0).data["reward"]) <= {-1.0, 0.0, 1.0}
        assert set(clipped.sample(32, beta=1.0).data["reward"]) <= {-1.0, 0.0, 1.0}
