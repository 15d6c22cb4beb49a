"""A run on what a script or notebook has itself goes on where that lies in a module since."""

import sys

import pytest

pytest.importorskip("jax", reason="needs the train extra")

import gymnasium

from drivetrain.core.errors import InvalidInput
from drivetrain.train import load_policy, resume, train
from drivetrain.train.config import TrainConfig

SMALL = {
    "num_actors": 0, "total_steps": 80, "envs_per_actor": 2, "warmup_steps": 40, "hidden": (8,), "batch_size": 4,
    "update_ratio": "1/4", "eval_interval_steps": 80, "eval_episodes": 1, "final_eval_episodes": 2, "capacity": 100,
}  # fmt: skip


def pole():
    return gymnasium.make("CartPole-v1", max_episode_steps=20)


def test_what_was_a_script_s_may_have_a_module_since(tmp_path, monkeypatch):
    main = sys.modules["__main__"]
    monkeypatch.setattr(main, "pole", pole, raising=False)
    train("dqn", "__main__:pole", run_dir=str(tmp_path), **SMALL)
    monkeypatch.delattr(main, "pole")
    with pytest.raises(
        InvalidInput, match="of a run that another began, put the class into a module and give it again"
    ):
        load_policy(tmp_path)
    assert len(load_policy(tmp_path, env="test_moved_scripts:pole").evaluate(2)) == 2
    assert resume(tmp_path, total_steps=100, env="test_moved_scripts:pole").num_steps == 100
    assert resume(tmp_path, total_steps=120).num_steps == 120


def test_a_simulator_of_a_script_likewise():
    data = TrainConfig.default("dqn", "drivetrain/__main__:Walk").to_dict()
    assert TrainConfig.from_dict(data, env="drivetrain/walks:Walk").env == "drivetrain/walks:Walk"
