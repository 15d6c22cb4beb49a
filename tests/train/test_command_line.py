"""What the command line of `drivetrain train` shows before anything starts."""

import ctypes
import json
import sys

import pytest

pytest.importorskip("gymnasium", reason="needs the train extra")

from drivetrain.cli import train
from drivetrain.cli.main import main
from drivetrain.cli.train import announce, show
from drivetrain.core.errors import InvalidInput
from drivetrain.train.config import AGENTS, TrainConfig
from drivetrain.train.config.presets import PRESETS, preset, preset_for
from drivetrain.train.interface import DiscreteActions, Interface, Vector
from drivetrain.train.run_dir.results import Result

CHOICES = Interface(observations=Vector(shape=(3,)), actions=DiscreteActions(count=2, start=0))


def test_what_an_environment_prints_while_it_is_measured_is_not_among_the_settings_that_are_shown(capfd, monkeypatch):
    def sized(config):
        sys.stdout.write("a banner\n")
        ctypes.CDLL(None).puts(b"a banner of C")
        return config.override(num_actors=1), "as told"

    monkeypatch.setattr(train, "sized", sized)
    assert main(["train", "dqn", "CartPole-v1", "--num-actors", "auto", "--show-config"]) == 0
    out, err = capfd.readouterr()
    assert json.loads(out)["sized"] == "as told"
    assert err.splitlines() == ["a banner", "a banner of C", "sized: as told"]


def test_show_config_prints_the_resolved_settings_and_starts_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "sac", "Pendulum-v1", "--show-config", "--seed", "3", "--batch-size", "128"]) == 0
    shown = json.loads(capsys.readouterr().out)
    expected = preset("sac", "Pendulum-v1").override(seed=3, batch_size=128, num_actors=shown["run"]["num_actors"])
    known = shown.pop("preset")
    assert known == {"source": PRESETS["sac", "Pendulum-v1"].source, "verified": "not verified with batch_size"}
    assert shown["run"].pop("num_learners") == "worthwhile"  # which is settled when a run begins
    (settled := json.loads(expected.to_json()))["run"].pop("num_learners")
    assert shown == settled
    assert isinstance(shown["run"]["num_actors"], int)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("env", [
    "Foo-v0", "CartPole-v7", "drivetrain/Foo", "ALE/Foo-v5", "no_such_module:Foo-v0",
    pytest.param("gymnax/Foo", marks=pytest.mark.release),
])  # fmt: skip
def test_show_config_refuses_environments_that_do_not_exist_as_training_does(capsys, env):
    if env.startswith("ALE/"):
        pytest.importorskip("ale_py", reason="needs the atari extra")
    if env.startswith("gymnax/"):
        pytest.importorskip("gymnax", reason="needs the gymnax extra")
    words = ["train", "dqn", env]
    assert main([*words, "--show-config"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert main(words) == 2
    assert capsys.readouterr().err == err
    assert f"environment {env!r} cannot be made: " in err
    assert main(["train", "dqn", "drivetrain/no_such_module:Foo", "--show-config"]) == 2
    assert "cannot be made: No module named 'no_such_module'; go to the folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    "env", ["CartPole", "CartPole-v0", "PongNoFrameskip-v4", "drivetrain/Snake", "faulty_envs:NeverMade"]
)
def test_show_config_makes_no_environment_to_see_whether_there_is_one(capsys, env):
    if env.startswith("Pong"):
        pytest.importorskip("ale_py", reason="needs the atari extra")
    assert main(["train", "ppo", env, "--show-config"]) == 0
    assert json.loads(capsys.readouterr().out)["env"] == env


@pytest.mark.parametrize("algo", AGENTS)
def test_help_lists_the_settings_of_that_algorithm_and_no_others(algo, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["train", algo, "--help"])
    shown = capsys.readouterr().out
    assert ended.value.code == 0
    assert "--batch-size" in shown
    assert ("--epsilon-end" in shown) == (algo == "dqn")
    assert ("--target-entropy" in shown) == (algo == "sac")
    assert ("--policy-delay" in shown) == (algo == "td3")


def help_of(words, capsys):
    with pytest.raises(SystemExit):
        main(["train", *words, "--help"])
    return " ".join(capsys.readouterr().out.replace("│", " ").split())


def test_help_says_which_algorithms_and_environments_there_are_and_whose_settings_it_shows(capsys):
    shown = help_of([], capsys)
    assert all(algo in shown.partition("ENV: ")[0].partition("ALGO: ")[2] for algo in AGENTS)
    assert all(form in shown for form in ("CartPole-v1", "module:Id", "module:function", "drivetrain/NAME", "gymnax/"))
    assert "Below: the settings of dqn, with" in shown
    assert "Below: the settings of ppo, with" in help_of(["ppo"], capsys)
    assert "Below: the settings of sac on Pendulum-v1, with" in help_of(["sac", "Pendulum-v1"], capsys)


def test_help_has_what_is_no_setting_among_the_options_and_the_defaults_of_a_variant(capsys):
    shown = help_of(["dqn"], capsys)
    assert all(f"{flag} " in shown for flag in ("--preset None|STR", "--seeds None|STR", "--show-config"))
    assert "--no-show-config" not in shown
    assert "still applies. (default: False)" in shown
    assert "still applies. (default: True)" in help_of(["dqn", "--preset", "rainbow"], capsys)


@pytest.mark.parametrize("words", [[], ["dqn"], ["--show-config"], ["dqn", "--seed", "3"]])
def test_a_command_without_algorithm_or_environment_is_told_which_algorithms_there_are(words, capsys):
    assert main(["train", *words]) == 2
    said = capsys.readouterr().err
    assert "expected an algorithm and an environment first" in said
    assert ", ".join(AGENTS) in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(("algo", "env"), [*PRESETS, ("dqn", "Nobody-v0")])
def test_every_preset_is_a_valid_configuration_for_two_cores(algo, env):
    assert preset(algo, env).override(num_actors=1).algo == algo


@pytest.mark.parametrize("algo", ["dqn", "ppo"])
def test_all_games_of_atari_start_from_the_settings_of_pong(algo):
    pong, other = (preset_for(algo, f"ALE/{game}-v5") for game in ("Pong", "Breakout"))
    assert other.settings == pong.settings
    assert (other.source, other.verified) == (f"those of ALE/Pong-v5: {pong.source}", "not verified")
    assert preset(algo, "ALE/Breakout-v5").environment.atari
    assert not preset_for("sac", "ALE/Breakout-v5").settings
    assert not preset_for(algo, "Nobody/Breakout-v5").settings


def test_games_without_their_preprocessing_lose_its_settings_as_they_do_in_python():
    words, usual = ["dqn", "ALE/Breakout-v5"], preset("dqn", "ALE/Breakout-v5")
    for off in (["--no-atari"], ["--no_atari"], ["--atari", "--no-atari"]):
        assert train.parse([*words, *off]) == usual.override(atari=False)
    assert train.parse([*words, "--no-atari", "--atari"]) == usual
    with pytest.raises(InvalidInput, match=r"^frame_skip: expected 4 without atari, got 3; "):
        train.parse([*words, "--no-atari", "--frame-skip", "3"])


@pytest.mark.parametrize(("warmup_steps", "says"), [(1_000, True), (999, True), (998, False)])
def test_a_run_too_short_for_an_update_says_so_when_it_begins(capsys, warmup_steps, says):
    config = TrainConfig.default("dqn", "CartPole-v1").override(num_actors=1, total_steps=1_000)
    announce(config.override(warmup_steps=warmup_steps, update_ratio="1/2"), CHOICES)
    assert ("nothing will be learned" in capsys.readouterr().err) == says


def test_a_run_that_learns_after_its_encoder_is_frozen_alone_is_not_said_to_learn_nothing(capsys):
    config = TrainConfig.default("dqn", "images:Any-v0").override(num_actors=1, total_steps=1_000, warmup_steps=500)
    announce(config.override(freeze_encoder_after=501, update_ratio="1/2"), CHOICES)
    assert capsys.readouterr().err == ""


def test_numbers_are_read_as_people_write_them(capsys):
    words = ["--total-steps", "1e5", "--warmup-steps", "2_000", "--update-ratio", "1/8", "--learning-rate", "1"]
    assert main(["train", "dqn", "CartPole-v1", "--show-config", "--hidden", "64", "1e2", *words]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["run"]["total_steps"], shown["updates"]["warmup_steps"]) == (100_000, 2_000)
    assert (shown["updates"]["update_ratio"], shown["agent"]["learning_rate"]) == ("1/8", 1.0)
    assert shown["agent"]["hidden"] == [64, 100]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--learning-rate", "abc"], "--learning-rate: expected a number, as 0.001 or 1e-3, got 'abc'"),
        (["--update-ratio", "1e9999"], "--update-ratio: expected a number or a fraction of two, as 4, 0.25 or 1/4"),
        (["--update-ratio", "1e-9999"], "--update-ratio: expected a number or a fraction of two, as 4, 0.25 or 1/4"),
        (["--update-ratio", "x"], "--update-ratio: expected a number or a fraction of two, as 4, 0.25 or 1/4"),
        (
            ["--hidden", "64,64"],
            "--hidden: expected values as --help shows them, with spaces between them, got '64,64'",
        ),
    ],
)
def test_what_is_no_number_is_answered_with_what_one_looks_like(capsys, words, said):
    assert main(["train", "dqn", "CartPole-v1", *words]) == 2
    assert capsys.readouterr().err.startswith(f"drivetrain: error: {said}")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["dqn", "--learning-starts", "5"], "perhaps you meant: --warmup-steps; "),
        (["dqn", "--output", "x"], "--output, x; perhaps you meant: --run-dir; "),
        (["sac", "--n_envs", "5", "--ent-coef", "1"], "--envs-per-actor for --n_envs, --initial-temperature for --ent"),
        (["ppo", "--n-envs", "5", "--ent-coef", "1"], "--num-envs for --n-envs, --entropy-coefficient for --ent-coef"),
        (["ppo", "--lr", "1", "--num-actor", "3"], "--learning-rate for --lr, --num-actors for --num-actor; "),
    ],
)
def test_flags_that_others_have_are_answered_with_ours(capsys, words, said):
    assert main(["train", words[0], "CartPole-v1", *words[1:]]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--show-confg"], "--show-confg; perhaps you meant: --show-config; "),
        (["--show"], "--show; perhaps you meant: --show-config; "),
        (["--show-config=true"], "--show-config=true; switches take no value: --NAME, or --no-NAME; "),
        (["--presets", "rainbow"], "--presets, rainbow; perhaps you meant: --preset; "),
        (["--sedes", "1..3"], "--sedes, 1..3; perhaps you meant: --seeds, --seed; "),
    ],
)
def test_flags_that_are_no_settings_are_guessed_too(capsys, words, said):
    assert main(["train", "dqn", "CartPole-v1", *words]) == 2
    assert said in capsys.readouterr().err


def test_show_config_may_be_written_as_settings_may(capsys):
    assert main(["train", "dqn", "CartPole-v1", "--num_actors", "0", "--show_config"]) == 0
    assert json.loads(capsys.readouterr().out)["run"]["num_actors"] == 0


@pytest.mark.parametrize("on_policy", [False, True])
def test_what_is_said_of_a_finished_run_is_what_its_kind_has(tmp_path, capsys, on_policy):
    result = Result(
        run_dir=tmp_path, returns=(1.0, 3.0), num_steps=256, num_updates=1, update_ratio=1 / 256, learning_s=2.0,
        checkpoint_nbytes=2048, replay_nbytes=0 if on_policy else 1024,
    )  # fmt: skip
    show(result, on_policy=on_policy)
    shown = capsys.readouterr().out
    assert "mean return 2.0" in shown
    assert "128 environment steps/s, 0 updates/s" in shown
    assert "checkpoint: 2.0" in shown
    assert [words in shown for words in ("updates per step after warm-up", "of which replay")] == [not on_policy] * 2


@pytest.mark.parametrize(("after", "says"), [(1_000, True), (5_000, True), (999, False)])
def test_a_run_that_ends_before_its_encoder_is_to_be_frozen_says_so_when_it_begins(capsys, after, says):
    config = TrainConfig.default("dqn", "images:Any-v0").override(num_actors=1, total_steps=1_000, warmup_steps=500)
    announce(config.override(freeze_encoder_after=after), CHOICES)
    assert ("nothing will be frozen" in capsys.readouterr().err) == says


@pytest.mark.parametrize(
    ("words", "changed"),
    [
        (["--no-prioritized", "--num-step", "1"], "num_step, prioritized"),
        (["--huber-delta", "inf"], "huber_delta"),
        (["--seed", "3", "--num-actors", "2", "--total-steps", "50000"], None),
        ([], None),
    ],
)
def test_returns_are_said_to_be_reached_with_the_settings_that_reached_them_alone(capsys, words, changed):
    assert main(["train", "dqn", "CartPole-v1", *words, "--show-config"]) == 0
    said = json.loads(capsys.readouterr().out)["preset"]["verified"]
    if changed is None:
        assert said == PRESETS["dqn", "CartPole-v1"].verified
    else:
        assert sorted(said.removeprefix("not verified with ").split(", ")) == changed.split(", ")


def test_returns_reached_with_other_numbers_of_steps_are_said_with_that_number(capsys):
    known = PRESETS["dqn", "CartPole-v1"].verified
    assert main(["train", "dqn", "CartPole-v1", "--total-steps", "9000", "--show-config"]) == 0
    assert json.loads(capsys.readouterr().out)["preset"]["verified"] == f"with total_steps 50,000: {known}"
    assert main(["train", "dqn", "MountainCar-v0", "--total-steps", "9000", "--show-config"]) == 0
    assert json.loads(capsys.readouterr().out)["preset"]["verified"] == "not verified"
