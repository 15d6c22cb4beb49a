"""`drivetrain bench sim`: everybody simulates the same scene."""

import json
from dataclasses import replace

import jax
import jax.numpy as jnp
import pytest

from drivetrain import sim
from drivetrain.bench.process import Rival
from drivetrain.bench.serving import NotOffered
from drivetrain.bench.sim import command
from drivetrain.bench.sim.cases import median_case, not_measured, speed_case
from drivetrain.bench.sim.contenders import EVERYBODY, GYMNAX, OF_THE_PAPER, OURS, OWN, XLA
from drivetrain.bench.sim.devices import CPU
from drivetrain.bench.sim.equality import compare
from drivetrain.bench.sim.interfaces import on_bits
from drivetrain.bench.sim.paper import paper_plan
from drivetrain.bench.sim.peers import ours_apart, ours_in_scan, ours_jitted
from drivetrain.bench.sim.peers.entry import Session, Slice
from drivetrain.bench.sim.peers.ours import simulator
from drivetrain.bench.sim.plan import Comparison, Plan, cartpole, counter, full_plan, of_gymnax, quick_plan, threads
from drivetrain.bench.sim.rounds import Measured, measure
from drivetrain.bench.sim.scene import Scene, from_request
from drivetrain.bench.sim.targets import A_BOOLEAN_EACH, ONE_THREAD, TWO_PROCESSES
from drivetrain.bench.sim.trial import Trial
from drivetrain.cli import bench
from drivetrain.core.errors import InvalidInput, MissingExtra, RunError
from drivetrain.sim.engines.native import forms
from drivetrain.sim.envs.boards import Bits, Cells
from drivetrain.sim.spaces import Discrete

SCENE = Scene(env="CartPole-v1", num_envs=8, num_steps=4)


def slices(*rates):
    return [Slice(num_steps=int(rate * 1e6), cpu_s=1.0, wall_s=2.0) for rate in rates]


class FakeWorker:
    """A contender's process without a process."""

    def __init__(self, rival, opened=None, error=None):
        self.rival, self.error, self.ended = rival, error, False
        self.answers = [opened if opened is not None else {"open_s": 1.0}]

    def send(self, request):
        if self.error == "gone":
            raise RunError(self.error)
        if request["do"] == "measure":
            self.answers.append({"num_steps": 10, "cpu_s": 1.0, "wall_s": 1.0})

    def receive(self, timeout_s):
        if self.error:
            raise RunError(self.error)
        return self.answers.pop(0)

    def end(self):
        self.ended = True


def play(num_rounds=3, **workers):
    scenes = {name: (worker.rival, SCENE) for name, worker in workers.items()}
    return measure(scenes, num_rounds=num_rounds, slice_s=0.1, start=lambda rival: workers[rival.name])


def fake(name, **how):
    return FakeWorker(Rival(name=name, module="none", requires=(), install="pip install it"), **how)


def test_everybody_is_timed_in_every_round_and_ended():
    workers = {"ours": fake("ours"), "other": fake("other")}
    measured = play(**workers)
    assert {name: len(each) for name, each in measured.slices.items()} == {"ours": 3, "other": 3}
    assert all(worker.ended for worker in workers.values())


def test_who_does_not_have_a_scene_or_fails_is_said_and_the_others_are_measured():
    measured = play(
        ours=fake("ours"), single=fake("single", opened={"missing": "one only"}), bad=fake("bad", error="oh")
    )
    assert set(measured.slices) == {"ours"}
    assert (measured.missing, measured.failed) == ({"single": "one only"}, {"bad": "oh"})
    trial = cartpole(8, EVERYBODY)
    known = Measured(missing={"gymnasium.make": "one only"}, failed={"EnvPool": "oh"})
    reasons = [skipped.reason for skipped in not_measured(trial, known).values()]
    assert reasons == ["not available: one only", "failed: oh"]


@pytest.mark.parametrize("error", ["broken", "gone"])
def test_a_failure_of_ours_leaves_the_others_measured(error):
    measured = play(ours=fake("ours", error=error), other=fake("other"))
    assert (measured.failed, set(measured.slices)) == ({"ours": error}, {"other"})
    case = speed_case(cartpole(8, EVERYBODY), measured).as_json()
    assert (case["ours"], case["peers"], case["ratio"]) == (None, {"other": 1e-5}, None)


def test_rates_are_per_cpu_second_and_our_engines_are_no_peers():
    measured = Measured(slices={"ours": slices(40, 50, 60), OWN.name: slices(5, 5, 4), XLA.name: slices(8, 8, 8)})
    case = speed_case(cartpole(1024, EVERYBODY), measured).as_json()
    assert (case["ours"], case["peers"], case["references"]) == (50, {OWN.name: 5}, {XLA.name: 8})
    assert [(target["got"], target["met"]) for target in case["targets"]] == [(10, True)]
    assert case["minima"][OWN.name] == 4


def test_the_counter_generator_is_held_against_xla_with_the_same_generator_and_gymnasium():
    trial = counter(1024, [OURS, XLA, OWN])
    assert {scene.generator for _, scene in trial.scenes.values()} == {"philox"}
    measured = Measured(slices={"ours": slices(20), XLA.name: slices(10), OWN.name: slices(2)})
    assert [target["met"] for target in speed_case(trial, measured).as_json()["targets"]] == [False, True]
    assert OWN.name not in counter(1024, [OURS, XLA]).scenes


def test_the_median_is_over_the_ratios_of_gymnax_and_its_aim_is_halved_without_avx512():
    names = ("CartPole-v1", "Pong-misc", "Catch-bsuite")
    cases = [
        speed_case(of_gymnax(name, (OURS, GYMNAX), 0.5), Measured(slices={"ours": slices(ahead), "gymnax": slices(1)}))
        for name, ahead in zip(names, (4, 7, 6), strict=True)
    ]
    (median,) = median_case(cases, 0.5)
    (target,) = median.as_json()["targets"]
    assert (target["aim"], target["got"], target["met"]) == (5.0, 6.0, True)
    assert cases[0].as_json()["targets"][0]["aim"] == 6.0
    assert median_case(cases[:2], 0.5) == []


def test_a_session_opens_a_scene_and_counts_its_steps():
    session = Session(lambda scene: lambda: scene.num_envs * scene.num_steps)
    assert "open_s" in session.answer(SCENE.as_request())
    said = session.answer({"do": "measure", "slice_s": 0.0})
    assert said["num_steps"] == 32
    assert from_request(json.loads(json.dumps(SCENE.as_request()["scene"]))) == SCENE


@pytest.mark.release
def test_calls_inside_a_program_and_jitted_ones_count_every_step():
    num_steps = ours_in_scan.CALLS * SCENE.num_envs * SCENE.num_steps
    for run in (ours_in_scan.simulator(SCENE, "native"), ours_jitted.simulator(SCENE)):
        assert [run(), run()] == [num_steps] * 2


class Elsewhere:
    """The other process's end of the line: says what it is told to, and keeps what it was asked."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []

    def write(self, text):
        self.asked.append(json.loads(text))

    def flush(self):
        pass

    def readline(self):
        return json.dumps(self.answers.pop(0))


def test_two_processes_have_half_of_the_environments_each_and_their_steps_are_added():
    other = Elsewhere({"open_s": 1e9}, {"num_steps": 100, "cpu_s": 1.0, "wall_s": 1e9}, {"error": "oh"})
    both = ours_apart.Both(Session(lambda scene: lambda: scene.num_envs * scene.num_steps), other)
    assert both.answer(SCENE.as_request()) == {"open_s": 1e9}
    said = both.answer({"do": "measure", "slice_s": 0.0})
    assert (said["num_steps"], said["wall_s"]) == (16 + 100, 1e9)
    assert [each.get("scene", {}).get("num_envs") for each in other.asked] == [4, None]
    with pytest.raises(RuntimeError, match="the other process: oh"):
        both.answer({"do": "measure", "slice_s": 0.0})


def test_two_threads_are_held_against_one_and_shown_beside_two_processes():
    measured = Measured(slices={"ours": slices(30), ONE_THREAD: slices(20), TWO_PROCESSES: slices(32)})
    case = speed_case(threads("CartPole-v1"), measured).as_json()
    assert [(target["got"], target["met"]) for target in case["targets"]] == [(1.5, False)]
    assert case["references"] == {ONE_THREAD: 10.0, TWO_PROCESSES: 16.0}
    assert any("share nothing" in note for note in case["notes"])


@pytest.mark.parametrize("name", ["Pong", "Breakout", "Snake"])
def test_boards_of_bits_stand_beside_the_same_game_with_a_boolean_for_each_cell(name):
    scenes = [scene for _, scene in on_bits(name).scenes.values()]
    asked = [from_request(json.loads(json.dumps(scene.as_request()["scene"]))) for scene in scenes]
    boards = [type(sim.make(scene.env, **dict(scene.options)).board) for scene in asked]
    assert boards == [Bits, Cells]


@pytest.fixture
def too_large(monkeypatch):
    """`Large` has whatever name one asks for, and is too large for a kernel."""
    monkeypatch.setattr(sim, "make", lambda _name: Large())
    monkeypatch.setattr(forms, "MOST_STACK_NBYTES", 2_000)
    monkeypatch.setattr(forms, "MOST_HEAP_NBYTES", 2_000)


def test_an_environment_that_an_engine_cannot_compile_is_said(too_large):
    with pytest.raises(NotOffered, match=r"one environment needs .* bytes while it steps, .* a native kernel has"):
        compare("Knob", "native", 1, 1)


def test_plans_cover_every_environment_of_gymnax_and_quick_ones_little():
    gymnax = pytest.importorskip("gymnax", reason='needs the extra: pip install "drivetrain[gymnax]"')
    plan = full_plan(EVERYBODY, 1.0, all_equal=True)
    trials = {trial.name for trial in plan.trials}
    assert set(gymnax.registered_envs) - trials == {"MNISTBandit-bsuite"}
    assert len(plan.comparisons) > 60
    assert len(quick_plan(EVERYBODY, 1.0).names()) < 20


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "nothing there"], "is in the name of no case: of [0-9]+ some are CartPole, nothing recorded"),
        (["--rounds", "0"], "--rounds: expected at least 1, got 0"),
        (["--full-equality", "--quick"], "--full-equality: expected neither --quick nor --paper"),
        (["--json", "no/such/folder/a.json"], "folder does not exist"),
    ],
)
def test_a_mistake_is_refused_before_anything_runs(words, message):
    with pytest.raises(InvalidInput, match=message):
        bench.run(["sim", *words])


def test_without_our_own_extra_the_message_names_it(monkeypatch):
    absent = Rival(name="ours", module="m", requires=("no_such_module",), install='pip install "drivetrain[gymnax]"')
    monkeypatch.setattr(command, "OURS", absent)
    with pytest.raises(MissingExtra, match=r"drivetrain.sim is not installed: no_such_module: .*drivetrain\[gymnax\]"):
        bench.run(["sim", "--quick"])


@pytest.mark.release
def test_a_report_is_made_of_real_processes(tmp_path, monkeypatch):
    trial = cartpole(8, [OURS, GYMNAX])
    plan = Plan(trials=[trial], comparisons=[], compiled=[], num_rounds=1, slice_s=0.01)
    monkeypatch.setattr(command.Options, "plan", lambda *_: plan)
    path = tmp_path / "sim.json"
    assert bench.run(["sim", "--json", str(path)]) == 0
    (case,) = json.loads(path.read_text())["cases"]
    assert case["ours"] > 0
    assert set(case["peers"]) <= {"gymnax"}


def test_an_engine_that_is_wrong_ends_the_command_with_how_wrong_it_is(monkeypatch):
    said = {"num_wrong": 812, "num_compared": 1_000, "largest_error": 1.0, "num_ended": 3, "share_equal": 0.5}
    monkeypatch.setattr(command, "ask", lambda *_: said)
    found = command.Found()
    plan = Plan(trials=[], comparisons=[Comparison(env="CartPole-v1", engine="native")], compiled=[])
    command.ask_about(plan, found)
    assert [case.samples["ours"] for case in found.cases] == [[812]]
    assert [one.reason for one in found.failed] == ["812 of 1,000 numbers are wrong"]


def test_every_environment_of_the_plans_is_one_that_its_library_makes_so():
    plans = [
        full_plan(EVERYBODY, 0.5, all_equal=False),
        quick_plan(EVERYBODY, 0.5),
        paper_plan(CPU, OF_THE_PAPER, quick=False),
    ]
    scenes = {scene for plan in plans for trial in plan.trials for _, scene in trial.scenes.values()}
    made = {(scene.env, scene.options) for scene in map(over_the_wire, scenes)}
    assert ("Snake", (("packed", False),)) in made
    for name, options in made:
        sim.make(name, **dict(options))


def over_the_wire(scene):
    """As the process that is asked for it gets it."""
    return from_request(json.loads(json.dumps(scene.as_request()))["scene"])


@pytest.mark.release
def test_cases_in_which_our_own_process_fails_end_the_command_after_the_others_are_reported(tmp_path, monkeypatch):
    broken = Scene(env="no such environment", num_envs=8, num_steps=4)
    trials = [cartpole(8, [OURS]), Trial(group="g", name="broken", scenes={"ours": (OURS, broken)})]
    comparison = Comparison(env="none either", engine="numpy")
    plan = Plan(trials=trials, comparisons=[comparison], compiled=["nor this"], num_rounds=1, slice_s=0.01)
    monkeypatch.setattr(command.Options, "plan", lambda *_: plan)
    path = tmp_path / "sim.json"
    with pytest.raises(RunError, match=r"our own process failed in 3 cases, first in ours, g, broken: .*no such"):
        bench.run(["sim", "--json", str(path), "--markdown", str(tmp_path / "sim.md")])
    report = json.loads(path.read_text())
    assert [bool(case["ours"]) for case in report["cases"]] == [True, False]
    reasons = {each["name"]: each["reason"] for each in report["skipped"]}
    assert all(reasons[name].startswith("failed: ") for name in (comparison.name, "compiling nor this"))


def test_a_form_of_ours_that_fails_beside_another_one_ends_the_command_too(monkeypatch):
    measured = Measured(slices={"ours": slices(1)}, failed={A_BOOLEAN_EACH: "oh"})
    monkeypatch.setattr(command, "measure", lambda *_args, **_options: measured)
    found = command.Found()
    command.measure_speed(Plan(trials=[on_bits("Pong")], comparisons=[], compiled=[]), found)
    assert [one.reason for one in found.failed] == ["failed: oh"]
    assert not found.skipped


def test_ctrl_c_ends_the_bench_with_a_report_of_what_was_measured_by_then(tmp_path, monkeypatch):
    def measured_until_ctrl_c(scenes, **_options):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(scenes)
        return Measured(slices={"ours": slices(1)})

    done = []
    plan = replace(quick_plan([OURS], 1.0), num_rounds=1)
    monkeypatch.setattr(command, "measure", measured_until_ctrl_c)
    monkeypatch.setattr(command.Options, "plan", lambda *_: plan)
    path = tmp_path / "sim.json"
    assert bench.run(["sim", "--json", str(path)]) == 0
    report = json.loads(path.read_text())
    assert [case["group"] for case in report["cases"]] == [trial.group for trial in plan.trials[:2]]
    assert "the run was interrupted" in [one["reason"] for one in report["skipped"]]


def without_gymnax(monkeypatch):
    absent = Rival(name="gymnax", module="m", requires=("no_such_module",), install=GYMNAX.install)
    rivals = [absent if rival is GYMNAX else rival for rival in (OURS, GYMNAX)]
    monkeypatch.setattr(command, "EVERYBODY", rivals)
    monkeypatch.setattr(command, "measure_speed", lambda plan, _found: asked.append(plan))
    monkeypatch.setattr(command, "ask_about", lambda _plan, _found: None)
    asked = []
    return asked


def test_without_gymnax_the_cases_of_its_environments_are_left_out_and_counted(tmp_path, monkeypatch):
    asked = without_gymnax(monkeypatch)
    path = tmp_path / "sim.json"
    assert bench.run(["sim", "--quick", "--json", str(path)]) == 0
    assert not [name for name in asked[0].names() if "MinAtar" in name or "gymnax" in name]
    assert {"CartPole, nothing recorded, N = 64", "equality, native: CartPole-v1"} <= set(asked[0].names())
    assert {
        "name": "3 cases of gymnax's environments",
        "reason": "not installed: gymnax",
        "remedy": GYMNAX.install,
    } in (json.loads(path.read_text())["skipped"])


def test_without_gymnax_nothing_but_cases_of_its_environments_is_refused_by_its_extra(monkeypatch):
    asked = without_gymnax(monkeypatch)
    with pytest.raises(MissingExtra, match=r"can run here; not installed: gymnax: pip install .drivetrain\[gymnax\]"):
        bench.run(["sim", "--quick", "--only", "gymnax"])
    assert not asked


def test_cases_of_which_nobody_is_installed_are_refused_with_what_installs_them(monkeypatch):
    absent = Rival(name="sim.make_vec", module="m", requires=("no_such_module",), install="pip install it")
    monkeypatch.setattr(command, "EVERYBODY", (OURS, absent))
    plans = {True: [Trial(group="g", name="of others", scenes={"ours": (absent, SCENE)})], False: []}
    monkeypatch.setattr(command, "quick_plan", lambda rivals, _share: Plan(
        trials=plans[absent in rivals], comparisons=[], compiled=[]))  # fmt: skip
    with pytest.raises(MissingExtra, match="can run here; not installed: no_such_module: pip install it"):
        bench.run(["sim", "--quick", "--only", "of others"])


class Large:
    """A state for which kernels that have little memory have none."""

    name, default_params = "Large", None

    def reset(self, key, params):
        return jnp.zeros(1), jax.random.uniform(key, (32, 32))

    def step(self, key, state, action, params):
        state = jnp.sort(state + action, 0).T
        return state[0, :1], state, state[0, 0], state[0, 0] > 1, False, {}

    def action_space(self, params):
        return Discrete(2)


def test_an_environment_that_we_do_not_compile_is_said_to_be_missing_and_ends_nothing(too_large):
    with pytest.raises(NotOffered, match="bytes"):
        simulator(SCENE, "native")
