"""What comes to nothing in a run is said before it begins, from Python as on the command line."""

import pytest

pytest.importorskip("gymnasium", reason="needs the train extra")

from drivetrain.train import train, train_seeds
from drivetrain.train.config.presets import PRESETS, preset
from drivetrain.train.interface import BoxActions, DiscreteActions, Interface, Vector
from drivetrain.train.learner import devices
from drivetrain.train.runs import remarks as remarks_module
from drivetrain.train.runs.remarks import remarks

SHORT = {"total_steps": 100, "num_actors": 0, "final_eval_episodes": 1, "time_report": False}
REAL = Interface(
    observations=Vector(shape=(3,)), actions=BoxActions(low=(-1.0,), high=(1.0,), shape=(1,), dtype="float32")
)
CHOICES = Interface(observations=Vector(shape=(3,)), actions=DiscreteActions(count=2, start=0))


@pytest.mark.parametrize(
    ("algo", "settings", "said"),
    [
        ("dqn", {"prioritized": False, "alpha": 0.5}, "alpha 0.5 means nothing without prioritized"),
        ("td3", {"beta": 1.0}, "beta 1.0 means nothing without prioritized"),
        (
            "sac",
            {"alpha": 0.2},
            "alpha 0.2 means nothing without prioritized; the temperature is initial_temperature",
        ),
        ("sac", {"target_entropy": -3, "learn_temperature": False}, "target_entropy -3.0 means nothing without"),
        ("dqn", {"hindsight_strategy": "final"}, "hindsight_strategy final means nothing without hindsight_goals"),
        ("dqn", {"value_max": 500}, "value_max 500.0 means nothing without num_atoms above 1"),
        ("dqn", {"noise_scale": 0.1}, "noise_scale 0.1 means nothing without noisy"),
        ("dqn", {"huber_delta": 0.1, "num_atoms": 51}, "huber_delta 0.1 means nothing with num_atoms above 1, whose"),
        ("sac", {"adam_epsilon": 1e-3, "optimizer": "optax:adamw"}, "adam_epsilon 0.001 means nothing with another"),
        (
            "sac",
            {"initial_temperature": 0.1, "init_from": "x"},
            "initial_temperature 0.1 means nothing beside init",
        ),
        (
            "ppo",
            {"initial_log_std": -1, "init_from": "x"},
            "initial_log_std -1.0 means nothing beside init_from",
        ),
        (
            "dqn",
            {"noise_scale": 0.1, "noisy": True, "init_from": "x"},
            "noise_scale 0.1 means nothing beside init_from,",
        ),
        (
            "sac",
            {"hindsight_strategy": "final", "hindsight_goals": 4},
            "hindsight_goals 4 means no more than 1 with hindsight_strategy final, which has one goal",
        ),
    ],
)
def test_a_setting_without_the_one_that_it_needs_is_told_to_mean_nothing(algo, settings, said):
    (sentence,) = remarks(preset(algo, "nobody:Knows-v0").override(num_actors=1, **settings), REAL)
    assert sentence.startswith(said)


@pytest.mark.parametrize(
    ("algo", "settings"),
    [
        ("dqn", {"alpha": 0.5, "value_max": 500, "num_atoms": 51, "noise_scale": 0.1, "noisy": True}),
        ("sac", {"alpha": 0.2, "prioritized": True, "target_entropy": -3}),
        ("dqn", {"hindsight_strategy": "final", "hindsight_goals": 1}),
        ("sac", {"hindsight_strategy": "episode", "hindsight_goals": 4}),
        ("ppo", {"initial_log_std": -0.5}),
        ("sac", {"initial_temperature": 0.1, "learn_temperature": False, "init_from": "x"}),
    ],
)
def test_a_setting_beside_the_one_that_it_needs_is_not_remarked_upon(algo, settings):
    assert not remarks(preset(algo, "nobody:Knows-v0").override(num_actors=1, **settings), REAL)


@pytest.mark.parametrize(
    ("tiles", "plugin", "settings", "is_told"),
    [
        (False, None, {"precision": "bfloat16"}, True),
        (False, object(), {"precision": "bfloat16", "device": "cpu"}, True),
        (False, object(), {"precision": "bfloat16"}, False),  # JAX may see a GPU
        (False, None, {"precision": "bfloat16", "device": "gpu"}, False),  # refused where there is none
        (True, None, {"precision": "bfloat16"}, False),
        (False, None, {}, False),
    ],
)
def test_rounded_products_on_a_cpu_that_gains_nothing_by_them_are_told_to_be_slower(
    monkeypatch, tiles, plugin, settings, is_told
):
    monkeypatch.setattr(remarks_module, "has_tiles", lambda: tiles)
    monkeypatch.setattr(devices, "find_spec", {"jax_plugins": plugin}.__getitem__)
    told = remarks(preset("sac", "nobody:Knows-v0").override(num_actors=1, **settings), REAL)
    starts = [sentence.startswith("precision bfloat16 makes updates slower here") for sentence in told]
    assert starts == [True] * is_told


def test_the_spread_of_actions_that_have_none_is_told_to_mean_nothing():
    (sentence,) = remarks(preset("ppo", "nobody:Knows-v0").override(num_actors=1, initial_log_std=-0.5), CHOICES)
    assert sentence == "initial_log_std -0.5 means nothing without real-valued actions"
    assert not remarks(preset("ppo", "nobody:Knows-v0").override(num_actors=1), CHOICES)


@pytest.mark.whole
def test_the_kind_of_actions_is_known_when_a_run_begins_or_one_from_each_of_several_seeds(tmp_path, capsys):
    settings = {**SHORT, "total_steps": 64, "num_envs": 2, "rollout_length": 16, "batch_size": 32}
    train("ppo", "CartPole-v1", run_dir=tmp_path / "one", initial_log_std=-0.5, **settings)
    assert capsys.readouterr().err.count("initial_log_std -0.5 means nothing") == 1
    train_seeds("ppo", "CartPole-v1", seeds=[1, 2], run_dir=tmp_path / "two", initial_log_std=-0.5, **settings)
    assert capsys.readouterr().err.count("initial_log_std -0.5 means nothing") == 1


@pytest.mark.parametrize(("algo", "env"), list(PRESETS))
def test_nothing_in_a_preset_comes_to_nothing(algo, env):
    assert not remarks(preset(algo, env), REAL)
    assert not remarks(preset(algo, env).override(init_from="x"), REAL), "who begins a run has not asked for these"


@pytest.mark.whole
def test_python_is_told_once_for_a_run_and_once_for_all_seeds(tmp_path, capsys):
    train("dqn", "CartPole-v1", run_dir=tmp_path / "one", **SHORT)
    assert capsys.readouterr().err.count("nothing will be learned") == 1
    train_seeds("dqn", "CartPole-v1", seeds=[1, 2], run_dir=tmp_path / "two", **SHORT)
    assert capsys.readouterr().err.count("nothing will be learned") == 1
