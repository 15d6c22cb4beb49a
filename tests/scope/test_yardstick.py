"""What a span costs alone is never said to be less than nothing, however busy the machine is."""

import itertools

import pytest

from drivetrain import scope
from drivetrain.scope.calibration import yardstick


@pytest.fixture
def clock(monkeypatch):
    """Says how long loops take: two without recording, three times, then in turns two recorded and six muted."""

    def says(without, recorded, muted):
        plan = [without] * 6 + ([recorded] * 2 + [muted] * 6) * 3
        times = itertools.chain.from_iterable((0, ns * yardstick.NUM_SPANS) for ns in plan)
        monkeypatch.setattr(yardstick.time, "perf_counter_ns", lambda: next(times))

    return says


def measured(folder):
    with scope.session(folder), scope.operation("mine"):
        pass
    return scope.load(folder).trace.processes[0].alone_ns


def test_a_span_costs_what_recording_adds_to_a_muted_one_and_that_to_none(tmp_path, clock):
    clock(without=40, recorded=100, muted=50)
    assert measured(tmp_path / "run.scope") == {"call": (50.0, 10.0), "annotation": (50.0, 10.0)}


def test_a_muted_span_costs_no_less_than_none(tmp_path, clock):
    clock(without=60, recorded=100, muted=50)
    assert measured(tmp_path / "run.scope") == {"call": (50.0, 0.0), "annotation": (50.0, 0.0)}


def test_where_recording_seemed_to_cost_nothing_nothing_is_said_and_nothing_corrected(tmp_path, clock):
    clock(without=40, recorded=50, muted=50)
    assert measured(tmp_path / "run.scope") == {}
    assert scope.load(tmp_path / "run.scope").wall is None
