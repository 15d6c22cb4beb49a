"""`drivetrain bench replay` as a whole, with ours, NumPy and rivals that misbehave, at tiny sizes."""

import json
import subprocess
import sys

import pytest

from drivetrain.bench.process import Rival
from drivetrain.bench.replay import command
from drivetrain.bench.replay.cases import unmeasured
from drivetrain.bench.replay.contenders import FLOOR, NUMPY, OURS, OURS_ALL_CORES, OURS_BY_DEFAULT, PEERS
from drivetrain.bench.replay.groups import all_cores_group, buffer_group, tree_group
from drivetrain.bench.replay.plan import Plan
from drivetrain.bench.replay.rounds import Measured, measure_group
from drivetrain.bench.replay.timing import Timing
from drivetrain.bench.table import as_markdown
from drivetrain.cli import bench
from drivetrain.core.errors import InvalidInput, RunError

TINY = buffer_group("obs 4", 2**11)


def measure(group, rivals):
    return measure_group(group, rivals, num_rounds=2, slice_s=0.001)


@pytest.fixture
def make_rival(tmp_path, monkeypatch):
    def make(name, text):
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.syspath_prepend(str(tmp_path))
        return Rival(name=name, module=name, requires=(), install="pip install peer")

    return make


@pytest.fixture
def tiny(monkeypatch):
    plan = Plan(groups=[TINY, tree_group(2**11), buffer_group("84x84x4 pairs", 2**10)], num_rounds=2, slice_s=0.001)
    monkeypatch.setattr(command, "full_plan", lambda processes: plan)
    monkeypatch.setattr(command, "PEERS", (NUMPY,))


@pytest.mark.release
def test_a_run_writes_the_contract_and_the_page_is_made_from_it(tiny, tmp_path, capsys):
    paths = [tmp_path / "replay.json", tmp_path / "replay.md"]
    assert bench.run(["replay", "--json", str(paths[0]), "--markdown", str(paths[1])]) == 0
    document = json.loads(paths[0].read_text())
    assert {"machine", "versions", "commit", "command", "cases"} <= set(document)
    cases = {case["name"]: case for case in document["cases"]}
    sample = cases["obs 4, 2^11 rows: sample 256 [µs]"]
    assert sample["ratio"] == pytest.approx(sample["peers"]["NumPy"] / sample["ours"])
    assert sample["references"]["floor"] > 0
    assert sample["cpu"]["ours"] > 0
    assert len(sample["samples"]["ours"]) == 2
    assert sample["minima"]["ours"] <= min(sample["samples"]["ours"])
    assert [(target["against"], target["aim"]) for target in sample["targets"]] == [("best peer", 2.0)]
    assert cases["84x84x4 pairs, 2^10 rows: memory [MiB]"]["ours"] > 50
    assert set(cases["tree of 2^11 leaves: find 256 [ns per element]"]["peers"]) == {"NumPy"}
    assert paths[1].read_text() == as_markdown(document)
    assert paths[1].read_text() in capsys.readouterr().out


def test_in_groups_of_all_cores_nobody_is_pinned_and_ours_is_told_to_use_them(make_rival, monkeypatch):
    rivals = command.taking_part(all_cores_group("84x84x4 pairs", 2**10), [OURS, *PEERS, FLOOR, OURS_BY_DEFAULT])
    assert rivals == [OURS_ALL_CORES, *PEERS]
    assert OURS_ALL_CORES.name == OURS.name
    peek = make_rival(
        "peek",
        "import os\nfrom drivetrain.bench.serving import serve\n"
        "serve(lambda request: {'threads': os.environ.get('OMP_NUM_THREADS', 'its own choice')})\n",
    )
    threads = {}

    def ask_for_threads(group, rivals, *, start, **more):
        worker = start(peek)
        threads[group.name] = worker.ask({}, timeout_s=60)["threads"]
        worker.end()
        return Measured()

    monkeypatch.setattr(command, "measure_group", ask_for_threads)
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    groups = [make("84x84x4 pairs", 2**10) for make in (buffer_group, all_cores_group)]
    list(command.measure_groups(Plan(groups=groups), [OURS]))
    assert threads == {groups[0].name: "1", groups[1].name: "its own choice"}


def test_ctrl_c_ends_the_bench_with_a_report_of_what_was_measured_by_then(tmp_path, monkeypatch):
    def measured_until_ctrl_c(group, *_args, **_options):
        if group is groups[1]:
            raise KeyboardInterrupt
        timing = Timing(median_us=2.0, smallest_us=1.0, cpu_us=2.0, num_calls=10)
        return Measured(rounds={name: {OURS.name: [timing]} for phase in group.phases for name in phase})

    groups = [buffer_group("obs 4", 2**10), buffer_group("obs 17", 2**10)]
    monkeypatch.setattr(command, "measure_group", measured_until_ctrl_c)
    monkeypatch.setattr(command.Options, "plan", lambda _: Plan(groups=groups))
    path = tmp_path / "replay.json"
    assert bench.run(["replay", "--json", str(path)]) == 0
    report = json.loads(path.read_text())
    assert {case["group"] for case in report["cases"]} == {groups[0].name}
    assert "the run was interrupted" in [one["reason"] for one in report["skipped"]]


@pytest.mark.release
def test_everybody_is_timed_at_every_operation_in_every_round():
    measured = measure(TINY, [OURS, NUMPY, FLOOR])
    operations = {name for phase in TINY.phases for name in phase}
    assert set(measured.rounds) == operations
    for name in operations:
        timings = measured.rounds[name]
        assert {contender for contender, each in timings.items() if len(each) == 2} >= {"ours", "NumPy"}
        assert ("floor" in timings) == name.startswith("sample")
    assert all(timing.num_calls > 0 for each in measured.rounds["update 32"].values() for timing in each)
    assert measured.memory_nbytes == {}


@pytest.mark.parametrize(
    ("text", "reason", "line"),
    [
        ("print('looking'); raise SystemExit('it does not load')", "ended with code 1: it does not load", "looking"),
        (
            "from drivetrain.bench.replay.peers.entry import Offer, serve\n"
            "def make(layout, capacity): raise ValueError('no room')\nserve(Offer(make))",
            "ValueError: no room",
            "Traceback (most recent call last):",
        ),
    ],
)
def test_a_rival_that_crashes_is_named_and_the_others_are_measured(make_rival, capsys, text, reason, line):
    measured = measure(TINY, [OURS, make_rival("broken", text)])
    assert reason in measured.failed["broken"]
    printed = capsys.readouterr().out
    assert reason in printed
    assert f"\n    {line}\n" in printed, "what it wrote itself, of which nothing else is left"
    (skipped,) = unmeasured(TINY, measured)
    assert skipped.remedy == f'drivetrain bench replay --only "{TINY.name}"'
    assert all(set(timings) == {"ours"} for timings in measured.rounds.values())


@pytest.mark.whole
def test_a_rival_that_dies_half_way_leaves_no_timings(make_rival):
    text = (
        "import os\nfrom drivetrain.bench.replay.peers import entry\n"
        "from drivetrain.bench.replay.peers.numpy_per import NumpyStore\n"
        "class Dying(NumpyStore):\n"
        "    def updater(self, batch_size):\n"
        "        if batch_size == 256: os._exit(3)\n"
        "        return super().updater(batch_size)\n"
        "entry.serve(entry.Offer(Dying))\n"
    )
    measured = measure(TINY, [OURS, make_rival("dying", text)])
    assert "ended with code 3" in measured.failed["dying"]
    assert all(set(timings) == {"ours"} for timings in measured.rounds.values())


@pytest.mark.whole
def test_a_rival_that_hangs_is_ended_and_the_others_are_measured(make_rival, monkeypatch):
    text = (
        "import time\nfrom drivetrain.bench.replay.peers import entry\n"
        "from drivetrain.bench.replay.peers.numpy_per import NumpyStore\n"
        "class Hanging(NumpyStore):\n"
        "    def updater(self, batch_size):\n"
        "        return super().updater(batch_size) if batch_size != 256 else time.sleep(600)\n"
        "entry.serve(entry.Offer(Hanging))\n"
    )
    monkeypatch.setattr("drivetrain.bench.replay.rounds.MEASURE_TIMEOUT_S", 3.0)
    rivals = [OURS, make_rival("hanging", text)]
    measured = measure_group(TINY, rivals, num_rounds=1, slice_s=0.001)
    assert measured.failed["hanging"] == "hanging took longer than 3 s"
    assert set(measured.rounds["sample 256"]) == {"ours"}


def test_a_failure_of_ours_is_an_error(make_rival):
    ours = make_rival("ours", "raise SystemExit('broken')")
    with pytest.raises(RunError, match="ours ended with code 1: broken"):
        measure(TINY, [ours, NUMPY])


@pytest.mark.release
def test_what_a_contender_does_not_have_is_said_and_the_case_goes_on(monkeypatch, make_rival, tmp_path):
    text = (
        "from drivetrain.bench.replay.peers.entry import Offer, serve\n"
        "from drivetrain.bench.serving import NotOffered\n"
        "def make(layout, capacity): raise NotOffered('it has no such thing')\nserve(Offer(make))"
    )
    ours = make_rival("ours", text)
    monkeypatch.setattr(command, "OURS", ours)
    monkeypatch.setattr(command, "SHARING", (ours,))
    monkeypatch.setattr(command, "PEERS", (NUMPY,))
    monkeypatch.setattr(command, "full_plan", lambda processes: Plan(groups=[TINY], num_rounds=1, slice_s=0.001))
    assert bench.run(["replay", "--json", str(tmp_path / "replay.json")]) == 0
    document = json.loads((tmp_path / "replay.json").read_text())
    assert document["skipped"][0]["name"] == "ours, obs 4, 2^11 rows"
    assert document["skipped"][0]["reason"] == "not available: it has no such thing"
    case = document["cases"][0]
    assert (case["ours"], case["ratio"]) == (None, None)
    assert case["peers"]["NumPy"] > 0
    assert case["targets"][0]["met"] is None


def test_peers_that_are_not_installed_are_listed_with_their_remedy(tiny, monkeypatch, tmp_path):
    absent = Rival(name="cpprb", module="m", requires=("no_such_module",), install=PEERS[0].install)
    monkeypatch.setattr(command, "PEERS", (absent,))
    path = tmp_path / "replay.json"
    assert bench.run(["replay", "--only", "tree", "--json", str(path)]) == 0
    document = json.loads(path.read_text())
    assert document["skipped"] == [
        {"name": "cpprb", "reason": "not installed: no_such_module", "remedy": absent.install}
    ]
    assert all(case["ratio"] is None and case["peers"] == {} for case in document["cases"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "nothing"], "--only 'nothing' is in the name of no group of cases: obs 4"),
        (["--rounds", "0"], "--rounds: expected at least 1, got 0"),
        (["--json", "no/such/folder/a.json"], "folder does not exist"),
    ],
)
def test_a_mistake_is_refused_before_anything_runs(words, message):
    with pytest.raises(InvalidInput, match=message):
        bench.run(["replay", *words])


def test_importing_the_bench_brings_no_framework_and_no_peer():
    frameworks = ("jax", "torch", "gymnasium", "cpprb", "tianshou", "torchrl", "flashbax", "numba")
    code = f"import sys, drivetrain.bench.replay.command; print([m for m in {frameworks} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_peer_says_how_to_install_it_and_has_a_file_of_its_own():
    assert all("drivetrain" in peer.install for peer in PEERS)
    assert len({peer.module for peer in PEERS}) == len(PEERS)
