"""Runs over the switch to stored embeddings: they finish, survive, resume and evaluate as any."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")
from whole_run import lose_all_rows, same

from drivetrain.cli import eval as cli_eval
from drivetrain.core.errors import RunError
from drivetrain.train import resume, train
from drivetrain.train.config.presets import preset
from drivetrain.train.ledger.rules import Origin, Rules
from drivetrain.train.run_dir.checkpoint import load_checkpoint, load_saved_policy, save_checkpoint

SMALL = {
    "num_actors": 0, "total_steps": 60, "envs_per_actor": 2, "warmup_steps": 40, "hidden": (8,), "batch_size": 4,
    "update_ratio": "1/4", "eval_interval_steps": 60, "eval_episodes": 1, "final_eval_episodes": 2,
    "capacity": 100, "updates_per_call": 2, "eval_max_steps": 10, "num_step": 2, "freeze_encoder_after": 60,
}  # fmt: skip
DETERMINISTIC = SMALL | {
    "deterministic": True, "envs_per_actor": 4, "frame_stack": 2, "total_steps": 120, "freeze_encoder_after": 61,
    "prioritized": False, "exploration_steps": 100,
}  # fmt: skip
FILM = ("dqn", "strange_envs:Film-v0")


@pytest.fixture
def importable(monkeypatch):
    """Lets processes of the test's own find the environments that it finds."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))


def frozen(run_dir):
    return {name: x for name, x in load_checkpoint(run_dir)[0].items() if name.startswith("encoder/")}


@pytest.mark.slow  # a run with processes that start twice
def test_processes_go_over_the_switch_with_exactly_the_updates_that_all_steps_call_for(tmp_path, capsys):
    settings = SMALL | {"num_actors": 1, "frame_stack": 2, "tolerance": 4, "total_steps": 100}
    result = train("dqn", "strange_envs:Gray-v0", run_dir=str(tmp_path / "run"), **settings)
    assert (result.num_steps, result.num_updates, len(result.returns)) == (100, 15, 2)
    assert "the encoder is frozen after step 60" in capsys.readouterr().err
    assert frozen(tmp_path / "run").keys() >= {"encoder/actor/conv0.weight", "encoder/actor/dense.bias"}


@pytest.mark.slow  # three runs each
@pytest.mark.parametrize(
    ("algo", "env", "settings"),
    [
        ("dqn", "Gray", {"frame_stack": 2, "num_actors": 1, "tolerance": 4}),
        ("sac", "Driven", {"normalize_rewards": True}),
        ("td3", "Seeing", {}),
        ("ddpg", "Driven", {"num_actors": 2, "envs_per_actor": 1}),
    ],
)
def test_a_run_over_the_switch_finishes_resumes_and_evaluates_while_encoders_stand_still(
    tmp_path, capsys, algo, env, settings
):
    run_dir = tmp_path / "run"
    train(algo, f"strange_envs:{env}-v0", run_dir=str(run_dir), **SMALL | settings)
    assert frozen(run_dir) == {}, "the run ended where the switch would be"
    result = resume(str(run_dir), total_steps=100)
    assert (result.num_steps, result.num_updates) == (100, 15)
    assert "the encoder is frozen after step 60" in capsys.readouterr().err
    first, old = frozen(run_dir), load_checkpoint(run_dir)[0]
    assert first
    result = resume(str(run_dir), total_steps=120)
    assert (result.num_steps, result.num_updates) == (120, 20)
    new = load_checkpoint(run_dir)[0]
    assert same(first, frozen(run_dir))
    moved = [name for name in new if name.startswith("state/") and not np.array_equal(new[name], old[name])]
    assert any(name.endswith("hidden0.weight") for name in moved), "the layers above learn"
    num_frozen = sum(x.size for name, x in first.items() if name.startswith("encoder/actor/"))
    published = load_saved_policy(result.run_dir, "last").vector
    assert np.array_equal(published[:num_frozen], old["params"][:num_frozen])
    assert not np.array_equal(published[num_frozen:], old["params"][num_frozen:])
    flags = ["--which", "last", "--episodes", "2", "--json", str(tmp_path / "eval.json")]
    assert cli_eval.run([str(run_dir), *flags]) == 0
    assert len(json.loads((tmp_path / "eval.json").read_text())["returns"]) == 2


@pytest.mark.slow  # a run more
def test_a_callback_that_stops_the_run_before_the_switch_ends_it_there(tmp_path):
    stopping = {"run_dir": str(tmp_path / "run"), "callbacks": [lambda _: "stop"]}
    result = train(*FILM, **stopping, **DETERMINISTIC | {"log_interval_steps": 4})
    assert result.num_steps < 60
    assert len(result.returns) == 2
    assert frozen(tmp_path / "run") == {}


KILLED = """
import os, signal, sys
from drivetrain.train import train
from drivetrain.train.run_dir import checkpoint
from drivetrain.train.runs import freezing

instant, settings = sys.argv[1], eval(sys.argv[2])
save_checkpoint, save_text = checkpoint.save_checkpoint, checkpoint.save_text

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def save(*args, **options):
    if instant == "before":
        die()
    if instant == "without a manifest":
        checkpoint.save_text = die
    save_checkpoint(*args, **options)
    die()

freezing.save_checkpoint = save
train(*{what!r}, **settings)
""".replace("{what!r}", repr(FILM))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The checkpoint, the result and the events of a deterministic run over the switch."""
    events, run_dir = [], tmp_path_factory.mktemp("whole") / "run"
    result = train(*FILM, run_dir=str(run_dir), callbacks=[events.append], **DETERMINISTIC)
    return load_checkpoint(run_dir)[0], result, events


@pytest.mark.whole
def test_a_run_makes_the_switch_by_itself_and_its_result_is_that_of_the_whole(whole):
    arrays, result, events = whole
    assert (result.num_steps, result.num_updates, len(result.returns)) == (120, 20, 2)
    assert [event.kind for event in events].count("end") == 1
    assert {"encoder/actor/conv0.weight", "windows/obs/actor"} <= arrays.keys()


@pytest.mark.whole
@pytest.mark.parametrize(
    "instant",
    [
        "without a manifest",
        pytest.param("before", marks=pytest.mark.slow),  # a process and a run each
        pytest.param("after", marks=pytest.mark.slow),
    ],
)
def test_a_run_killed_at_the_switch_ends_as_one_that_was_not(tmp_path, importable, whole, instant):
    settings = DETERMINISTIC | {"run_dir": str(tmp_path / "run")}
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, instant, repr(settings)], capture_output=True, text=True, check=False
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert bool(frozen(tmp_path / "run")) == (instant == "after")
    result = resume(tmp_path / "run")
    assert (result.num_steps, result.num_updates) == (120, 20)
    assert same(load_checkpoint(tmp_path / "run")[0], whole[0])


@pytest.mark.whole
@pytest.mark.parametrize(
    ("num_saved", "left"),
    [(1, "the latest checkpoint is "), pytest.param(0, "there is no checkpoint yet", marks=pytest.mark.slow)],
)
def test_a_run_whose_disk_was_full_at_the_switch_goes_on_from_before_and_not_as_if_that_were_the_switch(
    tmp_path, monkeypatch, whole, num_saved, left
):
    saves = []

    def save_until_full(*args, **options):
        saves.append(args)
        if len(saves) > num_saved:
            raise OSError(28, "No space left on device")
        return save_checkpoint(*args, **options)

    with monkeypatch.context() as patched:
        patched.setattr("drivetrain.train.run_dir.saving.save_checkpoint", save_until_full)
        with pytest.raises(RunError, match=f"expected one of step 64, after .*; free some room, and .*; {left}"):
            train(*FILM, run_dir=str(tmp_path / "run"), **DETERMINISTIC)
    result = resume(tmp_path / "run")
    assert (result.num_steps, result.num_updates) == (120, 20)
    assert same(load_checkpoint(tmp_path / "run")[0], whole[0])


@pytest.mark.slow  # runs of processes
def test_a_deterministic_run_over_the_switch_gives_the_same_bits_with_any_number_of_actors(tmp_path):
    found = []
    for num_actors in (1, 2):
        settings = DETERMINISTIC | {"num_actors": num_actors, "envs_per_actor": 4 // num_actors}
        train(*FILM, run_dir=str(tmp_path / str(num_actors)), **settings)
        found.append(load_checkpoint(tmp_path / str(num_actors))[0])
    assert same(*found)


@pytest.mark.slow  # compiles for images, three times
@pytest.mark.parametrize("first_steps", [48, 64, 88], ids=["before the switch", "at the switch", "after the switch"])
def test_a_deterministic_run_over_the_switch_that_ends_and_is_resumed_gives_what_all_steps_give(
    tmp_path, whole, first_steps
):
    train(*FILM, run_dir=str(tmp_path / "run"), **DETERMINISTIC | {"total_steps": first_steps})
    resume(tmp_path / "run", total_steps=120)
    assert same(load_checkpoint(tmp_path / "run")[0], whole[0])


@pytest.mark.slow  # a run of processes each
@pytest.mark.parametrize("num_actors", [0, 1])
def test_several_learners_go_over_the_switch_together(start, importable, num_actors):
    flags = [
        "--num-actors", str(num_actors), "--num-learners", "2", "--oversubscribe", "--envs-per-actor", "2",
        "--warmup-steps", "40", "--hidden", "8", "--batch-size", "32", "--update-ratio", "1/4", "--capacity", "100",
        "--total-steps", "100", "--freeze-encoder-after", "60", "--eval-episodes", "1", "--final-eval-episodes", "1",
        "--eval-max-steps", "10", "--updates-per-call", "2",
    ]  # fmt: skip
    run = start(*flags, what=FILM)
    run.process.wait(timeout=300)
    code, _, err = run.end()
    assert code == 0, err
    assert "the encoder is frozen after step 60" in err
    assert frozen(run.run_dir)


TIGHT = SMALL | {
    "total_steps": 4, "warmup_steps": 6, "freeze_encoder_after": 7, "update_ratio": "1", "tolerance": 0,
}  # fmt: skip


@pytest.mark.slow  # runs that compile for images, twice
@pytest.mark.parametrize("num_actors", [0, 1])
def test_a_switch_right_behind_a_warm_up_that_has_lost_rows_waits_for_them(tmp_path, capsys, num_actors):
    run_dir = tmp_path / "run"
    train("dqn", "strange_envs:Gray-v0", run_dir=str(run_dir), **TIGHT | {"num_actors": num_actors})
    lose_all_rows(run_dir)
    assert resume(run_dir, total_steps=40).num_updates == 40 - 6
    assert "the encoder is frozen after step 10: " in capsys.readouterr().err


def test_a_run_whose_switch_has_waited_for_rows_goes_on_to_it_whenever_it_is_taken_up():
    config = preset("dqn", "strange_envs:Gray-v0").override(**TIGHT | {"total_steps": 40})
    taken_up = [Origin(num_steps=4, refill_until=10), Origin(num_steps=10, num_updates=2), Origin(refill_until=40)]
    assert [Rules.of(config, origin).switch_at for origin in taken_up] == [10, 10, None]
