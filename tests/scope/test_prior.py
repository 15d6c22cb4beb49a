"""What programs said on this machine is remembered for the next, with the spread between them."""

import json

import pytest

from drivetrain.scope.calibration import prior
from drivetrain.scope.calibration.prior import LEAST_SD, PUBLISHED


def test_nothing_is_known_of_a_new_machine(tmp_path):
    assert prior.recall(tmp_path / "absent" / "costs.json") == {}


def test_programs_are_remembered_by_machine_and_the_oldest_are_forgotten(tmp_path, monkeypatch):
    file = tmp_path / "deep" / "costs.json"
    for number in range(40):
        prior.remember({"call": (1.0 + number, 0.1)}, file)
    rows = json.loads(file.read_text())["machines"][prior.machine()]["call"]
    assert len(rows) == 30
    assert rows[0] == [11.0, 0.1]
    monkeypatch.setattr(prior, "machine", lambda: "another")
    assert prior.recall(file) == {}
    prior.remember({"call": (2.0, 0.1)}, file)
    assert set(prior.recall(file)) == {"call"}


def test_one_program_narrows_little_and_many_that_agree_narrow_much_but_never_to_nothing():
    one, many = prior.expected([(1.5, 0.05)]), prior.expected([(1.5, 0.05)] * 30)
    assert one.mean == many.mean == 1.5
    assert one.sd > PUBLISHED.sd
    assert LEAST_SD < many.sd < 0.5 * PUBLISHED.sd


def test_programs_that_disagree_leave_the_next_one_open():
    disagreeing = prior.expected([(1.0, 0.05), (2.0, 0.05), (1.5, 0.05), (0.8, 0.05)])
    assert disagreeing.sd > 0.4


@pytest.mark.parametrize("said", [[(-13.0, 30.0)], [(9.6, 192.0), (-105.5, 155.6)], [(0.5, 1.0)] * 4])
def test_programs_that_tell_nothing_because_the_machine_was_busy_are_no_reason_to_expect_anything_else(said):
    found = prior.expected(said)
    assert found.mean == PUBLISHED.mean
    assert found.sd < 1.5 * PUBLISHED.sd
    told = [(1.1, 0.05)] * 3
    assert prior.expected([*told, *said]).mean == 1.1
    assert prior.expected([*told, *said]).sd < PUBLISHED.sd


@pytest.mark.parametrize("text", ["", "[]", '{"format": 7}', '{"format": 1, "machines": {"m": {"call": [[1]]}}}'])
def test_a_file_of_somebody_elses_making_is_taken_for_none(tmp_path, text):
    file = tmp_path / "costs.json"
    file.write_text(text)
    assert prior.recall(file) == {}


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e30"])
def test_numbers_that_nobody_measured_are_left_out(tmp_path, number):
    file = tmp_path / "costs.json"
    rows = f'{{"call": [[{number}, 0.1], [0.1, {number}]], "annotation": [[1.5, 0.1]]}}'
    file.write_text(f'{{"format": 1, "machines": {{"{prior.machine()}": {rows}}}}}')
    assert list(prior.recall(file)) == ["annotation"]


def test_a_cache_on_a_full_disk_is_as_it_was_with_nothing_beside_it(tmp_path, full_disk):
    file = tmp_path / "cache" / "costs.json"
    prior.remember({"call": (1.0, 0.1)}, file)
    before = file.read_text()
    with full_disk(20):
        prior.remember({"call": (2.0, 0.1)}, file)
    assert [(path, path.read_text()) for path in file.parent.iterdir()] == [(file, before)]


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "file").touch()
    prior.remember({"call": (1.0, 0.1)}, tmp_path / "file" / "costs.json")
    assert (tmp_path / "file").read_text() == ""
