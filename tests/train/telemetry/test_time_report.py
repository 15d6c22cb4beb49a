"""A run says where the time of its processes went, over resumes and kills, and is otherwise the same."""

import io
import json
import re
import shutil
import time

import numpy as np
import pytest
import rich.console
from whole_run import ENDLESS, SMALL

from drivetrain import scope
from drivetrain.cli.main import main
from drivetrain.cli.train import show
from drivetrain.scope import summing
from drivetrain.scope.process import leave
from drivetrain.scope.report import chart
from drivetrain.scope.sites import Site
from drivetrain.scope.states import State
from drivetrain.scope.totals import Totals
from drivetrain.scope.trace.totals import SiteTotal, ThreadTotals
from drivetrain.train import resume, train
from drivetrain.train.run_dir.checkpoint import load_checkpoint
from drivetrain.train.telemetry import time_report
from drivetrain.train.telemetry.recording import sessions

SEQUENTIAL = {"total_steps": 400, "num_actors": 0, "seed": 1, **SMALL}
LONGER = {**SEQUENTIAL, "total_steps": 20_000}
"""Half a second, beside which a moment that the machine takes at the ends of a recording is little."""


def operations(totals, process):
    return {row.operation for row in totals.rows if row.process == process and row.time_class != "profiler"}


def shown(run_dir):
    console = rich.console.Console(width=120, record=True, file=io.StringIO())
    time_report.show(run_dir, console)
    return console.export_text()


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory):
    return train("dqn", "CartPole-v1", run_dir=str(tmp_path_factory.mktemp("runs") / "run"), **LONGER).run_dir


@pytest.mark.release
def test_a_sequential_run_reports_what_its_one_process_did_and_the_page_shows_the_same(run_dir):
    totals = time_report.load(run_dir)
    assert totals.processes == ["run"]
    assert operations(totals, "run") >= {
        "starting", "simulation", "inference", "replay", "backpropagation", "weights", "checkpoint", "metrics", "other",
    }  # fmt: skip
    assert {row.phase for row in totals.rows} == {"", "evaluation"}
    assert totals.process_ns("run") == pytest.approx(totals.wall_ns, rel=0.05)
    page = (run_dir / "report.html").read_text()
    assert "Where the time of dqn on CartPole-v1 went" in page
    drawing, _ = chart.scripts()
    assert not re.search(r"(src|href)=|url\(|<script(?! type=.application/json)", page.replace(drawing, ""))
    text = shown(run_dir)
    for row in totals.rows:
        if row.ns > 0.01 * totals.wall_ns and row.time_class != "profiler":
            assert row.operation in page
            assert row.operation in text
    assert "One process did everything; most" in text
    assert json.dumps(totals.as_json())


@pytest.mark.whole
def test_the_report_of_a_run_can_be_asked_for_again_and_what_sums_cannot_give_is_refused(run_dir, tmp_path, capfd):
    page, numbers = tmp_path / "page.html", tmp_path / "numbers.json"
    assert main(["report", str(run_dir), "--html", str(page), "--json", str(numbers)]) == 0
    assert "One process did everything; most" in " ".join(capfd.readouterr().out.split())
    assert page.read_text() == (run_dir / "report.html").read_text()
    assert json.loads(numbers.read_text()) == time_report.load(run_dir).as_json()
    for part in ("config.json", "metrics.jsonl", "time/0/session.json", "checkpoint/manifest.json"):
        before = (run_dir / part).read_bytes()
        assert main(["report", str(run_dir), "--json", str(run_dir / part)]) == 2
        assert "expected a file of its own, got one of the recording" in capfd.readouterr().err
        assert (run_dir / part).read_bytes() == before
    for words in (["--csv", "x.csv"], ["--pack"], ["--kineto", __file__], [str(tmp_path)]):
        assert main(["report", str(run_dir), *words]) == 2
        assert "a training run keeps sums and no events" in capfd.readouterr().err


@pytest.mark.release
def test_recording_changes_no_bit_of_what_is_learned_and_can_be_left_out(run_dir, tmp_path, capfd):
    other = train("dqn", "CartPole-v1", run_dir=str(tmp_path / "other"), time_report=False, **LONGER).run_dir
    assert not (other / "time").exists()
    assert not (other / "report.html").exists()
    assert shown(other) == ""
    assert main(["report", str(other)]) == 2
    assert f"nothing to show, as the run in {other} was not recorded" in capfd.readouterr().err
    arrays, others = (load_checkpoint(folder)[0] for folder in (run_dir, other))
    assert arrays.keys() == others.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, others[name])
    results = [json.loads((folder / "result.json").read_text())["returns"] for folder in (run_dir, other)]
    assert results[0] == results[1]


def test_what_the_caller_records_already_is_not_recorded_twice(tmp_path):
    with scope.session(tmp_path / "session"):
        found = train("dqn", "CartPole-v1", run_dir=str(tmp_path / "run"), **SEQUENTIAL)
    assert time_report.load(found.run_dir) is None
    operations = {row.operation for row in scope.load(tmp_path / "session").breakdown()}
    assert operations >= {"simulation", "inference", "replay", "backpropagation"}


@pytest.mark.slow  # a run of five processes, killed and resumed
def test_a_killed_run_reports_all_its_processes_and_sessions_when_it_was_resumed(start):
    run = start(*ENDLESS, "--checkpoint-interval-s", "0.2")
    run.wait_until_learning()
    run.wait_until((run.run_dir / "checkpoint").exists)
    time.sleep(0.5)
    run.kill_all()
    assert not (run.run_dir / "report.html").exists()
    steps = load_checkpoint(run.run_dir)[1]["num_steps"]
    resume(run.run_dir, total_steps=steps + 500)
    totals = time_report.load(run.run_dir)
    assert len(totals.sessions) == 2
    assert set(totals.processes) == {"supervisor", "actor 0", "actor 1", "learner", "evaluator"}
    assert operations(totals, "actor 0") >= {"starting", "simulation", "inference", "replay", "weights", "ledger"}
    assert operations(totals, "learner") >= {"starting", "replay", "backpropagation", "weights", "checkpoint"}
    assert operations(totals, "evaluator") >= {"starting", "simulation", "inference"}
    waited = {row.process for row in totals.rows if row.time_class == "wait"}
    assert waited == set(totals.processes)
    for thread in totals.threads:
        assert sum(path.ns for path in thread.paths) == thread.until_ns - thread.begin_ns
    assert any(note.startswith("Session 1 was killed") for note in totals.notes)
    text = shown(run.run_dir)
    assert "in 2 sessions" in text
    assert "actors" in text


def test_a_disk_that_refuses_does_not_end_a_run(tmp_path, monkeypatch, capfd):
    def refuse(*args, **keywords):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("drivetrain.train.telemetry.recording.create", refuse)
    found = train("dqn", "CartPole-v1", run_dir=str(tmp_path / "run"), **SEQUENTIAL)
    assert found.num_steps == 400
    assert "where the time goes is not recorded: OSError: [Errno 28] No space left" in capfd.readouterr().err


def test_a_page_without_room_is_told_as_that_and_can_be_had_elsewhere(tmp_path, monkeypatch, capfd):
    run_dir = tmp_path / "run"

    def refuse(path, *args, **keywords):
        raise OSError(28, "No space left on device", str(path))

    with monkeypatch.context() as full:
        full.setattr("drivetrain.train.telemetry.time_report.save_text", refuse)
        train("dqn", "CartPole-v1", run_dir=str(run_dir), **SEQUENTIAL)
    said = capfd.readouterr().err
    assert f"{run_dir}/report.html: cannot be written: No space left on device; `drivetrain report RUN --html" in said
    assert "not recorded" not in said
    assert main(["report", str(run_dir), "--html", str(tmp_path / "page.html")]) == 0
    assert "backpropagation" in (tmp_path / "page.html").read_text()


def test_a_reader_of_the_table_that_went_away_is_not_told_that_nothing_was_recorded(tmp_path, monkeypatch, capfd):
    def gone(*args):
        raise BrokenPipeError

    result = train("dqn", "CartPole-v1", run_dir=str(tmp_path / "run"), **SEQUENTIAL)
    monkeypatch.setattr(time_report, "show", gone)
    capfd.readouterr()
    with pytest.raises(BrokenPipeError):  # which the command line takes for the end, as everywhere
        show(result)
    assert capfd.readouterr().err == ""


def waiting(name, share, operation="backpropagation", phase=""):
    """A process that waits for this share of its time, and does one thing else."""
    states = [(operation, "backend", 1 - share), ("other", "wait", share)]
    paths = [
        SiteTotal(site=Site(""), state=State(operation, kind, phase), ns=int(part * 1e9), num_entered=1)
        for operation, kind, part in states
    ]
    return ThreadTotals(
        name=name, is_main=True, begin_ns=0, until_ns=10**9, has_ended=True, num_unplaced=0, paths=tuple(paths)
    )


def test_operations_whose_names_no_encoding_has_are_on_the_page(tmp_path):
    session = tmp_path / "time" / "0"
    summing.create(session)
    summing.join(session, name="run")
    with scope.operation("half \ud800 of a pair"):
        pass
    leave(session)
    (tmp_path / "config.json").write_text(json.dumps({"algo": "dqn", "env": "CartPole-v1"}))
    time_report.write(tmp_path)
    assert "half &#55296; of a pair" in (tmp_path / time_report.REPORT).read_text()


def test_a_run_whose_learner_has_recorded_nothing_has_a_report():
    totals = Totals(sessions=(({"begin_ns": 0, "end_ns": 10**9}, (waiting("actor 0", 0.7),)),))
    assert time_report.words(totals)[1] == "Of its time most is starting."


def test_of_a_run_that_ended_before_its_processes_began_nothing_is_said_of_their_waits():
    totals = Totals(sessions=(({"begin_ns": 0, "end_ns": 10**9}, (waiting("supervisor", 0.9),)),))
    assert time_report.words(totals) == ["The run ended before its actors were at work."]


@pytest.mark.parametrize(
    ("actors", "learner", "said"),
    [
        (0.7, 0.02, "The run waits for the learner: actors wait 70% of their time, the learner 2% of its."),
        (0.02, 0.7, "The run waits for the actors"),
        (0.5, 0.5, "Actors and learner wait for each other in turn"),
        (0.05, 0.05, "Neither side waits much"),
    ],
)
def test_the_report_says_which_side_the_run_waits_for(actors, learner, said):
    threads = (waiting("actor 0", actors), waiting("actor 1", actors), waiting("learner", learner))
    totals = Totals(sessions=(({"begin_ns": 0, "end_ns": 10**9}, threads),))
    assert time_report.words(totals)[0].startswith(said)


def test_a_run_that_went_on_with_processes_or_without_is_told_as_both():
    alone, threads = (
        (waiting("run", 0.0),),
        (waiting("supervisor", 0.9), waiting("actor 0", 0.7), waiting("learner", 0.02)),
    )
    of_both, of_one = (
        time_report.words(Totals(sessions=tuple(({"begin_ns": 0, "end_ns": 10**9}, part) for part in parts)))
        for parts in ((alone, threads), (alone,))
    )
    one = "One process did everything; most of its time is backpropagation (100% of what it did)."
    assert of_one == [f"{one} A smaller network, fewer and larger batches, or several learners may help."]
    assert of_both[0] == f"{one} That was one part of the run; the other had processes:"
    assert of_both[1].startswith("The run waits for the learner: actors wait 70%")


@pytest.mark.parametrize(
    ("operation", "remedy"),
    [
        ("backpropagation", "; a smaller network, fewer and larger batches, or several learners may."),
        ("checkpoint", "; fewer checkpoints (--checkpoint-interval-s), or ones without the replay may."),
        ("garbage collection", "."),
    ],
)
def test_what_may_help_is_about_what_the_learner_does_most(operation, remedy):
    threads = (waiting("actor 0", 0.7), waiting("learner", 0.02, operation))
    totals = Totals(sessions=(({"begin_ns": 0, "end_ns": 10**9}, threads),))
    _, most, advice = time_report.words(totals)
    assert most == f"Of its time most is {operation} (100% of what it did)."
    assert advice == f"More actors would not help{remedy}"


@pytest.mark.parametrize(
    ("operation", "phase", "advice"),
    [
        ("simulation", "", " Actors, processes of their own, would share that (--num-actors)."),
        ("checkpoint", "", " Fewer checkpoints (--checkpoint-interval-s), or ones without the replay may help."),
        ("metrics", "", " Rows less often (--log-interval-steps) may help."),
        ("other", "", ""),
        (
            "simulation",
            "evaluation",
            " Evaluations less often (--eval-interval-steps), or of fewer episodes (--eval-episodes, "
            "--final-eval-episodes) may help.",
        ),
    ],
)
def test_what_may_help_one_process_is_about_what_it_does_most(operation, phase, advice):
    totals = Totals(sessions=(({"begin_ns": 0, "end_ns": 10**9}, (waiting("run", 0.0, operation, phase),)),))
    (sentence,) = time_report.words(totals)
    assert sentence.endswith(f"(100% of what it did).{advice}")


@pytest.mark.release
def test_sessions_are_what_is_numbered_and_a_new_one_takes_the_next_number(tmp_path, capsys):
    settings = {"num_actors": 0, "hidden": (8,), "warmup_steps": 60, "batch_size": 8, "num_step": 1, "eval_episodes": 1,
                "final_eval_episodes": 1, "eval_max_steps": 5}  # fmt: skip
    train("dqn", "CartPole-v1", run_dir=str(tmp_path), total_steps=80, **settings)
    resume(tmp_path, total_steps=100)
    shutil.rmtree(tmp_path / "time" / "0")
    shutil.copytree(tmp_path / "time" / "1", tmp_path / "time" / "1-old")
    capsys.readouterr()
    resume(tmp_path, total_steps=120)
    assert sorted(folder.name for folder in (tmp_path / "time").iterdir()) == ["1", "1-old", "2"]
    assert [folder.name for folder in sessions(tmp_path)] == ["1", "2"]
    assert "not recorded" not in capsys.readouterr().err
