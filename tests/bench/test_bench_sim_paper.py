"""`drivetrain bench sim --paper`: a ratio is split into calls, touched and untouched state, and curves are drawn."""

import pytest

from drivetrain.bench.machine import Origin
from drivetrain.bench.report import Report, Skipped
from drivetrain.bench.sim import command, devices
from drivetrain.bench.sim.cases import speed_case
from drivetrain.bench.sim.causes import CARTPOLE_NBYTES, Cause, with_causes
from drivetrain.bench.sim.command import CHECKER, COMPILER, weaknesses_of
from drivetrain.bench.sim.contenders import EVERYBODY, MAKE, OURS, TORCH, TORCH_COMPILED, XLA
from drivetrain.bench.sim.devices import CPU, GPU, device_of
from drivetrain.bench.sim.paper import KNOB, UNFUSED, paper_plan
from drivetrain.bench.sim.peers.entry import Slice
from drivetrain.bench.sim.pictures import draw, number_in, ratios_of, touched, untouched
from drivetrain.bench.sim.rounds import Measured
from drivetrain.cli import bench
from drivetrain.core.errors import InvalidInput
from drivetrain.sim import explain, make

PLAN = paper_plan(CPU, CPU.rivals, quick=True)
ON_GPU = paper_plan(GPU, GPU.rivals, quick=True)


def rates(**ns):
    """Made-up slices from nanoseconds per step."""
    slices = {name: [Slice(num_steps=10**6, cpu_s=each / 1e3, wall_s=each / 1e3)] for name, each in ns.items()}
    return Measured(slices=slices)


def cases(plan=PLAN, device=CPU):
    """N = 1: a call takes 20,480 ns. Along Knob 10 ns fused; unfused 60 ns, and 160 with untouched state."""
    found = []
    for trial in plan.trials:
        if "4,096 not" in trial.name:
            measured = rates(**{OURS.name: 10, UNFUSED: 160})
        elif trial.group.startswith("Knob"):
            measured = rates(**{OURS.name: 10, UNFUSED: 60})
        else:
            forms = {
                name: 80 * (10 if name == TORCH.name else 1) for name in (TORCH.name, TORCH_COMPILED.name, XLA.name)
            }
            if trial.name == "N = 1":
                forms = {name: ns * 1024 / 4 for name, ns in forms.items()}
            single = {name: ns for name, ns in forms.items() if name in trial.scenes}
            single |= {MAKE.name: 10_240} if MAKE.name in trial.scenes else {}
            measured = rates(**{OURS.name: 10, UNFUSED: 20_480 if trial.name == "N = 1" else 40}, **single)
        found.append(speed_case(trial, measured))
    return with_causes(found, plan, device)


def document_of(found, **machine):
    """A report's JSON."""
    origin = Origin(machine=machine, versions={}, commit="c", command="x")
    return Report(title="t", origin=origin, weaknesses=[], cases=found).as_json()


def test_quick_plans_have_a_point_of_every_kind_and_full_ones_every_curve():
    assert len(PLAN.trials) == 8
    full = paper_plan(CPU, CPU.rivals, quick=False)
    assert len({trial.name for trial in full.trials if trial.group.startswith("CartPole over N")}) == 7
    assert len(full.trials) == 7 + 6 + 21 + 4
    assert all(
        scene.num_steps == 1 for trial in full.trials for name, (_, scene) in trial.scenes.items() if name == UNFUSED
    )


def test_the_difference_is_shared_out_among_calls_touched_and_untouched_state():
    bare, heavy = (case.notes[-1] for case in cases() if case.group.startswith("Knob"))
    assert "6.0×, mostly touched state" in bare
    assert "of the 50.0 ns between them 20.0 are calls, 30.0 touched and 0.0 untouched state" in bare
    assert "16.0×, mostly untouched state" in heavy
    assert "20.0 are calls, 30.0 touched and 100.0 untouched state" in heavy
    assert "Unfused a step moves 150 bytes, with K = 64 6." in bare


def test_every_comparison_names_cores_and_bytes():
    notes = {case.name: case.notes[-1] for case in cases() if case.notes}
    over_n = notes["CartPole over N: one simulator, many (K = 1), many and fused (K = 64): N = 1,024"]
    assert "gymnasium.make takes 10,240 ns a step of its one environment, 256.0× this unfused" in over_n
    over_k = notes["CartPole over K, N = 1,024: K = 64"]
    assert "Unfused a step moves 54 bytes, with K = 64 5." in over_k
    frameworks = notes["XLA against PyTorch: CartPole over N, K = 16: N = 1,024"]
    assert "our torch 800.0 ns, at most 200.0 of them calls" in frameworks
    assert all(note.endswith("One core on every side.") for note in notes.values())


def test_the_page_has_weaknesses_of_its_own_comparisons_and_not_of_the_cases_that_it_has_not():
    for device in (CPU, GPU):
        told = " ".join(weaknesses_of(device))
        assert "random" in told
        assert not any(word in told for word in ("cases with a policy", "observations are written"))
    assert "cases with a policy" in " ".join(weaknesses_of(None))


def test_bytes_of_cartpole_are_those_of_its_state():
    assert explain(make("CartPole-v1")).state_nbytes == CARTPOLE_NBYTES


def test_a_cause_names_its_largest_part_and_a_loss_is_no_gain():
    assert Cause(fast=1, slow=9, calls=5, dead=1, moved=2).word == "calls"
    assert Cause(fast=4, slow=2, calls=0, dead=0, moved=0).text == "0.50×: no gain"


@pytest.mark.release
def test_curves_are_drawn_from_the_report(tmp_path):
    pytest.importorskip("matplotlib", reason='needs the extra: pip install "drivetrain[plot]"')
    written = draw(document_of(cases()), tmp_path)
    assert [path.name for path in written] == [
        "sim-vectorised.svg",
        "sim-pytorch.svg",
        "sim-steps.svg",
        "sim-fused.svg",
        "sim-untouched.svg",
        "sim-product.svg",
    ]
    assert all(path.stat().st_size > 5_000 for path in written)


def test_curves_along_knob_vary_touched_and_untouched_state_apart():
    document = {"cases": [case.as_json() for case in cases()]}
    group = f"{KNOB}1,024"
    assert ratios_of(document, group, touched) == [(64, 6.0)]
    assert ratios_of(document, group, untouched) == [(64, 6.0), (4160, 16.0)]


def test_numbers_are_read_out_of_names():
    assert [number_in(text) for text in ("N = 16,384", "K = 2", "1,024 bytes touched, 0 not")] == [16384, 2, 1024]


def test_plots_need_the_comparisons_and_a_folder(tmp_path):
    with pytest.raises(InvalidInput, match="expected a folder that exists, together with --paper"):
        bench.run(["sim", "--plots", str(tmp_path)])
    with pytest.raises(InvalidInput, match="expected a folder that exists"):
        bench.run(["sim", "--paper", "--plots", str(tmp_path / "none")])


def test_plots_without_what_draws_them_are_refused_before_anything_is_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "is_installed", lambda module: module != "matplotlib")
    with pytest.raises(InvalidInput, match=r"--plots \S+: matplotlib is not installed: pip install"):
        bench.run(["sim", "--paper", "--plots", str(tmp_path)])


def test_on_a_gpu_the_same_comparisons_are_made_by_the_clock_with_calls_that_overlap():
    full = paper_plan(GPU, GPU.rivals, quick=False)
    assert {trial.group.partition(" N = ")[0] for trial in full.trials} == {
        trial.group.partition(" N = ")[0] for trial in paper_plan(CPU, CPU.rivals, quick=False).trials
    }
    assert all(trial.by_clock for trial in full.trials)
    scenes = [each for trial in full.trials for each in trial.scenes.values()]
    assert {scene.num_calls for _, scene in scenes} == {GPU.num_calls}
    assert {(rival.module.rpartition(".")[2], rival.form) for rival, _ in scenes} == {
        ("ours_cuda", ""),
        ("ours", "xla"),
        ("ours_torch_on_gpu", "torch"),
        ("ours_torch_on_gpu", "torch_compiled"),
        ("gymnasium_make", ""),
    }
    assert max(scene.num_envs for _, scene in scenes) == 2**20


def test_without_xla_and_pytorch_on_the_gpu_ours_is_measured_alone():
    plan = paper_plan(GPU, [rival for rival in GPU.rivals if rival.name == OURS.name], quick=True)
    assert {name for trial in plan.trials for name in trial.scenes} == {OURS.name, UNFUSED}


@pytest.mark.release
def test_sentences_and_pictures_of_a_gpu_say_so(tmp_path):
    pytest.importorskip("matplotlib", reason='needs the extra: pip install "drivetrain[plot]"')
    found = cases(ON_GPU, GPU)
    assert {case.unit for case in found} == {"M steps/s"}
    assert all(case.notes[-1].endswith("One GPU, by the clock.") for case in found if case.notes)
    written = draw(document_of(found, device="gpu"), tmp_path)
    assert len(written) == 6
    assert all(path.name.startswith("sim-gpu-") for path in written)


def test_everybody_whose_cpu_seconds_count_is_kept_from_a_gpu_that_is_there():
    for rival in (*EVERYBODY, CHECKER, COMPILER):
        assert dict(rival.variables) == {"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": ""}


def test_a_gpu_that_is_asked_for_and_absent_is_refused_and_auto_falls_back_and_says_why(monkeypatch, capsys):
    skipped = Skipped(name="ours", reason="not installed: cuda.core", remedy="install it")
    monkeypatch.setattr(type(devices.CUDA), "missing", lambda self: skipped)
    with pytest.raises(InvalidInput, match=r"--device gpu: .* not installed: cuda.core; to have it: install it"):
        device_of("gpu")
    assert device_of("auto") is CPU
    assert "on the CPU, as no GPU can be used: not installed: cuda.core" in capsys.readouterr().out
    monkeypatch.setattr(devices, "why_no_gpu", lambda: "")
    assert device_of("auto") is device_of("gpu") is GPU
    monkeypatch.setattr(devices, "why_no_gpu", lambda: pytest.fail("nobody asked"))
    assert device_of("cpu") is CPU


@pytest.mark.whole
def test_where_no_driver_is_the_contender_itself_says_so():
    pytest.importorskip("cuda.core", reason='needs the extra: pip install "drivetrain[cuda]"')
    why = devices.why_no_gpu()
    if not why:
        pytest.skip("there is a GPU here")
    assert 'engine "cuda"' in why


def test_a_device_needs_the_comparisons():
    with pytest.raises(InvalidInput, match="--device gpu: only --paper has a choice"):
        bench.run(["sim", "--device", "gpu"])
