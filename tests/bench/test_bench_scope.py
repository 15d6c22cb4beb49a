"""`drivetrain bench scope`: programs alone and recorded, and what the report says of them."""

import json
import random
from pathlib import Path

import pytest

from drivetrain.bench.report import Report
from drivetrain.bench.scope import command
from drivetrain.bench.scope.cases import make_cases
from drivetrain.bench.scope.contenders import OURS, PROGRAMS, TOOLS, Program
from drivetrain.bench.scope.rounds import ALONE, Measured, measure
from drivetrain.bench.scope.trial import Added, Trial, run
from drivetrain.bench.table import as_markdown
from drivetrain.core.errors import InvalidInput, RunError

TEXT = """
from drivetrain.bench.scope.window import window
from drivetrain.scope import operation
with window():
    for _ in range(500):
        with operation("inference"):
            sum(range(100))
"""


@pytest.fixture
def program(tmp_path):
    script = tmp_path / "trivial.py"
    script.write_text(TEXT)
    return Program(name="trivial", script=script)


def trial(wall_s, *, added_s=None, cpu_s=None, nbytes=0):
    added = None
    if added_s is not None:
        added = Added(likely_s=added_s, low_s=0.5 * added_s, high_s=2 * added_s, num_spans=7)
    return Trial(wall_s=wall_s, cpu_s=cpu_s or wall_s, report_s=1.0, nbytes=nbytes, added=added)


def test_a_program_is_run_alone_and_recorded_and_its_spans_are_counted_in_its_window_only(program):
    alone, recorded = run(program, None), run(program, OURS)
    assert alone.added is None
    assert alone.nbytes == 0
    assert alone.wall_s > 0
    assert recorded.added.num_spans == 500, "not those that calibrate"
    assert 0 < recorded.added.low_s < recorded.added.likely_s < recorded.added.high_s < recorded.wall_s
    assert recorded.nbytes > 500 * 2 * 16, "events and a page"
    assert recorded.report_s > 0


def test_every_round_runs_everything_once_and_a_tool_that_fails_is_left_out_and_named(program):
    asked = []

    def runner(which, tool):
        asked.append((which.name, tool and tool.rival.name))
        if tool is TOOLS[0]:
            raise RunError("it crashed")
        return trial(1.1, added_s=0.1) if tool is OURS else trial(1.0)

    (found,), skipped = measure([program], TOOLS[:2], num_rounds=3, rng=random.Random(1), run=runner)
    assert {name: len(trials) for name, trials in found.trials.items()} == {ALONE: 3, "ours": 3, "viztracer": 3}
    assert asked.count(("trivial", "pyinstrument")) == 1
    assert [(item.name, item.reason) for item in skipped] == [("trivial, pyinstrument", "it crashed")]


def test_a_program_that_fails_by_itself_is_skipped_but_one_that_recording_breaks_is_an_error(program):
    def fails_with(broken):
        def runner(_program, tool):
            if tool is broken:
                raise RunError("no")
            return trial(1.0, added_s=0.1)

        return runner

    found, (skipped,) = measure([program], (), num_rounds=2, rng=random.Random(0), run=fails_with(None))
    assert (found, skipped.name) == ([], "trivial")
    with pytest.raises(RunError, match="trivial, recorded: no"):
        measure([program], (), num_rounds=1, rng=random.Random(0), run=fails_with(OURS))


def test_inflation_bias_and_interval_are_those_of_planted_times(program):
    trials = {
        ALONE: [trial(10.0), trial(20.0), trial(10.0)],
        "ours": [trial(11.0, added_s=0.5), trial(22.0, added_s=1.0), trial(11.0, added_s=0.5)],
        "viztracer": [trial(30.0, nbytes=10**6)] * 3,
    }
    cases = {case.name: case for case in make_cases([Measured(program=program, trials=trials)])}
    inflation = cases["trivial: inflation, wall"].as_json()
    assert inflation["ours"] == pytest.approx(1.1)
    assert inflation["peers"] == {"viztracer": 3.0}
    assert inflation["targets"][0]["met"]
    bias = cases["trivial: |bias|, wall"]
    assert bias.details["signed"] == pytest.approx([5.0, 5.0, 5.0])
    assert bias.value("ours") == pytest.approx(5.0)
    assert bias.value("of the smallest") == pytest.approx(5.0)
    assert bias.value("spread of runs alone") == pytest.approx(100.0)
    # 11 - [0.25, 1.0] holds 10; its half-width is 0.375 of 10.5.
    assert cases["intervals that hold the time alone, wall"].value("ours") == 1.0
    assert cases["trivial: half-width"].value("ours") == pytest.approx(100 * 0.375 / 10.5)
    assert not cases["median |bias|, wall"].as_json()["targets"][0]["met"]
    assert cases["trivial: size on disk"].as_json()["peers"] == {"viztracer": 1.0}


def test_the_report_of_a_quick_run_is_valid_and_opens_with_its_weaknesses(program, monkeypatch):
    monkeypatch.setattr(command, "PROGRAMS", (program,))
    options = command.Options(only="trivial", rounds=2, tools=False)
    report = command.make_report(
        options, ["scope"], lambda _program, tool: trial(1.0, added_s=0.01 if tool is OURS else None)
    )
    assert isinstance(report, Report)
    document = json.loads(json.dumps(report.as_json(), allow_nan=False))
    assert {"commit", "machine", "versions", "command"} <= document.keys()
    page = as_markdown(document)
    assert page.index("Weaknesses first") < page.index("Over all programs")


def test_programs_are_files_with_names_of_their_own_and_bad_flags_are_refused():
    assert len({program.name for program in PROGRAMS}) == len(PROGRAMS)
    assert all(program.script.is_file() for program in PROGRAMS)
    assert {p.name.split()[0] for p in command.Options(only="SBX,ours").programs()} == {"SBX", "ours"}
    with pytest.raises(InvalidInput, match="rounds: expected at least 1"):
        command.Options(rounds=0).check()
    with pytest.raises(InvalidInput, match="in the name of no program: SB3 DQN"):
        command.Options(only="Go").check()
    with pytest.raises(InvalidInput, match="folder does not exist"):
        command.Options(json=Path("absent/file.json")).check()
