"""Runs side by side show how each used GPUs, and say plainly of a run that used none."""

import io
import json
from dataclasses import replace

import pytest
import rich.console
from browser import FITS, needs_chromium, seen
from brute_gpu import gpu_of
from gpu_program import US, program
from test_reports import Cells

from drivetrain.scope.profile import Profile
from drivetrain.scope.report import beside, beside_gpu, beside_json, beside_page, beside_terminal, gpu


@pytest.fixture(scope="module")
def runs():
    """One that trained on a GPU; the same at half the pace of kernels, without backward passes; none; not recorded."""
    trace = program()
    activity = trace.gpu.activity.where(trace.gpu.activity.stream == 7)
    slower = replace(activity, end_ns=2 * activity.end_ns - activity.begin_ns)
    fewer = replace(program(25), gpu=None)
    traces = {
        "fast": trace,
        "slow & <old>": replace(trace, gpu=replace(trace.gpu, activity=slower)),
        "none": replace(trace, gpu=gpu_of()),
        "unrecorded": fewer,
    }
    return beside.lettered({name: Profile(one) for name, one in traces.items()})


def printed(runs):
    console = rich.console.Console(file=io.StringIO(), width=170)
    beside_terminal.show(runs, console)
    return console.file.getvalue()


def test_rows_hold_what_each_run_says_alone(runs):
    fast, slow, *_ = runs
    assert [run.letter for run in beside_gpu.used(runs)] == ["A", "B"]
    uses = {row.what[0]: row for row in beside_gpu.uses(runs)}
    assert uses["busy"].ns == {"A": fast.profile.usage.busy_ns, "B": slow.profile.usage.busy_ns}
    assert uses["waiting for it, in threads"].ns == {"A": 2_000_000, "B": 2_000_000}
    launched = {row.what: row for row in beside_gpu.launched(runs)}
    assert launched["inference", "gpu_kernel"].ns == {"A": 40 * US * 50, "B": 80 * US * 50}
    assert launched["backpropagation", "gpu_kernel"].ns == {"A": 50 * US * 50}
    assert next(iter(launched)) == ("inference", "gpu_kernel"), "the longest of any run comes first"
    assert beside_gpu.ratio(slow, fast, launched["inference", "gpu_kernel"]) == pytest.approx(2)
    assert beside_gpu.ratio(slow, fast, launched["backpropagation", "gpu_kernel"]) is None


def test_times_are_per_step_so_that_a_longer_run_is_not_a_slower_one():
    short, long = beside.lettered({"short": Profile(program(10)), "long": Profile(program(40))})
    for row in (*beside_gpu.uses([short, long]), *beside_gpu.launched([short, long])):
        assert row.ns["B"] == 4 * row.ns["A"]
        assert beside_gpu.ratio(long, short, row) == pytest.approx(1)
    assert beside_gpu.cells(short, beside_gpu.uses([short])[0]) == ["1 ms", "20.0%", "100 µs"]


def test_the_terminal_shows_both_and_says_who_used_none(runs):
    text = printed(runs)
    assert "C: No GPU was used." in text
    assert "D: No GPU was recorded." in text
    assert "A: The GPU was busy 20.0% of the time (5 ms)" in text
    (line,) = [line for line in text.splitlines() if "inference" in line and "gpu_kernel" in line]
    assert line.split() == ["inference", "gpu_kernel", "2", "ms", "(8.0%)", "4", "ms", "(16.0%)", "2.00×"]


def test_where_no_run_used_a_gpu_there_is_a_sentence_each_and_no_table(runs):
    text = printed(runs[2:])
    assert gpu.NOT_USED in text
    assert gpu.NOT_RECORDED in text
    assert "launched by" not in text
    assert beside_json.as_json(runs[2:])["gpu"] is None


def test_the_page_has_the_numbers_of_all_runs_and_closes_every_tag(runs):
    text = beside_page.render(runs, "four")
    for name, rows in (("gpus", beside_gpu.uses(runs)), ("launched", beside_gpu.launched(runs))):
        parser = Cells(name)
        parser.feed(text)
        assert parser.stack == []
        shown = [row for row in parser.rows if row]
        assert [tuple(row[: len(rows[0].what)]) for row in shown] == [row.what for row in rows]
        for row, cells in zip(rows, shown, strict=True):
            for number, run in enumerate(beside_gpu.used(runs)):
                first = len(row.what) + 3 * number
                assert cells[first : first + 3] == beside_gpu.cells(run, row)
    assert "<b>C</b> No GPU was used." in text
    assert "<old>" not in text


def test_json_has_rows_side_by_side_and_each_run_as_it_is_alone(runs):
    document = json.loads(json.dumps(beside_json.as_json(runs), allow_nan=False))
    (row,) = [one for one in document["gpu"]["launched"] if one["operation"] == "backpropagation"]
    assert row == {
        "operation": "backpropagation",
        "class": "gpu_kernel",
        "runs": {"fast": {"ns": 2_500_000, "per_step_ns": 50_000}},
    }
    busy = document["gpu"]["uses"][0]
    assert busy["runs"]["fast"]["ns"] == document["runs"]["fast"]["gpu"]["busy_ns"]
    assert document["runs"]["unrecorded"]["gpu"] is None


@pytest.mark.whole
@needs_chromium
def test_a_browser_shows_gpus_side_by_side_on_a_phone_without_scrolling_sideways(runs, tmp_path):
    assert seen(beside_page.render(runs, "page"), tmp_path, FITS) == "true"
