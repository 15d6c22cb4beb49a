"""What the command line of `drivetrain train` shows before anything starts."""

import json

import pytest

pytest.importorskip("gymnasium", reason="needs the train extra")

from drivetrain.cli.main import main
from drivetrain.train.config import AGENTS
from drivetrain.train.presets import PRESETS, preset


def test_show_config_prints_the_resolved_settings_and_starts_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "sac", "Pendulum-v1", "--show-config", "--seed", "3", "--batch-size", "128"]) == 0
    shown = json.loads(capsys.readouterr().out)
    expected = preset("sac", "Pendulum-v1").override(seed=3, batch_size=128, num_actors=shown["run"]["num_actors"])
    known = shown.pop("preset")
    assert known == {"source": PRESETS["sac", "Pendulum-v1"].source, "verified": PRESETS["sac", "Pendulum-v1"].verified}
    assert shown == json.loads(expected.to_json())
    assert isinstance(shown["run"]["num_actors"], int)
    assert list(tmp_path.iterdir()) == []


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


@pytest.mark.parametrize(("algo", "env"), [*PRESETS, ("dqn", "Nobody-v0")])
def test_every_preset_is_a_valid_configuration_for_two_cores(algo, env):
    assert preset(algo, env).override(num_actors=1).algo == algo
