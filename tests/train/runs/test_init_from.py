"""A run that begins with what another has learned: its networks and what they normalise by, and nothing else of it."""

import json
import shutil
import sys
from types import ModuleType

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")

import jax
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.spaces import Box
from whole_run import SMALL, rows_of

from drivetrain.core.errors import FileFormatError, InvalidInput
from drivetrain.train import resume, train, train_seeds
from drivetrain.train.run_dir.checkpoint import load_checkpoint, save_checkpoint

SAC = {**SMALL, "envs_per_actor": 2, "batch_size": 16, "total_steps": 300, "eval_max_steps": 20}


class Wide(CartPoleEnv):
    """CartPole that shows five numbers."""

    def __init__(self):
        super().__init__()
        self.observation_space = Box(-np.inf, np.inf, (5,), np.float32)


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """A DQN run on CartPole with some updates behind it."""
    run_dir = tmp_path_factory.mktemp("learned") / "run"
    train("dqn", "CartPole-v1", total_steps=400, num_actors=0, seed=1, run_dir=run_dir, **SMALL)
    return run_dir


def state_of(run_dir):
    return load_checkpoint(run_dir)[0]


def begun(learned, run_dir, **settings):
    """A run that takes its warm-up's steps and learns nothing more."""
    settings = {**SMALL, "total_steps": 200, "num_actors": 0, "seed": 2, **settings}
    return train("dqn", "CartPole-v1", run_dir=run_dir, init_from=learned, **settings)


def test_a_run_begins_with_the_last_networks_of_another_and_streams_moments_and_counts_of_its_own(
    learned, tmp_path, capfd
):
    result = begun(learned, tmp_path / "run")
    assert (result.num_steps, result.num_updates) == (200, 0)
    theirs, ours = state_of(learned), state_of(tmp_path / "run")
    own = {name for name in theirs if name.startswith("state/") and not np.array_equal(theirs[name], ours[name])}
    assert {name.split("/")[1] for name in own} == {"optimizer", "key", "num_updates"}
    assert not any(ours[name].any() for name in own if name.startswith("state/optimizer"))
    np.testing.assert_array_equal(ours["params"], theirs["params"])
    assert f"begins with what {learned} has learned in 400 steps" in capfd.readouterr().err
    assert json.loads((tmp_path / "run" / "config.json").read_text())["run"]["init_from"] == str(learned)


@pytest.mark.whole
@pytest.mark.parametrize("settings", [{}, {"deterministic": True}])
def test_so_does_a_run_with_processes(learned, tmp_path, settings):
    begun(learned, tmp_path / "run", num_actors=1, **settings)
    theirs, ours = state_of(learned), state_of(tmp_path / "run")
    np.testing.assert_array_equal(ours["params"], theirs["params"])
    for name in (name for name in theirs if name.startswith(("state/params", "state/target"))):
        np.testing.assert_array_equal(ours[name], theirs[name])


@pytest.mark.whole
def test_actors_and_the_first_evaluation_play_by_what_the_run_begins_with(learned, tmp_path):
    policy_of_theirs = state_of(learned)["params"]
    result = begun(learned, tmp_path / "run", num_actors=1, warmup_steps=500, total_steps=500, final_eval_episodes=4)
    evaluated = np.load(tmp_path / "run" / "best" / "policy.npz")["params"]
    np.testing.assert_array_equal(evaluated, policy_of_theirs)
    again = begun(learned, tmp_path / "again", warmup_steps=500, total_steps=500, final_eval_episodes=4)
    assert again.returns == result.returns, "of the same policy on the same episodes, with another form of run"


@pytest.mark.whole
def test_it_learns_from_there_on_the_same_with_one_process_and_several(learned, tmp_path):
    settings = {"deterministic": True, "total_steps": 400}
    runs = [begun(learned, tmp_path / str(count), num_actors=count, **settings) for count in (0, 1)]
    states = [state_of(run.run_dir) for run in runs]
    assert runs[0].num_updates == 100
    np.testing.assert_array_equal(states[0]["params"], states[1]["params"])
    assert not np.array_equal(states[0]["params"], state_of(learned)["params"])


@pytest.mark.whole
@pytest.mark.parametrize("num_actors", [0, 1])
def test_what_observations_are_normalised_by_goes_on_from_the_other_run(tmp_path, num_actors):
    settings = {**SAC, "normalize_observations": True, "normalize_rewards": True}
    train("sac", "Pendulum-v1", num_actors=0, seed=1, run_dir=tmp_path / "first", **settings)
    again = {**settings, "total_steps": 200, "num_actors": num_actors, "init_from": tmp_path / "first"}
    train("sac", "Pendulum-v1", seed=2, run_dir=tmp_path / "second", **again)
    seen = [state_of(tmp_path / name)["moments"][:, 0].sum() for name in ("first", "second")]
    assert seen[1] == seen[0] + 200


@pytest.mark.whole
def test_a_temperature_goes_on_where_it_is_learned_and_is_the_setting_where_not(tmp_path):
    settings = {**SAC, "num_actors": 0, "initial_temperature": 0.5}
    train("sac", "Pendulum-v1", run_dir=tmp_path / "first", **settings)
    reached = state_of(tmp_path / "first")["state/log_alpha"]
    assert reached != np.log(np.float32(0.5))
    again = {**settings, "total_steps": 200, "init_from": tmp_path / "first"}
    train("sac", "Pendulum-v1", run_dir=tmp_path / "learned", **again)
    assert state_of(tmp_path / "learned")["state/log_alpha"] == reached
    train("sac", "Pendulum-v1", run_dir=tmp_path / "fixed", **again, learn_temperature=False)
    assert state_of(tmp_path / "fixed")["state/log_alpha"] == np.log(np.float32(0.5))


@pytest.mark.whole
def test_ppo_begins_with_both_its_heads(tmp_path):
    small = {"num_envs": 2, "rollout_length": 32, "batch_size": 16, "num_epochs": 1, "final_eval_episodes": 2}
    settings = {**small, "num_actors": 0, "eval_episodes": 2}
    train("ppo", "CartPole-v1", total_steps=128, run_dir=tmp_path / "first", **settings)
    rows = {}
    for name, more in {"drawn": {}, "begun": {"init_from": tmp_path / "first"}}.items():
        run = train(
            "ppo", "CartPole-v1", total_steps=64, run_dir=tmp_path / name, learning_rate=1e-30, **settings, **more
        )
        rows[name] = state_of(run.run_dir)
    first = state_of(tmp_path / "first")
    networks = [name for name in first if name.startswith("state/params")]
    assert networks
    for name in networks:
        np.testing.assert_array_equal(rows["begun"][name], first[name])
    assert any(not np.array_equal(rows["drawn"][name], first[name]) for name in networks)


@pytest.mark.whole
def test_a_run_killed_before_its_first_checkpoint_begins_so_again_though_the_other_is_gone(
    learned, tmp_path, monkeypatch
):
    shutil.copytree(learned, tmp_path / "theirs")
    monkeypatch.setattr("drivetrain.train.runs.run.carry_out", lambda job: None)  # and is killed
    begun(tmp_path / "theirs", tmp_path / "run")
    monkeypatch.undo()
    shutil.rmtree(tmp_path / "theirs")
    assert resume(tmp_path / "run").num_updates == 0
    np.testing.assert_array_equal(state_of(tmp_path / "run")["params"], state_of(learned)["params"])
    assert resume(tmp_path / "run", total_steps=400).num_updates == 100
    assert [row["num_steps"] for row in rows_of(tmp_path / "run")][-1] == 400


@pytest.mark.whole
def test_each_seed_begins_with_the_same_networks(learned, tmp_path):
    settings = {**SMALL, "total_steps": 200, "num_actors": 0}
    found = train_seeds("dqn", "CartPole-v1", seeds=(3, 4), run_dir=tmp_path / "runs", init_from=learned, **settings)
    for result in found.results.values():
        np.testing.assert_array_equal(state_of(result.run_dir)["params"], state_of(learned)["params"])


@pytest.mark.parametrize(
    ("algo", "env", "settings", "sentence"),
    [
        ("ppo", "CartPole-v1", {"init_from": ...}, r"init_from: expected a run of ppo, got one of dqn, .*run; give"),
        (
            "dqn",
            "Acrobot-v1",
            {"init_from": ...},
            r"init_from: expected a run in an environment with the spaces of 'Acrobot-v1', got .*run: its action space "
            r"was Discrete\(2\), and is Discrete\(3\); give another",
        ),
        ("dqn", Wide, {"init_from": ...}, "its observation space was a Box of 4 numbers .*, and is a Box of 5 numbers"),
        ("dqn", "CartPole-v1", {"init_from": ..., "hidden": (8, 8)}, r"hidden: expected \[16\] beside init_from, as"),
        ("dqn", "CartPole-v1", {"init_from": ..., "dueling": True}, "dueling: expected False beside init_from"),
        (
            "dqn",
            "CartPole-v1",
            {"init_from": ..., "normalize_observations": True},
            "normalize_observations: expected False beside init_from, as .*run has it, got True; give the same",
        ),
        ("dqn", "CartPole-v1", {"init_from": ..., "frame_stack": 2}, "frame_stack: expected 1 beside init_from, as"),
        (
            "dqn",
            "CartPole-v1",
            {"init_from": "absent"},
            r"init_from: expected the folder of a run, and .*absent is none",
        ),
        ("dqn", "CartPole-v1", {"init_from": ""}, "init_from: expected the folder of a run, or None, got ''"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence_before_anything_starts(
    learned, tmp_path, algo, env, settings, sentence
):
    settings = {name: learned if value is ... else value for name, value in settings.items()}
    small = {"hidden": (16,), "num_actors": 0, **settings}
    with pytest.raises(InvalidInput, match=sentence):
        train(algo, env, total_steps=1_000, run_dir=tmp_path / "run", **small)
    assert not (tmp_path / "run").exists()


def test_a_run_without_a_checkpoint_or_with_a_frozen_encoder_is_no_beginning(learned, tmp_path):
    shutil.copytree(learned, tmp_path / "frozen")
    arrays, meta = load_checkpoint(learned)
    save_checkpoint(tmp_path / "frozen", arrays, {**meta, "encoder_frozen": True})
    with pytest.raises(InvalidInput, match=r"expected a run that learns from images, got .*frozen, whose encoder is"):
        begun(tmp_path / "frozen", tmp_path / "run")
    shutil.rmtree(tmp_path / "frozen" / "checkpoint")
    with pytest.raises(FileFormatError, match="there is no checkpoint here"):
        begun(tmp_path / "frozen", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_whose_networks_to_begin_with_were_taken_away_says_so(learned, tmp_path, monkeypatch):
    monkeypatch.setattr("drivetrain.train.runs.run.carry_out", lambda job: None)  # and is killed
    begun(learned, tmp_path / "run")
    (tmp_path / "run" / "initial.npz").unlink()
    monkeypatch.undo()
    with pytest.raises(FileFormatError, match=r"initial\.npz: there is no beginning here"):
        resume(tmp_path / "run")


def test_a_torso_of_the_same_name_that_is_another_by_now_is_told_by_its_size(learned, tmp_path):
    shutil.copytree(learned, tmp_path / "other")
    arrays, meta = load_checkpoint(learned)
    save_checkpoint(tmp_path / "other", {**arrays, "params": arrays["params"][1:]}, meta)
    with pytest.raises(InvalidInput, match=r"expected a policy of 114 parameters, got float32\[113\] in .*other; give"):
        begun(tmp_path / "other", tmp_path / "run")


def torso(first="weight", second="shift", *, turned=False):
    """Sixteen features of four numbers; parameters by these names, the first one's axes maybe the other way round."""

    def init(key, obs):
        weight = jax.random.normal(key, (obs.shape[-1], 12))
        return {first: weight.T if turned else weight, second: jax.numpy.zeros(4)}

    def apply(params, obs):
        features = obs @ (params[first].T if turned else params[first])
        return jax.numpy.concatenate([features, jax.numpy.broadcast_to(params[second], (len(obs), 4))], axis=-1)

    return init, apply


@pytest.mark.whole
@pytest.mark.parametrize(
    ("another", "sentence"),
    [
        (
            torso(turned=True),
            r"torso: expected one with the parameters that .*first has learned, and params/torso.weight is "
            r"float32\[4, 12\] there, and float32\[12, 4\] here; give the torso",
        ),
        (torso("weight", "bias"), r"params/torso.bias is none there, and float32\[4\] here"),
        (torso("other"), r"params/torso.other is none there, and float32\[4, 12\] here"),
    ],
)
def test_a_torso_of_as_many_parameters_in_another_order_is_refused_before_anything_starts(tmp_path, another, sentence):
    settings = {**SMALL, "num_actors": 0, "total_steps": 200}
    train("dqn", "CartPole-v1", run_dir=tmp_path / "first", torso=torso(), **settings)
    with pytest.raises(InvalidInput, match=sentence):
        begun(tmp_path / "first", tmp_path / "run", torso=another)
    assert not (tmp_path / "run").exists()
    begun(tmp_path / "first", tmp_path / "run", torso=torso())
    np.testing.assert_array_equal(state_of(tmp_path / "run")["params"], state_of(tmp_path / "first")["params"])


@pytest.mark.whole
def test_a_torso_that_was_an_object_may_be_given_by_a_name_and_one_with_a_name_as_an_object(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torsos_of_ours", ModuleType("torsos_of_ours"))
    for name in ("known", "moved"):
        monkeypatch.setattr("torsos_of_ours." + name, torso(), raising=False)
    settings = {**SMALL, "num_actors": 0, "total_steps": 200}
    for first, then in ((torso(), "torsos_of_ours:known"), ("torsos_of_ours:known", torso())):
        train("dqn", "CartPole-v1", run_dir=tmp_path / "first", torso=first, **settings)
        begun(tmp_path / "first", tmp_path / "run", torso=then)
        np.testing.assert_array_equal(state_of(tmp_path / "run")["params"], state_of(tmp_path / "first")["params"])
        with pytest.raises(InvalidInput, match=r"torso: expected .* beside init_from, as .*first has it, got auto"):
            begun(tmp_path / "first", tmp_path / "other")
        shutil.rmtree(tmp_path / "run")
        shutil.rmtree(tmp_path / "first")
    train("dqn", "CartPole-v1", run_dir=tmp_path / "first", torso="torsos_of_ours:known", **settings)
    with pytest.raises(InvalidInput, match=r"torso: expected torsos_of_ours:known beside init_from, as .* got torsos"):
        begun(tmp_path / "first", tmp_path / "run", torso="torsos_of_ours:moved")


def test_the_result_of_the_other_run_is_told_to_have_its_folder(learned, tmp_path):
    first = begun(learned, tmp_path / "first")
    with pytest.raises(InvalidInput, match=r"init_from: expected text or None, got Result\(.*; give its run_dir$"):
        begun(first, tmp_path / "run")


def test_the_path_of_the_other_run_is_kept_whole(learned, tmp_path, monkeypatch):
    shutil.copytree(learned, tmp_path / "theirs")
    monkeypatch.chdir(tmp_path)
    result = begun("theirs", "ours")
    settings = json.loads((result.run_dir / "config.json").read_text())
    assert settings["run"]["init_from"] == str(tmp_path / "theirs")
