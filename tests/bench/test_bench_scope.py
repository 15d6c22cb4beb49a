"""`drivetrain bench scope`: programs alone and recorded, and what the report says of them."""

import json
import random
from pathlib import Path

import pytest

from drivetrain.bench.report import Report
from drivetrain.bench.scope import command
from drivetrain.bench.scope.cases import make_cases
from drivetrain.bench.scope.contenders import JUDGED, OURS, PROGRAMS, TOOLS, Program
from drivetrain.bench.scope.held_out import HeldOut
from drivetrain.bench.scope.rounds import ALONE, BROKEN, Measured, Plan, measure, runs_in
from drivetrain.bench.scope.trial import Trial, files, run
from drivetrain.bench.table import as_markdown
from drivetrain.core.errors import InvalidInput, RunError

TEXT = """
import time
from drivetrain.bench.scope.window import window
from drivetrain.scope import mark_step, operation
inference = operation("inference")
with window():
    begin = time.process_time()
    while time.process_time() < begin + 2:
        with inference:
            sum(range(300))
        mark_step()
"""


@pytest.fixture
def program(tmp_path):
    script = tmp_path / "trivial.py"
    script.write_text(TEXT)
    return Program(name="trivial", script=script)


def against(bias, *, inflation=1.05, half_width=0.01, error=0.01):
    return HeldOut(
        inflation=inflation,
        bias=bias,
        half_width=half_width,
        error=error,
        disabled=0.001,
        num_blocks=400,
        num_muted=100,
        num_spans=7,
        span_ns=200.0,
    )


def trial(wall_s, *, found=None, cpu_s=None, nbytes=0):
    return Trial(wall_s=wall_s, cpu_s=cpu_s or wall_s, report_s=1.0, nbytes=nbytes, held_out=found)


@pytest.mark.release
def test_a_program_is_run_alone_and_recorded_and_the_truth_is_in_its_own_blocks(program):
    alone, recorded = run(program, None), run(program, JUDGED)
    assert alone.held_out is None
    assert alone.nbytes == 0
    assert alone.wall_s > 0
    found = recorded.held_out
    assert found.num_muted >= 16
    assert found.num_blocks >= 2 * found.num_muted - 1, "every second, and the last round may be cut short"
    assert found.num_spans > 1000
    assert found.half_width > 0
    assert found.error > 0
    assert found.inflation == pytest.approx(1, abs=0.5)
    assert recorded.nbytes > found.num_spans * 2 * 16, "events"
    assert recorded.report_s > 0


def test_a_program_too_short_to_hold_blocks_out_is_an_error_that_says_so(tmp_path):
    script = tmp_path / "short.py"
    script.write_text("from drivetrain.bench.scope.window import window\nwith window():\n    pass\n")
    with pytest.raises(RunError, match="let the program run longer"):
        run(Program(name="short", script=script), JUDGED)


def test_every_round_runs_everything_once_and_a_tool_that_fails_is_left_out_and_named(program):
    asked = []

    def runner(which, tool):
        asked.append((which.name, tool and tool.rival.name))
        if tool is TOOLS[0]:
            raise RunError("it crashed")
        return trial(1.1, found=against(0.0)) if tool is OURS else trial(1.0)

    plan = Plan(programs=[program], contenders=[None, OURS, *TOOLS[:2]], num_rounds=3)
    ((found,),), skipped = measure([plan], rng=random.Random(1), run=runner, kept=runs_in())
    assert {name: len(trials) for name, trials in found.trials.items()} == {ALONE: 3, "ours": 3, "viztracer": 3}
    assert asked.count(("trivial", "pyinstrument")) == 1
    assert [(item.name, item.reason) for item in skipped] == [("trivial, pyinstrument", "it crashed")]


def test_other_tools_run_only_where_they_are_asked_for_and_have_something_to_see(program):
    ran = set()

    def runner(which, tool):
        ran.add((which.name, tool and tool.rival.name))
        return trial(1.1, found=against(0.0)) if tool is OURS else trial(1.0)

    other = Program(name="other", script=program.script)
    plans = [
        Plan(programs=[program], contenders=[JUDGED], num_rounds=1),
        Plan(programs=[other], contenders=[None, OURS, *TOOLS], num_rounds=1),
    ]
    measure(plans, rng=random.Random(1), run=runner, kept=runs_in())
    assert {tool for name, tool in ran if name == "trivial"} == {"ours"}
    assert {tool for name, tool in ran if name == "other"} == {None, "ours", "pyinstrument", "viztracer", "scalene"}


def test_a_program_that_fails_by_itself_is_told_from_one_that_recording_breaks_and_the_rest_goes_on(program):
    def fails_with(broken):
        def runner(which, tool):
            if which is program and tool in broken:
                raise RunError("no")
            return trial(1.0, found=against(0.0))

        return runner

    other = Program(name="other", script=program.script)
    plan = Plan(programs=[program, other], contenders=[JUDGED], num_rounds=2)
    for broken, reason in (((JUDGED, None), "no"), ((JUDGED,), f"{BROKEN}no")):
        (found,), (skipped,) = measure([plan], rng=random.Random(0), run=fails_with(broken), kept=runs_in())
        assert [one.program.name for one in found] == ["other"]
        assert (skipped.name, skipped.reason) == ("trivial", reason)


def test_what_recording_breaks_is_in_the_report_and_is_an_error_in_the_end(program, monkeypatch, tmp_path, capsys):
    def runner(_program, tool):
        if tool is JUDGED:
            raise RunError("it crashed")
        return trial(1.0)

    monkeypatch.setattr(command, "PROGRAMS", (program,))
    monkeypatch.setattr(command, "run_trial", runner)
    options = command.Options(only="trivial", tools=False, json=tmp_path / "scope.json")
    with pytest.raises(RunError, match="trivial: recording breaks it: it crashed"):
        command.run(options, ["scope"])
    (skipped,) = json.loads(options.json.read_text())["skipped"]
    assert skipped["name"] == "trivial"
    assert "trivial" in capsys.readouterr().out


def test_a_bench_that_was_stopped_goes_on_and_reports_what_there_is(program, tmp_path):
    asked = []

    def runner(_program, tool):
        asked.append(tool and tool.rival.name)
        if len(asked) == 3:
            raise KeyboardInterrupt
        return trial(1.1, found=against(0.02)) if tool is OURS else trial(1.0)

    plan = Plan(programs=[program], contenders=[None, OURS], num_rounds=2)
    later = Plan(programs=[program.beside_tools()], contenders=[None, OURS], num_rounds=1)
    how = {"rng": random.Random(1), "run": runner}
    file, here = tmp_path / "kept.jsonl", {"code": "1"}
    ((found,), ()), (skipped,) = measure([plan, later], kept=runs_in(file, here), **how)
    assert skipped.reason == "the run was interrupted"
    assert sum(map(len, found.trials.values())) == 2
    ((again,), (whole,)), skipped = measure([plan, later], kept=runs_in(file, here), **how)
    assert skipped == []
    assert {name: sorted(trials) for name, trials in again.trials.items()} == {ALONE: [0, 1], "ours": [0, 1]}
    assert {name: sorted(trials) for name, trials in whole.trials.items()} == {ALONE: [0], "ours": [0]}
    assert len(asked) == 7, "one that was interrupted, and six"
    assert again.trials["ours"][0] == trial(1.1, found=against(0.02))
    measure([plan], kept=runs_in(file, {"code": "2"}), **how)
    assert len(asked) == 11, "other code makes its own four"


def test_inflation_bias_and_interval_are_those_of_planted_blocks(program):
    ours = [against(0.04), against(-0.01, half_width=0.02), against(0.03, error=0.04)]
    trials = {
        ALONE: dict(enumerate([trial(10.0), trial(20.0), trial(10.0)])),
        "ours": {i: trial(11.0, found=found) for i, found in enumerate(ours)},
        "viztracer": {0: trial(30.0, nbytes=10**6), 2: trial(40.0, nbytes=10**6)},
    }
    measured = [Measured(program=program, trials=trials)]
    cases = {case.name: case for case in make_cases(measured, measured)}
    inflation = cases["trivial: inflation"].as_json()
    assert inflation["ours"] == pytest.approx(1.05)
    assert inflation["targets"][0]["met"]
    under = cases["trivial: under a tool, wall"].as_json()
    assert under["samples"]["viztracer"] == [3.0, 4.0], "each over the run alone of its own round"
    assert under["ours"] == pytest.approx(1.1)
    bias = cases["trivial: |bias|"]
    assert bias.details["signed"] == pytest.approx([4.0, -1.0, 3.0])
    assert bias.value("ours") == pytest.approx(3.0)
    assert bias.value("runs inside") == pytest.approx(2 / 3)
    assert bias.value("largest of a run") == cases["largest |bias| of a run"].value("ours") == pytest.approx(4.0)
    assert cases["largest inflation of a run"].value("ours") == pytest.approx(1.05)
    assert cases["runs whose interval holds the truth"].value("ours") == pytest.approx(2 / 3)
    assert cases["the same, the truth's own error ignored"].value("ours") == pytest.approx(1 / 3)
    assert cases["trivial: half-width"].value("ours") == pytest.approx(1.0)
    assert not cases["runs whose interval holds the truth"].as_json()["targets"][0]["met"]
    assert cases["trivial: size on disk"].as_json()["peers"] == {"viztracer": 1.0}


def test_the_report_is_valid_and_opens_with_its_weaknesses(program, monkeypatch):
    monkeypatch.setattr(command, "PROGRAMS", (program,))
    options = command.Options(only="trivial", rounds=2, tools=False)
    report = command.make_report(
        options, ["scope"], lambda _program, tool: trial(1.0, found=against(0.01) if tool is JUDGED else None)
    )
    assert isinstance(report, Report)
    document = json.loads(json.dumps(report.as_json(), allow_nan=False))
    assert {"commit", "machine", "versions", "command"} <= document.keys()
    page = as_markdown(document)
    assert page.index("Weaknesses first") < page.index("Over all programs")


def test_programs_are_files_with_names_of_their_own_and_bad_flags_are_refused():
    assert len({program.name for program in PROGRAMS}) == len(PROGRAMS)
    assert all(program.script.is_file() for program in PROGRAMS)
    assert all(0 < program.num_beside < int(program.arguments[-1]) for program in PROGRAMS)
    assert not {program.name for program in PROGRAMS} & {program.beside_tools().name for program in PROGRAMS}
    assert {p.name.split()[0] for p in command.Options(only="SBX,ours").programs()} == {"SBX", "ours"}
    assert [command.Options(quick=q, rounds=r).num_rounds() for q, r in ((False, None), (True, None), (True, 2))] == [
        3,
        1,
        2,
    ]
    with pytest.raises(InvalidInput, match="--rounds: expected at least 1"):
        command.Options(rounds=0).check()
    with pytest.raises(InvalidInput, match="--tool-rounds: expected at least 1"):
        command.Options(tool_rounds=0).check()
    with pytest.raises(InvalidInput, match="in the name of no program: SB3 DQN"):
        command.Options(only="Go").check()
    with pytest.raises(InvalidInput, match="--tools-on 'Go' is in the name of no program that is asked for: SB3 A2C"):
        command.Options(only="A2C", tools_on="Go").check()
    with pytest.raises(InvalidInput, match="folder does not exist"):
        command.Options(json=Path("absent/file.json")).check()


def test_what_a_tool_left_is_found_below_any_folder(tmp_path):
    folder = tmp_path / "run" / "user"
    (folder / "run").mkdir(parents=True)
    for name in ("report.html", "run/config.json"):
        (folder / name).write_text("")
    assert files(folder) == [folder / "report.html"]
