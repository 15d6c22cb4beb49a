"""`drivetrain bench sim --paper`: a ratio is split into calls, touched and untouched state, and curves are drawn."""

import pytest

from drivetrain.bench.report import Report
from drivetrain.bench.sim.cases import speed_case
from drivetrain.bench.sim.contenders import EVERYBODY, MAKE, OURS
from drivetrain.bench.sim.paper import UNFUSED, Cause, paper_plan, with_causes
from drivetrain.bench.sim.peers.entry import Slice
from drivetrain.bench.sim.pictures import draw, number_in
from drivetrain.bench.sim.rounds import Measured
from drivetrain.cli import bench
from drivetrain.core.errors import InvalidInput

PLAN = paper_plan(EVERYBODY, quick=True)


def rates(**ns):
    """Made-up slices from nanoseconds per step."""
    return Measured(slices={name: [Slice(num_steps=10**6, cpu_s=each / 1e3, wall_s=1.0)] for name, each in ns.items()})


def cases():
    """N = 1: a call takes 20,480 ns. Along Knob 10 ns fused; unfused 60 ns, and 160 with untouched state."""
    found = []
    for trial in PLAN.trials:
        if "4,096 not" in trial.name:
            measured = rates(**{OURS.name: 10, UNFUSED: 160})
        elif trial.group.startswith("Knob"):
            measured = rates(**{OURS.name: 10, UNFUSED: 60})
        else:
            single = {MAKE.name: 10_240} if MAKE.name in trial.scenes else {}
            measured = rates(**{OURS.name: 10, UNFUSED: 20_480 if trial.name == "N = 1" else 40}, **single)
        found.append(speed_case(trial, measured))
    return with_causes(found, PLAN)


def test_quick_plans_have_a_point_of_every_kind_and_full_ones_every_curve():
    assert len(PLAN.trials) == 6
    full = paper_plan(EVERYBODY, quick=False)
    assert len({trial.name for trial in full.trials if trial.group.startswith("CartPole over N")}) == 7
    assert len(full.trials) == 7 + 6 + 21
    assert all(
        scene.num_steps == 1 for trial in full.trials for name, (_, scene) in trial.scenes.items() if name == UNFUSED
    )


def test_the_difference_is_shared_out_among_calls_touched_and_untouched_state():
    bare, heavy = (case.notes[0] for case in cases() if case.group.startswith("Knob"))
    assert "6.0×, mostly touched state" in bare
    assert "20.0 ns are calls, 30.0 ns touched and 0.0 ns untouched state" in bare
    assert "16.0×, mostly untouched state" in heavy
    assert "20.0 ns are calls, 30.0 ns touched and 100.0 ns untouched state" in heavy
    assert "Unfused it moves 150 bytes, fused 6" in bare


def test_a_cause_names_its_largest_part():
    assert Cause(fused=1, unfused=9, calls=5, dead=1, moved=2).word == "calls"


def test_curves_are_drawn_from_the_report(tmp_path):
    pytest.importorskip("matplotlib", reason='needs the extra: pip install "drivetrain[plot]"')
    report = Report(title="t", machine={}, versions={}, commit="c", command="x", weaknesses=[], cases=cases())
    written = draw(report.as_json(), tmp_path)
    assert [path.name for path in written] == [
        "sim-vectorised.svg",
        "sim-steps.svg",
        "sim-fused.svg",
        "sim-product.svg",
    ]
    assert "native, K = 64" in written[0].read_text() or written[0].stat().st_size > 5_000


def test_numbers_are_read_out_of_names():
    assert [number_in(text) for text in ("N = 16,384", "K = 2", "1,024 bytes touched, 0 not")] == [16384, 2, 1024]


def test_plots_need_the_comparisons_and_a_folder(tmp_path):
    with pytest.raises(InvalidInput, match="expected a folder that exists, together with --paper"):
        bench.run(["sim", "--plots", str(tmp_path)])
    with pytest.raises(InvalidInput, match="expected a folder that exists"):
        bench.run(["sim", "--paper", "--plots", str(tmp_path / "none")])
