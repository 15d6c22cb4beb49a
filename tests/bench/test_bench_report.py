"""The JSON of a benchmark: the contract's fields, the direction of ratios, atomic writing."""

import json
import os
from pathlib import Path

import pytest

from drivetrain.bench.machine import Origin
from drivetrain.bench.publish import Outputs, publish
from drivetrain.bench.report import Case, Report, Skipped, Target, ahead, write_json
from drivetrain.core.errors import InvalidInput
from drivetrain.core.outputs import require_folders


def make_case(**changes):
    fields = {
        "name": "training",
        "unit": "CPU-s",
        "better": "lower",
        "samples": {"ours": [9.0, 10.0, 30.0], "SB3": [50.0, 60.0, 40.0], "SBX": [25.0, 20.0, 15.0]},
    }
    return Case(**(fields | changes))


def make_report(**changes):
    fields = {
        "title": "dqn on CartPole-v1",
        "origin": Origin(
            machine={"cpu": "a processor", "cores": 2},
            versions={"drivetrain": "0.1.0"},
            commit="abc",
            command="drivetrain bench train",
        ),
        "weaknesses": ["few seeds"],
        "cases": [make_case()],
        "skipped": [Skipped(name="SBX", reason="not installed: sbx", remedy="pip install sbx-rl")],
    }
    return Report(**(fields | changes))


def test_values_are_medians_and_the_ratio_is_against_the_best_peer():
    case = make_case().as_json()
    assert case["ours"] == 10.0
    assert case["peers"] == {"SB3": 50.0, "SBX": 20.0}
    assert case["ratios"] == {"SB3": 5.0, "SBX": 2.0}
    assert case["ratio"] == 2.0
    assert case["minima"] == {"ours": 9.0, "SB3": 40.0, "SBX": 15.0}


def test_a_ratio_is_above_one_when_we_are_ahead_in_either_direction():
    assert ahead(10.0, 50.0, "lower") == 5.0
    assert ahead(50.0, 10.0, "higher") == 5.0
    assert ahead(50.0, 10.0, "lower") == 0.2


def test_without_peers_there_is_no_ratio():
    case = make_case(samples={"ours": [1.0]}).as_json()
    assert case["peers"] == {}
    assert case["ratio"] is None


def test_a_peer_without_samples_is_no_peer():
    case = make_case(samples={"ours": [1.0], "SB3": []}).as_json()
    assert case["peers"] == {}
    assert case["minima"] == {"ours": 1.0}


def test_a_report_holds_every_field_of_the_contract_and_is_json():
    document = json.loads(json.dumps(make_report().as_json()))
    assert {"machine", "versions", "commit", "command", "cases", "weaknesses", "skipped"} <= set(document)
    assert {"name", "unit", "ours", "peers", "ratio"} <= set(document["cases"][0])
    assert document["skipped"] == [{"name": "SBX", "reason": "not installed: sbx", "remedy": "pip install sbx-rl"}]


def test_writing_replaces_the_file_and_leaves_no_draft(tmp_path):
    path = tmp_path / "report.json"
    path.write_text("old")
    write_json(path, {"answer": 42})
    assert json.loads(path.read_text()) == {"answer": 42}
    assert os.listdir(tmp_path) == ["report.json"]


def test_a_number_that_json_cannot_hold_is_refused(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "report.json", {"value": float("nan")})
    assert os.listdir(tmp_path) == []


def test_a_report_has_nothing_for_a_number_that_json_cannot_hold(tmp_path):
    samples = {"ours": [1.0], "SB3": [float("nan")]}
    case = make_case(
        samples=samples, details={"returns": (float("inf"), 1, None)}, targets=[Target(against="SB3", aim=2)]
    )
    (found,) = make_report(cases=[case]).as_json()["cases"]
    assert (found["peers"], found["ratios"], found["samples"]["SB3"]) == ({"SB3": None}, {"SB3": None}, [None])
    assert found["details"] == {"returns": [None, 1, None]}
    publish(make_report(cases=[case]), Outputs(json=tmp_path / "report.json"))
    assert json.loads((tmp_path / "report.json").read_text())["cases"] == [found]


def test_what_was_measured_is_shown_also_where_it_cannot_be_written(tmp_path, capsys):
    with pytest.raises(FileNotFoundError):
        publish(make_report(), Outputs(json=tmp_path / "gone" / "report.json"))
    assert "dqn on CartPole-v1" in capsys.readouterr().out


def test_a_path_that_no_report_can_be_written_to_is_refused_beforehand(tmp_path):
    (tmp_path / "old.json").write_text("{}")
    require_folders(None, tmp_path / "old.json", tmp_path / "new.json", Path("new.json"))
    for path, message in [
        (tmp_path, "expected the name of a file, got a folder"),
        (Path("/dev/null"), "got a folder or a device"),
        (tmp_path / "no" / "report.json", "its folder does not exist"),
        (Path("/proc/self/report.json") if os.geteuid() else Path("/dev/full"), "nothing be written|a device"),
    ]:
        with pytest.raises(InvalidInput, match=message):
            require_folders(path)
    with pytest.raises(InvalidInput, match="got this one twice"):
        require_folders(tmp_path / "new.json", None, tmp_path / "." / "new.json")
