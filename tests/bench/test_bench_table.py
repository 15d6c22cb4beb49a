"""The page made from a report: weaknesses first, every peer accounted for, the evidence below."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from test_bench_report import make_case, make_report

from drivetrain.bench.report import Target
from drivetrain.bench.saved import load_report, write_page
from drivetrain.bench.table import as_markdown, number
from drivetrain.core.errors import FileFormatError


def test_the_page_opens_with_the_weaknesses():
    page = as_markdown(make_report().as_json())
    assert page.index("few seeds") < page.index("## Results")


def test_the_table_shows_medians_ratios_and_met_targets():
    page = as_markdown(
        make_report(
            cases=[make_case(targets=[Target(against="SB3", aim=5.0), Target(against="SBX", aim=3.0)])]
        ).as_json()
    )
    assert "| training | CPU-s | 10 | 50 (**5×**) | 20 (**2×**) | SB3 5×: 5×, met; SBX 3×: 2×, missed |" in page


def test_a_reference_has_a_column_and_a_target_may_be_to_stay_within_it():
    targets = [Target(against="floor", aim=1.8, form="within"), Target(against="best peer", aim=2.5)]
    case = make_case(references={"floor": [5.0]}, targets=targets)
    page = as_markdown(make_report(cases=[case]).as_json())
    assert "| case | unit | ours | SB3 | SBX | floor | target |" in page
    assert "| 5 | floor ≤ 1.8×: 2×, missed; best peer 2.5×: 2×, missed |" in page
    assert page.index("2 of 2 targets are missed.") < page.index("few seeds")


def test_where_a_peer_is_ahead_the_page_says_so_first():
    page = as_markdown(make_report(cases=[make_case(samples={"ours": [2.0], "SB3": [1.0]})]).as_json())
    assert page.index("In 1 of 1 cases a peer is ahead of us.") < page.index("few seeds")


def test_what_we_do_not_have_ourselves_has_no_ratio_and_no_verdict():
    case = make_case(samples={"SB3": [1.0]}, targets=[Target(against="best peer", aim=2.0)])
    page = as_markdown(make_report(cases=[case]).as_json())
    assert "| training | CPU-s | none | 1 | best peer 2×: not measured |" in page


def test_each_group_has_a_table_of_its_own_with_its_notes():
    cases = [make_case(name="a", group="first", notes=["one", "two"]), make_case(name="b", group="second")]
    page = as_markdown(make_report(cases=cases).as_json())
    assert page.index("### first") < page.index("| a |") < page.index("- one") < page.index("### second")


def test_timed_cases_show_the_smallest_value_and_the_cpu_time():
    case = make_case(smallest={"ours": 8.5, "SB3": 39.0, "SBX": 14.0}, cpu={"ours": 11.0, "SB3": 55.0, "SBX": 21.0})
    page = as_markdown(make_report(cases=[case]).as_json())
    assert "| training | CPU-s | 8.5 \\| 11 | 39 \\| 55 | 14 \\| 21 |" in page


def test_a_report_of_version_1_is_read_in_todays_form(tmp_path):
    document = make_report().as_json()
    (case,) = document["cases"]
    for key in ("group", "references", "cpu", "targets"):
        del case[key]
    old = document | {"format_version": 1, "cases": [case | {"goal": {"SB3": 5.0, "SBX": 3.0}}]}
    (tmp_path / "report.json").write_text(json.dumps(old))
    assert "SB3 5×: 5×, met; SBX 3×: 2×, missed |" in as_markdown(load_report(tmp_path / "report.json"))


def test_skipped_peers_are_named_with_their_remedy():
    page = as_markdown(make_report().as_json())
    assert "**SBX**: not installed: sbx (`pip install sbx-rl`)" in page


def test_a_peer_missing_from_one_case_is_marked():
    cases = [make_case(), make_case(name="other", samples={"ours": [1.0], "SB3": [2.0]})]
    page = as_markdown(make_report(cases=cases).as_json())
    assert "| other | CPU-s | 1 | 2 (**2×**) | not run |" in page


def test_a_report_without_peers_has_a_table_of_ours_alone():
    page = as_markdown(make_report(cases=[make_case(samples={"ours": [1.0]})]).as_json())
    assert "| case | unit | ours | target |" in page


def test_commit_command_machine_and_versions_are_on_the_page():
    page = as_markdown(make_report().as_json())
    for evidence in ("`abc`", "`drivetrain bench train`", "a processor", "drivetrain 0.1.0"):
        assert evidence in page


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((None, "none"), (0.01234, "0.0123"), (9.876, "9.88"), (50176.0, "50,176")),
        *((3.871e-05, "0.0000387"), (-3.871e-05, "-0.0000387"), (0.0, "0"), (99.96, "100"), (2, "2")),
    ],
)
def test_numbers_have_three_digits_and_no_powers_of_ten(value, text):
    assert number(value) == text


def test_the_page_can_be_made_again_from_the_file(tmp_path):
    document = make_report().as_json()
    (tmp_path / "report.json").write_text(json.dumps(document))
    command = [sys.executable, "-m", "drivetrain.bench.table", "report.json", "page.md"]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert (tmp_path / "page.md").read_text() == as_markdown(document)


def test_a_page_that_cannot_be_made_again_is_one_line(tmp_path, capsys):
    page, absent = tmp_path / "page.md", tmp_path / "absent.json"
    assert [write_page(words, lambda path: path.read_text()) for words in ([], [str(absent), str(page)])] == [2, 2]
    assert capsys.readouterr().err == (
        "error: expected two names: of the kept report, and of the page to write, as train.json train.md\n"
        f"error: {absent}: No such file or directory\n"
    )
    assert not page.exists()


@pytest.mark.parametrize(
    "text",
    [
        *("no json", "[1]", '{"format": "other"}', '{"format": "drivetrain-bench", "format_version": 99}'),
        *('{"format": "drivetrain-bench"}', '{"format": "drivetrain-bench", "format_version": 2, "cases": []}'),
        *(json.dumps(make_report().as_json() | {"cases": cases}) for cases in ([{"name": "a"}], [3])),
    ],
)
def test_a_foreign_or_newer_file_is_refused(tmp_path, text):
    path = tmp_path / "report.json"
    path.write_text(text)
    with pytest.raises(FileFormatError, match=r"report\.json"):
        load_report(path)


def test_the_program_behind_the_report_on_files_writes_it(tmp_path):
    program = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "benchmarks" / "replay_files.py"))
    main = program["main"]
    main.__globals__.update(CAPACITY=2**11, NUM_ROUNDS=1)
    main(tmp_path / "files.json", None)
    report = json.loads((tmp_path / "files.json").read_text())
    assert len(report["cases"]) == 4
    assert report["command"] == "python docs/benchmarks/replay_files.py files.json"
