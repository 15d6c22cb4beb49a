"""A resume says which settings of config.json do not hold, since the checkpoint has others."""

import dataclasses
import json

import pytest

pytest.importorskip("jax", reason="needs the train extra")

from whole_run import SMALL

from drivetrain.cli.main import main
from drivetrain.train import resume, train
from drivetrain.train.run_dir.checkpoint import load_checkpoint
from drivetrain.train.runs.edited import edited
from drivetrain.train.runs.resuming import Changes, prepare


def said(run_dir, **changes):
    """What is told of a resume with changes."""
    config, _ = prepare(run_dir, Changes(total_steps=10_000, **changes), {})
    return edited(run_dir, config, {}, taken=[field.name for field in dataclasses.fields(Changes)])


def edit(run_dir, **parts):
    path = run_dir / "config.json"
    config = json.loads(path.read_text())
    for part, settings in parts.items():
        config[part] = {**config[part], **settings} if isinstance(settings, dict) else settings
    path.write_text(json.dumps(config))


@pytest.mark.whole
@pytest.mark.parametrize(
    ("algo", "settings"),
    [
        ("dqn", {**SMALL, "num_actors": 0, "total_steps": 300}),
        ("ppo", {"num_actors": 0, "num_envs": 4, "rollout_length": 8, "batch_size": 32, "total_steps": 64,
                 "hidden": (8,), "eval_episodes": 1, "final_eval_episodes": 1}),
    ],
)  # fmt: skip
def test_what_was_edited_is_named_with_both_values_and_what_a_resume_takes_is_not(
    tmp_path, capsys, monkeypatch, algo, settings
):
    monkeypatch.setattr(
        "drivetrain.cli.resume.prepare_this_process", lambda config: None
    )  # others have their tests here
    run_dir = tmp_path / "run"
    train(algo, "CartPole-v1", run_dir=str(run_dir), **settings)
    assert said(run_dir) is None
    assert said(run_dir, num_actors=2) is None
    assert resume(run_dir, total_steps=settings["total_steps"] + 64, num_actors=0) is not None
    assert said(run_dir) is None
    edit(run_dir, run={"total_steps": 500, "run_dir": "elsewhere"})
    assert said(run_dir) is None
    edit(run_dir, run={"total_steps": 640, "log_interval_steps": 77}, environment={"clip_rewards": True})
    assert main(["resume", str(run_dir)]) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if "config.json" in line]
    usual = settings.get("log_interval_steps", 1_000)
    assert told == [
        f"{run_dir / 'config.json'} has other settings than the checkpoint, and the checkpoint's hold: "
        f"log_interval_steps {usual} (not 77), clip_rewards false (not true)"
    ]
    assert load_checkpoint(run_dir)[1]["num_steps"] == 640
    assert said(run_dir) is None, "it was written anew"
    edit(run_dir, env="Acrobot-v1")
    assert said(run_dir).endswith(': env "CartPole-v1" (not "Acrobot-v1")')
    edit(run_dir, run={"log_intervall_steps": 77})
    assert "the checkpoint's settings hold: " in said(run_dir)
    assert "log_intervall_steps" in said(run_dir)
