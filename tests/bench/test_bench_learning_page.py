"""Interquartile means, intervals and verdicts against values by hand, and the page of some runs."""

import itertools
import os
import subprocess
import sys

import numpy as np
import pytest

from drivetrain.bench.learning.cases import CASES
from drivetrain.bench.learning.contests import CONTESTS, SB3, SIMULATORS, case_named
from drivetrain.bench.learning.differences import difference, pooled_difference, verdict
from drivetrain.bench.learning.page import as_markdown, curve_of
from drivetrain.bench.learning.records import add, load, make_record
from drivetrain.bench.learning.run import Learned
from drivetrain.bench.learning.summary import compared, compared_together, late, on_the_way
from drivetrain.bench.machine import Origin
from drivetrain.train.runs.intervals import Estimate, estimate, iqm

CARTPOLE = case_named("dqn CartPole-v1")
ORIGIN = Origin(commit="abc", command="drivetrain bench learning", versions={"jax": "1"}, machine={"cores": 2})


def record(case, side, seed, mean):
    num_steps, num_updates = case.work
    curve = [[0, 0.0], [case.total_steps // 2, mean / 2]]  # as JSON gives it back
    learned = Learned(num_steps=num_steps, num_updates=num_updates, returns=[mean - 1, mean + 1], curve=curve)
    return make_record(case, side, seed, learned, ORIGIN)


def records(case, **means):
    return [
        record(case, side.replace("_", "-"), seed, mean)
        for side, values in means.items()
        for seed, mean in enumerate(values, 1)
    ]


def test_the_interquartile_mean_leaves_out_a_quarter_of_whole_runs_on_each_side():
    assert iqm([1.0, 2.0, 3.0, 4.0, 1_000.0]) == 3.0  # a quarter of five runs is one run
    assert iqm([0.0, 1.0, 2.0]) == 1.0  # of three, none
    assert iqm([-100.0, 1.0, 2.0, 100.0]) == 1.5
    assert iqm(np.array([[1.0, 5.0], [3.0, 7.0]]), axis=0).tolist() == [2.0, 6.0]


def test_the_interval_is_that_of_all_resamples_where_these_can_be_counted():
    scores = [0.0, 1.0, 5.0]
    means = [np.mean(sample) for sample in itertools.product(scores, repeat=3)]  # of three runs nothing is cut
    low, high = np.percentile(means, [2.5, 97.5], method="inverted_cdf")
    found = estimate(scores)
    assert found.value == 2.0
    assert found.low == pytest.approx(low, abs=0.05)
    assert found.high == pytest.approx(high, abs=0.05)
    assert estimate(scores) == found


def test_each_side_of_a_difference_is_resampled_on_its_own():
    ours, theirs = [10.0, 12.0], [1.0, 5.0]
    differences = [
        np.mean(a) - np.mean(b) for a in itertools.product(ours, repeat=2) for b in itertools.product(theirs, repeat=2)
    ]
    low, high = np.percentile(differences, [2.5, 97.5], method="inverted_cdf")
    found = difference(ours, theirs)
    assert (found.value, found.low, found.high) == (8.0, low, high) == (8.0, 5.0, 11.0)


def test_several_cases_are_resampled_each_within_itself():
    # Were the strata mixed, a resample could draw the low case alone; here every one has both.
    found = pooled_difference([[0.0, 0.0], [1.0, 1.0]], [[0.0, 0.0], [1.0, 1.0]])
    assert found == Estimate(0.0, 0.0, 0.0)


def test_runs_that_are_all_equal_have_an_interval_without_width():
    assert estimate([500.0] * 5) == Estimate(500.0, 500.0, 500.0)


def test_one_run_has_no_interval():
    assert estimate([3.0]) == Estimate(3.0, None, None)
    assert difference([3.0], [1.0, 2.0]) == Estimate(1.5, None, None)


@pytest.mark.parametrize(
    ("low", "high", "num_runs", "said"),
    [
        (-10.0, 5.0, (5, 5), "parity"),  # a loss of the margin is still parity
        (-9.0, -1.0, (5, 5), "parity"),  # a sure loss within the margin too
        (3.0, 5.0, (5, 5), "parity"),
        (-10.1, 5.0, (5, 5), "not shown"),
        (-20.0, -0.1, (5, 5), "behind"),
        (-20.0, 0.0, (5, 5), "not shown"),
        (3.0, 5.0, (5, 4), "not shown"),
        (3.0, 5.0, (4, 5), "not shown"),
        (None, None, (5, 5), "not shown"),
    ],
)
def test_parity_is_said_only_where_the_interval_excludes_a_loss_beyond_the_margin(low, high, num_runs, said):
    assert verdict(Estimate(0.0, low, high), 10.0, num_runs, needed=5) == said


def test_the_margin_is_a_twentieth_of_the_range_of_returns():
    assert CARTPOLE.margin == pytest.approx(0.05 * (500 - 24))
    assert all(case.low < case.high for contest in CONTESTS.values() for case in contest.cases)


def test_each_form_of_ours_is_compared_with_the_peer_on_the_score_of_its_runs():
    runs = records(CARTPOLE, ours=[480.0] * 5, ours_processes=[400.0] * 5, sb3=[490.0] * 5)
    found = {each.form.name: (each.difference.value, each.verdict) for each in compared(runs, CARTPOLE, SB3.pairs)}
    assert found == {"ours": (-10.0, "parity"), "ours-processes": (-90.0, "behind")}


def test_without_runs_of_both_sides_nothing_is_compared():
    assert compared(records(CARTPOLE, ours=[480.0] * 5), CARTPOLE, SB3.pairs) == []
    assert compared(records(CARTPOLE, sb3=[480.0] * 5), CARTPOLE, SB3.pairs) == []


def test_what_more_environments_cost_the_peer_itself_is_shown_and_judges_nothing():
    runs = records(CARTPOLE, ours=[480.0] * 5, ours_processes=[400.0] * 5, sb3=[490.0] * 5, sb3_eight=[395.0] * 5)
    page = as_markdown(runs)
    assert "Of 2 comparisons, parity: 1, not shown: 0, behind: 1." in page
    _, _, control = page.partition("### As many environments on both sides")
    assert "| dqn CartPole-v1 | SB3, 8 environments | SB3 | -95.0 [-95.0, -95.0] |" in control
    assert "| dqn CartPole-v1 | ours, processes | SB3, 8 environments | 5.0 [5.0, 5.0] |" in control
    assert "### As many" not in as_markdown(records(CARTPOLE, ours=[480.0] * 5, sb3=[490.0] * 5))


def test_all_cases_together_are_those_with_enough_runs_on_one_scale():
    pendulum, lander = case_named("sac Pendulum-v1"), case_named("dqn LunarLander-v3")
    runs = [
        *records(CARTPOLE, ours=[500.0] * 5, sb3=[500.0] * 5),
        *records(pendulum, ours=[-150.0] * 5, sb3=[-1_200.0] * 5),
        *records(lander, ours=[0.0] * 5, sb3=[0.0] * 4),
    ]
    result = compared_together(runs, SB3.sides[0], SB3)
    assert result is not None
    found, cases = result
    assert [case.name for case in cases] == ["dqn CartPole-v1", "sac Pendulum-v1"]
    # Ours: ten runs at 1. Theirs: five at 0 and five at 1, of which the middle six have a mean of a half.
    assert found == Estimate(0.5, 0.5, 0.5)
    assert compared_together(runs, SB3.sides[1], SB3) is None


def test_the_way_there_is_read_at_each_tenth_from_the_latest_evaluation():
    run = {"curve": [[5_120, 10.0], [20_480, 40.0], [44_000, 80.0]]}
    assert on_the_way(run, CARTPOLE).tolist() == [10, 10, 10, 40, 40, 40, 40, 40, 80]
    assert on_the_way({"curve": [[30_000, 6.0]]}, CARTPOLE).tolist() == [6] * 9
    runs = [*records(CARTPOLE, ours=[100.0, 200.0, 600.0])]
    assert curve_of(runs, CARTPOLE) == [0, 0, 0, 0, 150, 150, 150, 150, 150]


def test_how_fast_they_learn_is_compared_by_the_mean_over_the_tenths():
    runs = records(CARTPOLE, ours=[190.0] * 5, sb3=[100.0] * 5)
    (found,) = compared(runs, CARTPOLE, SB3.pairs)
    assert found.on_the_way == pytest.approx((25.0, 25.0, 25.0))  # (190 - 100) / 2 at five of nine tenths


def test_what_they_have_learned_late_is_the_mean_from_six_tenths_on_with_the_score():
    curve = [[5_000, 10.0], [29_999, 20.0], [30_000, 100.0], [45_000, 200.0], [50_176, 0.0]]
    run = {"curve": curve, "num_steps": 50_176, "returns": [300.0, 500.0]}  # the last policy counts once, by its score
    assert late([run, run | {"curve": curve[:2]}], CARTPOLE) == [(100 + 200 + 400) / 3, 400]


def test_the_page_opens_with_what_is_not_shown_and_ends_with_where_the_runs_were_made():
    runs = records(CARTPOLE, ours=[480.0] * 5, ours_processes=[400.0] * 5, sb3=[490.0] * 5)
    page = as_markdown(runs)
    lines = page.splitlines()
    assert lines[4] == "## Weaknesses first"
    assert "- Of 2 comparisons, parity: 1, not shown: 0, behind: 1." in lines
    assert "- dqn CartPole-v1 (ours, processes): behind" in lines
    others = [case.name for case in CASES if case is not CARTPOLE]
    assert f"- Not compared yet: {', '.join(others)}." in lines
    assert "| dqn CartPole-v1 | SB3 | 50,176 | 24,704 | 5 | 490.0 [490.0, 490.0] |" in lines
    late_and_on_the_way = "-10.0 [-10.0, -10.0] | -2.8 [-2.8, -2.8]"
    assert f"| dqn CartPole-v1 | ours | -10.0 [-10.0, -10.0] | 23.8 | **parity** | {late_and_on_the_way} |" in lines
    assert "| dqn CartPole-v1 | ours | 1: 480.0, 2: 480.0, 3: 480.0, 4: 480.0, 5: 480.0 |" in lines
    of_each = "; ".join(f"dqn CartPole-v1 ({who}) 1..5" for who in ("ours", "ours, processes", "SB3"))
    assert f"- Commit: `abc` (15 runs: {of_each})" in lines
    assert page == as_markdown(runs[::-1])


def test_a_commit_is_followed_by_the_runs_that_were_made_at_it():
    runs = records(CARTPOLE, ours=[480.0] * 6, sb3=[490.0] * 2)
    for index in (2, 4, 5):  # seeds 3, 5 and 6
        runs[index] = runs[index] | {"commit": "def"}
    lines = as_markdown(runs).splitlines()
    assert "- Commit: `abc` (5 runs: dqn CartPole-v1 (ours) 1..2, 4; dqn CartPole-v1 (SB3) 1..2)" in lines
    assert "- Commit: `def` (3 runs: dqn CartPole-v1 (ours) 3, 5..6)" in lines


@pytest.mark.release
def test_a_page_is_not_written_over_where_the_runs_are_not_found(tmp_path):
    (tmp_path / "learning.md").write_text("mine")
    words = [sys.executable, "-m", "drivetrain.bench.learning.page", "lerning.json", "learning.md"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "error: lerning.json: there are no kept runs here\n")
    assert (tmp_path / "learning.md").read_text() == "mine"
    done = subprocess.run(words[:3], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr.partition(",")[0]) == (2, "error: expected two names: of the kept report")


def test_a_page_of_no_runs_says_so():
    assert "- There is nothing to compare yet." in as_markdown([])


def test_the_page_of_simulators_compares_with_what_goes_through_gymnasium_and_leaves_other_runs_out():
    case = case_named("ppo drivetrain/CartPole-v1")
    runs = records(case, fused=[490.0] * 5, fused_processes=[480.0] * 5, gymnasium=[500.0] * 5)
    page = as_markdown([*runs, *records(CARTPOLE, ours=[7.0] * 5, sb3=[7.0] * 5)], SIMULATORS)
    lines = page.splitlines()
    assert lines[0] == "# What is learned on compiled simulators, against the same through Gymnasium"
    assert "- Of 2 comparisons, parity: 2, not shown: 0, behind: 0." in lines
    assert any(line.startswith("| case | who | fused less through Gymnasium [95%] |") for line in lines)
    assert "| ppo drivetrain/CartPole-v1 | fused, processes | 100,352 | 3,920 | 5 | 480.0 [480.0, 480.0] |" in lines
    assert "SB3" not in page
    assert "dqn CartPole-v1" not in page


def test_the_file_has_a_line_for_each_run_in_the_order_of_cases_sides_and_seeds(tmp_path):
    path = tmp_path / "learning.json"
    runs = records(CARTPOLE, sb3=[1.0, 2.0], ours=[3.0])
    for run in runs:
        add(path, run)
    assert load(path) == [runs[2], runs[0], runs[1]]
    assert len(path.read_text().splitlines()) == 3 + 2
    assert load(tmp_path / "absent.json") == []
