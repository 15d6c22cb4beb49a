"""`drivetrain bench gpu` without a GPU: its parts on libraries that stand for one, and on what was planted."""

from dataclasses import replace
from pathlib import Path

import gpu_program
import numpy as np
import pytest
from brute import trace_of
from brute_gpu import gpu_of
from planted_gpu import program

from drivetrain.bench.gpu import accuracy, command, kernels, plan, recorded, recording, simulators, survey, tests
from drivetrain.bench.gpu.held_out import held_out
from drivetrain.bench.gpu.plan import Found, Part, carry_out, parts_in
from drivetrain.bench.report import Case, Skipped, Target
from drivetrain.bench.scope.held_out import HeldOut, TooFewBlocks
from drivetrain.bench.scope.survey import outcome
from drivetrain.bench.scope.window import Window
from drivetrain.cli.main import main
from drivetrain.core.errors import FileFormatError, InvalidInput, RunError
from drivetrain.scope.cupti import headers
from drivetrain.scope.profile import Profile
from drivetrain.scope.trace import gpu

CASE = Case(name="one", unit="s", better="lower", samples={"ours": [1.0]}, targets=[Target(against="limit", aim=1.0)])
WITH_GPU = Path(__file__).with_name("recorded_on_gpu")


def part_of(name, run=None, most_s=10, **more):
    return Part(name=name, most_s=most_s, run=run or (lambda folder, limit_s: Found(cases=[CASE])), **more)


def raising(error):
    def run(folder, limit_s):
        raise error

    return run


def test_what_is_done_in_a_folder_is_not_done_again_and_comes_back_as_it_was(tmp_path):
    skipped = Skipped(name="peer", reason="absent", remedy="install it")
    first = part_of("first", lambda folder, limit_s: Found(cases=[CASE], skipped=[skipped]))
    assert carry_out([first], tmp_path, 100) == []
    again, second = part_of("first", raising(AssertionError())), part_of("second")
    assert carry_out([again, second], tmp_path, 100) == []
    kept = parts_in(tmp_path)
    found = kept.get(first.asked)
    assert found.skipped == [skipped]
    assert [case.as_json() for case in found.cases] == [CASE.as_json()]
    assert kept.get(second.asked) is not None


def test_a_part_that_fails_lacks_something_or_would_not_fit_is_left_with_the_reason_and_the_rest_is_done(tmp_path):
    parts = [
        part_of("fails", raising(RunError("it broke"))),
        part_of("surprises", raising(FileFormatError("cut off"))),
        part_of("lacks", missing=lambda: "not installed: torch"),
        part_of("long", most_s=200),
        part_of("fits"),
    ]
    reasons = {one.name: one.reason for one in carry_out(parts, tmp_path, 100)}
    assert reasons["fails"] == "it broke"
    assert reasons["surprises"] == "FileFormatError: cut off"
    assert reasons["lacks"] == "not installed: torch"
    assert "may take 200 s" in reasons["long"]
    assert [part.name for part in parts if parts_in(tmp_path).get(part.asked)] == ["fits"]


@pytest.mark.parametrize(
    ("what", "other"),
    [("describe_state", "another"), ("gpus", ["another"]), ("surroundings", {"cpu": "another"})],
)
def test_parts_of_other_code_and_machines_are_done_again_and_a_file_of_nobody_is_refused(
    tmp_path, monkeypatch, what, other
):
    part = part_of("one")
    with monkeypatch.context() as patched:
        patched.setattr(plan, what, lambda *_: other)
        carry_out([part], tmp_path, 100)
        assert parts_in(tmp_path).get(part.asked) is not None
    assert parts_in(tmp_path).get(part.asked) is None
    (tmp_path / plan.FILE).write_text("[1")
    with pytest.raises(FileFormatError, match="bench gpu"):
        parts_in(tmp_path)


def test_a_dry_run_says_what_is_missing_and_which_command_does_what(capsys):
    assert main(["bench", "gpu", "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["here", *(part.name for part in command.PARTS)]
    assert all("left out: " in line or "at most" in line for line in lines[1:])
    long = [part_of("one", most_s=60), part_of("two", most_s=60)]
    assert [line.split(", ")[0] for line in command.announced(long, 100)[1:]] == ["one: command 1", "two: command 2"]
    _, one, two = command.announced([part_of("one", most_s=60), part_of("two", most_s=30)], 50)
    assert one == "one: left out: it may take 60 s, more than --limit-s"
    assert two.startswith("two: command 1")


def test_four_commands_of_ten_minutes_do_everything_whatever_the_parts_take():
    able = [replace(part, missing=lambda: "") for part in command.PARTS]
    assert command.Options().limit_s < 600
    lines = command.announced(able, command.Options().limit_s)
    assert ["command 1" in line for line in lines[1:]] == [True] * 4 + [False] * 3
    assert "command 4" in lines[-1]
    assert max(part.most_s for part in able) <= command.Options().limit_s


def test_without_a_gpu_and_with_wrong_words_it_is_one_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv(headers.DRIVER_VARIABLE, "libcuda-that-is-nowhere.so")
    assert main(["bench", "gpu", "--folder", str(tmp_path / "gpu")]) != 0
    assert "there is no GPU here that can be recorded" in capsys.readouterr().err
    assert not (tmp_path / "gpu").exists()
    with pytest.raises(InvalidInput, match="'kernal' is in the name of no part: recording; kernels"):
        command.Options(only="tests,kernal").check()
    with pytest.raises(InvalidInput, match="--limit-s"):
        command.Options(limit_s=0).check()


def test_sums_of_kernels_are_of_what_ran_after_the_last_rest():
    begin = np.array([0, 10, 400, 900, 905]) * 1_000_000
    rows = [{"begin_ns": at, "end_ns": at + 2_000_000, "kind": gpu.KERNEL, "name": 3} for at in begin.tolist()]
    rows += [{"begin_ns": 901_000_000, "end_ns": 999_000_000, "kind": gpu.COPY, "name": 4}]
    profile = Profile(trace_with(gpu_of(list(reversed(rows)))))
    assert kernels.times_by_name(profile) == {"sgemm": [2_000_000, 2_000_000]}


def is_met(case):
    return case.outcome(case.targets[0])["met"]


def trace_with(records):
    trace = trace_of([], 0, 1_000_000_000, ())
    return trace.__class__(**{**vars(trace), "gpu": records})


def test_sums_within_a_percent_of_the_others_meet_the_target_and_others_do_not():
    ours, near, far = ([{"sgemm": [1000, ns]}] for ns in (1000, 1015, 1050))
    assert is_met(kernels.cases(ours, near)[0])
    sums, numbers = kernels.cases(ours, far)
    assert sums.value("ours") == pytest.approx(100 * (1 - 2000 / 2050))
    assert not is_met(sums)
    assert numbers.value("ours") == 0


def test_corrected_time_is_that_of_blocks_without_cupti_where_costs_were_planted():
    """Two launches and a copy a step and a span of 400 ns: inflation is known, and what is left over is the bias."""
    found = []
    for seed in range(2):
        trace, device = program(seed, rounds=30)
        profile = Profile(trace)
        found.append(held_out(profile, profile.trace.threads[0].tid))
        recorded = profile.correction.blocks[0].where(profile.correction.blocks[0].mask == 0)
        launches = profile.correction.calls[0].in_blocks(recorded).num.sum(axis=0)
        added = launches[0] * 2000 + launches[1] * 700 + recorded.spans.sum() * 400
        total = recorded.cpu_ns.sum()
        assert abs(found[-1].inflation - total / (total - added)) < 0.02
        assert len(device.api)
    assert all(abs(one.bias) < (one.half_width**2 + one.error**2) ** 0.5 for one in found)
    assert all(1.1 < one.inflation < 1.6 for one in found)
    assert all(one.error < 0.05 for one in found)


def test_too_few_blocks_to_hold_some_out_are_told():
    profile = Profile(program(0, rounds=2)[0])
    with pytest.raises(TooFewBlocks, match="let the program run longer"):
        held_out(profile, profile.trace.threads[0].tid)


def test_programs_of_the_accuracy_part_take_the_device_as_their_last_word():
    assert len(accuracy.programs()) == 3
    assert all(program.arguments[-1] == "cuda" for program in accuracy.programs())
    assert len({program.name for program in accuracy.programs()}) == 3


def test_accuracy_has_the_tables_of_bench_scope_and_what_a_call_costs(monkeypatch, tmp_path):
    checks = Profile(program(5, rounds=15)[0]).usage.recording.checks
    said = HeldOut(inflation=1.1, bias=0.02, half_width=0.03, error=0.01, disabled=0.0, num_blocks=9, num_muted=4,
                   num_spans=7, span_ns=400.0)  # fmt: skip
    trial = accuracy.Trial(wall_s=1.0, cpu_s=1.0, report_s=0.0, nbytes=1, held_out=said)

    def run_one(program, limit_s):
        if "SAC" in program.name:
            raise RunError("no GPU")
        return trial, checks

    monkeypatch.setattr(accuracy, "run_one", run_one)
    monkeypatch.setattr("drivetrain.bench.scope.contenders.Program.missing", lambda self: None)
    found = accuracy.run(tmp_path, 100)
    cases = {case.name: case for case in found.cases}
    assert cases["largest inflation"].value("ours") == pytest.approx(1.1)
    assert cases["PyTorch Q-learning CartPole-v1, GPU: a launch"].value("ours") == pytest.approx(2000, rel=0.2)
    assert [one.name for one in found.skipped] == ["SB3 SAC Pendulum-v1, GPU"]


def test_tests_that_need_a_gpu_are_found_and_counted(monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[2])
    names = {file.name for file in tests.marked()}
    assert {"test_recording_on_a_gpu.py", "test_cuda_gpu.py"} <= names
    endings = {"b": "", "c": "<failure/>", "d": "<skipped/>", "e": "<error/>"}
    junit = "".join(f'<testcase classname="a" name="{name}">{end}</testcase>' for name, end in endings.items())
    (case,) = tests.cases(f"<testsuites><testsuite>{junit}</testsuite></testsuites>")
    assert case.value("ours") == 2
    assert (case.value("passed"), case.value("skipped")) == (1, 1)
    assert case.details == {"failed": ["a::c", "a::e"], "skipped": ["a::d"]}


def test_simulators_have_xla_beside_them_by_where_it_ran():
    said = {"xla on": "cpu", "rates": {"cuda, nothing": [2e6], "xla, nothing": [1e6]}}
    (case,) = simulators.cases_of("CartPole-v1", said)
    assert (case.value("ours"), case.value("our xla on cpu")) == (2.0, 1.0)
    assert set(case.references) == {"our xla on cpu"}
    said["rates"]["cuda in a graph, nothing"] = [3e6]
    (case,) = simulators.cases_of("CartPole-v1", said)
    assert case.value("ours, 64 calls as one CUDA graph") == 3.0


def test_the_survey_counts_the_time_in_which_gpus_were_recorded():
    window = Window(pid=7, begin_ns=0, end_ns=50 * gpu_program.STEP_NS, cpu_s=0.0)
    whole = outcome.gpu_in(Profile(gpu_program.program()), window)
    partly = outcome.gpu_in(Profile(gpu_program.with_steps_unrecorded(gpu_program.program(), 10, 20)), window)
    assert (whole.busy, whole.bound) == (pytest.approx(0.2), pytest.approx(0.08))
    assert partly.busy == pytest.approx(0.2, rel=0.02)
    assert partly.bound == pytest.approx(0.08, rel=0.02)


def test_the_survey_asks_for_loads_that_there_are():
    asked = survey.named([one.name for one in survey.loads()], survey.ONLY, kind="load")
    assert {name.split()[1] for name in asked if name.startswith("SB3")} == {"PPO", "A2C", "SAC", "DQN"}
    assert any(name.startswith("self-play") for name in asked)


def test_a_recording_in_which_nothing_ran_on_a_gpu_is_refused():
    with pytest.raises(RunError, match=r"program.py: expected activities of a GPU, got none"):
        recorded.used(Profile(trace_with(gpu_of())), "program.py")


@pytest.mark.skipif(
    not WITH_GPU.exists(), reason="no recording of a GPU was committed yet: drivetrain bench gpu makes one"
)
def test_what_was_recorded_on_a_gpu_says_the_same_as_on_the_day():
    profile = Profile.load(WITH_GPU)
    below = {case.name: case.value("ours") for case in recording.cases(profile) if not is_met(case)}
    assert not below
    assert profile.usage.busy_ns <= profile.usage.gpu_ns
