"""Real runs calibrate themselves: blocks are muted and shown, costs identified, remembered, packed; or left alone."""

import json
import shutil
import threading
import time

import pytest
from programs import profiled, profiled_text

from drivetrain import scope
from drivetrain.cli.main import main
from drivetrain.core.errors import InvalidInput
from drivetrain.scope.calibration.costs import known
from drivetrain.scope.trace.blocks import MUTE_ALL

PROGRAM = """
import sys, time
from drivetrain import scope
working = scope.operation("replay")
@scope.operation("inference")
def act():
    return sum(range(150))
begin, num = time.process_time(), 0
while time.process_time() < begin + float(sys.argv[1]):
    with working:
        act()
        act()
    scope.mark_step()
    num += 1
print(num)
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A profiled program of one and a half seconds: (folder, steps that it took, the cache that it wrote)."""
    folder = tmp_path_factory.mktemp("calibrating")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        script = folder / "program.py"
        script.write_text(PROGRAM)
        done = profiled(folder / "run.scope", "--calibrate-every", "3", script, "1.5")
    return folder / "run.scope", int(done.stdout), folder / "cache" / "drivetrain" / "scope-costs.json"


@pytest.mark.release
def test_muted_blocks_are_shown_as_unrecorded_and_no_step_is_lost(run):
    folder, num_steps, _ = run
    profile = scope.load(folder)
    blocks = profile.correction.blocks[0]
    assert set(blocks.mask.tolist()) == {0, 1, 2, MUTE_ALL}, "two instruments, together and each by itself"
    assert num_steps >= profile.num_steps() >= num_steps - 3 * int(blocks.steps.sum(axis=1).max())
    rows = {(row.operation, row.time_class): row.raw_ns for row in profile.breakdown()}
    assert 0.1 < rows["unrecorded", "unrecorded"] / sum(rows.values()) < 0.5
    assert sum(rows.values()) == profile.wall_ns


@pytest.mark.whole
def test_costs_are_identified_in_the_run_and_remembered_for_the_next(run):
    folder, _, cache = run
    profile = scope.load(folder)
    ledger = {entry["instrument"]: entry for entry in profile.overhead()["costs"]}
    for instrument in ("call", "annotation"):
        entry = ledger[instrument]
        assert "blocks of this process" in entry["source"]
        assert entry["num_muted_blocks"] >= 8
        assert entry["recorded_se_ns"] > 0
    said = next(iter(json.loads(cache.read_text())["machines"].values()))
    assert said["call"][0][0] == pytest.approx(
        ledger["call"]["this_run"]["ns"] / profile.trace.processes[0].alone_ns["call"][0]
    )
    overhead = profile.overhead()
    assert overhead["low_ns"] < overhead["total_ns"] < overhead["high_ns"]
    assert profile.wall.low_ns < profile.wall.likely_ns < profile.wall.high_ns


@pytest.mark.whole
def test_the_report_shows_costs_with_errors_and_the_corrected_wall_time(run, tmp_path, capsys):
    folder, _, _ = run
    assert main(["report", str(folder), "--html", str(tmp_path / "a.html"), "--json", str(tmp_path / "a.json")]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "was left unrecorded, in blocks of steps chosen at random" in shown
    page = (tmp_path / "a.html").read_text()
    assert "wall time without recording" in page
    assert "blocks of this process" in page
    document = json.loads((tmp_path / "a.json").read_text())
    wall = document["corrected_wall"]
    assert wall["low_ns"] < wall["likely_ns"] < wall["high_ns"]
    assert sum(row["corrected_ns"] for row in document["rows"]) == pytest.approx(wall["likely_ns"])
    assert sum(one["corrected_ns"] for one in document["overlaps"]) == pytest.approx(wall["likely_ns"], rel=1e-3)


@pytest.mark.release
def test_a_packed_recording_is_corrected_as_before(run, tmp_path):
    pytest.importorskip("pyarrow", reason='needs PyArrow: pip install "drivetrain[scope]"')
    folder, _, _ = run
    before = scope.load(folder)
    copy = tmp_path / "copy.scope"
    shutil.copytree(folder, copy)
    scope.pack(copy)
    after = scope.load(copy)
    assert after.breakdown() == before.breakdown()
    assert after.overhead() == before.overhead()
    assert known(after.trace, after.correction.blocks) == before.correction.costs


@pytest.mark.parametrize("every", [0, 2])
def test_a_session_mutes_nothing_unless_steps_are_taken_and_it_may(tmp_path, every):
    with scope.session(tmp_path / "run.scope", calibrate_every=every):
        begin = time.perf_counter()
        while time.perf_counter() < begin + 0.1:
            with scope.operation("inference"):
                sum(range(200))
            if not every:
                scope.mark_step()
    profile = scope.load(tmp_path / "run.scope")
    assert not len(profile.correction.blocks[0])
    assert "unrecorded" not in {row.operation for row in profile.breakdown()}
    sources = {entry["instrument"]: entry["source"] for entry in profile.overhead()["costs"]}
    assert "not identifiable" in sources["annotation"]  # or from errors of what it costs alone, where that was found


@pytest.mark.whole
def test_no_step_is_lost_where_threads_end_in_muted_blocks(tmp_path):
    num_steps = 0

    def steps():
        nonlocal num_steps
        end = time.perf_counter() + 0.1
        while time.perf_counter() < end:
            scope.mark_step()
            num_steps += 1
            sum(range(1000))

    with scope.session(tmp_path / "run.scope", calibrate_every=2):
        for _ in range(8):
            thread = threading.Thread(target=steps)
            thread.start()
            thread.join()
    profile = scope.load(tmp_path / "run.scope")
    assert profile.num_steps() == num_steps
    assert profile.num_recorded_steps() < num_steps
    shown = profile.as_json()
    assert (shown["num_steps"], shown["num_recorded_steps"]) == (num_steps, profile.num_recorded_steps())


@pytest.mark.release
def test_an_exception_in_a_muted_block_leaves_the_stack_whole(tmp_path):
    text = """
import time
from drivetrain import scope
outer, inner = scope.operation("outer"), scope.operation("inner")
begin = time.perf_counter()
while time.perf_counter() < begin + 0.4:
    try:
        with outer, inner:
            scope.mark_step()
            sum(range(200))
            raise ValueError
    except ValueError:
        pass
"""
    folder = tmp_path / "run.scope"
    profiled_text(folder, text, calibrate_every=2)  # which mutes one of the first two blocks, of 20 ms
    profile = scope.load(folder)
    assert profile.correction.blocks[0].mask.any()
    rows = {row.operation: row.raw_ns for row in profile.breakdown()}
    assert rows["inner"] > 0
    assert sum(rows.values()) <= profile.wall_ns


def test_what_leaves_nothing_recorded_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="calibrate_every: expected 0"):
        scope.session(tmp_path / "run.scope", calibrate_every=1).__enter__()
    (tmp_path / "script.py").touch()
    for words in (["--calibrate-every", "some"], ["--calibrate-every", "1"], ["--calibrate"]):
        assert main(["profile", *words, str(tmp_path / "script.py")]) != 0
