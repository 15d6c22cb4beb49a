"""Reports show how GPUs were used, in words and tables that agree with the numbers; and say plainly where none was."""

import csv
import io
import json
from dataclasses import replace

import pytest
import rich.console
from browser import FITS, needs_chromium, seen
from brute import trace_of
from brute_gpu import gpu_of
from gpu_program import AUTOGRAD, US, program, with_steps_unrecorded
from test_reports import Cells

from drivetrain.scope.accelerator.launches import GAP
from drivetrain.scope.accelerator.recording import CallCost
from drivetrain.scope.notes import GPU_REFUSED
from drivetrain.scope.profile import Profile
from drivetrain.scope.report import gpu, page, perfetto, table, terminal
from drivetrain.scope.report.shares import in_words, shares


@pytest.fixture(scope="module")
def profile():
    return Profile(program())


def printed(profile):
    console = rich.console.Console(file=io.StringIO(), width=150)
    terminal.show(profile, console)
    return console.file.getvalue()


def test_words_say_how_busy_the_gpu_was_for_whom_and_who_waited(profile):
    words = " ".join(gpu.in_words(profile.usage))
    assert "The GPU was busy 20.0% of the time (5 ms); 50.0% of what ran was launched by" in words
    assert "bound by it 8.0% of the time (2 ms): all threads waited while it worked" in words
    assert "NVML read 60% for GPU 0 where something ran 20.0% of the time, 3 times as much" in words
    assert "Launching and copying took 1 ms in 150 calls, waiting for it 2 ms in 50" in words
    assert "half of what was launched began within 15 µs of its call" in words
    assert "Recording the GPU took 50 µs in the program's threads" in words
    assert "not calibrated" in words


def test_a_program_that_never_waits_is_told_so():
    trace = program()
    waits = trace.gpu.api.name == 1
    without = replace(trace, gpu=replace(trace.gpu, api=trace.gpu.api.where(~waits)))
    words = gpu.in_words(Profile(without).usage)
    assert words[0].endswith("at no time did the whole program wait for it.")
    assert "waiting for it" not in " ".join(words)


@pytest.mark.parametrize(
    ("records", "sentence"), [(None, gpu.NOT_RECORDED), (gpu_of(notes=("No driver.",)), gpu.NOT_USED)]
)
def test_where_no_gpu_was_used_one_plain_sentence_says_so(records, sentence):
    without = Profile(replace(trace_of([]), gpu=records))
    assert sentence in printed(without)
    text = page.render(without, "any")
    assert f"<p>{sentence}</p>" in text
    assert ("GPU time is not recorded" in text) == (records is None)
    assert gpu.in_words(without.usage) == [sentence]
    assert (without.as_json()["gpu"] is None) == (records is None)
    assert records is None or "No driver." in printed(without)


def test_the_terminal_shows_who_launched_what(profile):
    text = printed(profile)
    assert "backpropagation   gpu_kernel     2.5 ms   50.0%" in text
    assert "accelerator_api" in text
    assert "accelerator_sync" in text


def test_the_page_has_the_numbers_of_the_profile_and_closes_every_tag(profile):
    text = page.render(profile, "any")
    for name, cells in (("gpu", gpu.operation_cells), ("devices", gpu.device_cells), ("calls", gpu.call_cells)):
        parser = Cells(name)
        parser.feed(text)
        assert parser.stack == []
        assert [row for row in parser.rows if row] == cells(profile.usage)
    assert "GPU 0 stream 13" in text
    assert [row[:3] for row in gpu.operation_cells(profile.usage)] == [
        ["backpropagation", "gpu_kernel", "2.5 ms"],
        ["inference", "gpu_kernel", "2 ms"],
        ["inference", "gpu_copy", "500 µs"],
    ]


def test_rows_that_are_left_out_of_a_table_are_its_last_row_together(profile):
    meanwhile = {(f"class {i}",): 100 * US - i * US for i in range(11)}
    calls = tuple(CallCost(f"call {i}", "accelerator_api", 2, 10 * US, US) for i in range(15))
    usage = replace(profile.usage, meanwhile=meanwhile, calls=calls, busy_ns=1045 * US)
    *first, rest = gpu.meanwhile_cells(usage)
    assert len(first) == 8
    assert rest == ["3 others", "273 µs", "26.1%"]
    *first, rest = gpu.call_cells(usage)
    assert len(first) == 12
    assert rest == ["3 others", "", "6", "30 µs", "5 µs", "500 ns"]
    assert gpu.call_cells(replace(usage, calls=calls[:12])) == first


def test_shares_of_threads_are_without_the_time_of_devices(profile):
    assert not {share.time_class for share in shares(profile.breakdown())} & {"gpu_kernel", "gpu_copy"}


def test_what_is_unrecorded_on_devices_is_no_time_of_threads_either():
    without = Profile(with_steps_unrecorded(program(), 10, 20))
    assert any(row.operation == GAP.operation for row in without.breakdown())
    of_threads = [row.raw_ns for row in without.breakdown() if not row.thread.startswith("GPU")]
    idle = [row.raw_ns for row in without.breakdown() if row.time_class == "idle" and not row.thread.startswith("GPU")]
    assert sum(share.raw_ns for share in shares(without.breakdown())) == sum(of_threads) - sum(idle)
    assert GAP.operation not in printed(without)
    assert f'"says":"{GAP.operation}"' in page.render(without, "any"), "streams have it over time"


def test_waiting_for_a_device_is_waiting():
    trace = program()
    longer = trace.gpu.api.end_ns + 200 * US * (trace.gpu.api.name == 1)
    slow = replace(trace, gpu=replace(trace.gpu, api=replace(trace.gpu.api, end_ns=longer)))
    text = " ".join(in_words(Profile(slow)))
    assert "47% is waiting: for a thread, a process, a socket or a device, or asleep" in text


@pytest.mark.parametrize("failure", ["cupti refused", "no compiler"])
def test_where_recording_failed_nobody_says_that_no_gpu_was_used(failure):
    readings = replace(gpu_of(), readings=program().gpu.readings)
    refused = Profile(replace(trace_of([]), gpu=readings, notes=(f"{GPU_REFUSED}: {failure}.",)))
    assert gpu.NOT_RECORDED in printed(refused)
    assert gpu.NOT_USED not in printed(refused)
    assert refused.as_json()["gpu"] is None


def test_calls_of_which_nothing_is_known_to_have_run_are_no_unused_gpu():
    trace = program()
    lost = Profile(replace(trace, gpu=replace(trace.gpu, activity=gpu_of().activity)))
    assert gpu.in_words(lost.usage) == [gpu.ONLY_CALLED]
    assert gpu.ONLY_CALLED in page.render(lost, "any")


def test_json_holds_rows_of_streams_and_all_numbers_on_gpus(profile, tmp_path):
    found = json.loads(json.dumps(profile.as_json(), allow_nan=False))
    of_streams = [row for row in found["rows"] if row["thread"] == "GPU 0 stream 7"]
    assert {(row["operation"], row["class"]): row["raw_ns"] for row in of_streams} == {
        ("other", "idle"): 450 * US * 50,
        ("inference", "gpu_kernel"): 40 * US * 50,
        ("inference", "gpu_copy"): 10 * US * 50,
    }
    about = found["gpu"]
    assert (about["busy_ns"], about["bound_ns"], about["gpu_ns"]) == (5_000_000, 2_000_000, 5_000_000)
    assert about["operations"][0] == {"operation": "backpropagation", "class": "gpu_kernel", "ns": 2_500_000, "num": 50}
    assert about["devices"][0]["nvml"]["inflation"] == pytest.approx(3)
    assert about["devices"][0]["copied_nbytes"] == 4096 * 50
    assert {one["name"]: one["class"] for one in about["calls"]}["cudaStreamSynchronize"] == "accelerator_sync"
    table.write(profile, tmp_path / "rows.csv")
    with (tmp_path / "rows.csv").open(newline="") as lines:
        classes = {row["class"] for row in csv.DictReader(lines)}
    assert {"gpu_kernel", "gpu_copy", "accelerator_api", "accelerator_sync", "profiler"} <= classes


def test_perfetto_has_a_track_for_each_stream_and_an_arrow_from_each_launch(profile):
    events = list(perfetto.events(profile))
    tracks = {event["tid"]: event["args"]["name"] for event in events if event.get("name") == "thread_name"}
    assert {"GPU 0 stream 7", "GPU 0 stream 13"} <= set(tracks.values())
    slices = {(event["tid"], event["ts"]): event for event in events if event["ph"] == "X"}
    starts = {event["id"]: event for event in events if event["ph"] == "s"}
    ends = {event["id"]: event for event in events if event["ph"] == "f"}
    assert len(starts) == len(ends) == 150
    for number, end in ends.items():
        launch, launched = slices[starts[number]["tid"], starts[number]["ts"]], slices[end["tid"], end["ts"]]
        assert launch["args"]["correlation"] == launched["args"]["correlation"]
        assert launch["name"].startswith("cuda")
        assert tracks[end["tid"]].startswith("GPU")
        assert launch["tid"] in (7, AUTOGRAD)


@pytest.mark.whole
@needs_chromium
def test_a_browser_shows_the_page_on_a_phone_without_scrolling_sideways(profile, tmp_path):
    assert seen(page.render(profile, "page"), tmp_path, FITS) == "true"
