"""What programs said on this machine is remembered for the next, with the spread between them."""

import json

import pytest

from drivetrain.core.caches import user_cache
from drivetrain.scope.calibration import prior
from drivetrain.scope.calibration.prior import LEAST_SD, PUBLISHED


@pytest.fixture
def file(tmp_path, monkeypatch):
    """That costs are kept in; it and its folder are not there yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return user_cache("scope-costs.json")


def test_nothing_is_known_of_a_new_machine(file):
    assert not file.parent.exists()
    assert prior.recall() == {}


def test_programs_are_remembered_by_machine_and_the_oldest_are_forgotten(file, monkeypatch):
    for number in range(40):
        prior.remember({"call": (1.0 + number, 0.1)})
    rows = json.loads(file.read_text())["machines"][prior.machine()]["call"]
    assert len(rows) == 30
    assert rows[0] == [11.0, 0.1]
    monkeypatch.setattr(prior, "machine", lambda: "another")
    assert prior.recall() == {}
    prior.remember({"call": (2.0, 0.1)})
    assert set(prior.recall()) == {"call"}


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
def test_a_file_of_somebody_elses_making_is_taken_for_none(file, text):
    file.parent.mkdir()
    file.write_text(text)
    assert prior.recall() == {}


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e30"])
def test_numbers_that_nobody_measured_are_left_out(file, number):
    file.parent.mkdir()
    rows = f'{{"call": [[{number}, 0.1], [0.1, {number}]], "annotation": [[1.5, 0.1]]}}'
    file.write_text(f'{{"format": 1, "machines": {{"{prior.machine()}": {rows}}}}}')
    assert list(prior.recall()) == ["annotation"]


def test_a_cache_on_a_full_disk_is_as_it_was_with_nothing_beside_it(file, full_disk):
    prior.remember({"call": (1.0, 0.1)})
    before = file.read_text()
    with full_disk(20):
        prior.remember({"call": (2.0, 0.1)})
    assert [(path, path.read_text()) for path in file.parent.iterdir()] == [(file, before)]


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    prior.remember({"call": (1.0, 0.1)})
    assert (tmp_path / "file").read_text() == ""
