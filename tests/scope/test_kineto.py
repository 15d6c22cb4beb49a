"""Traces of torch.profiler say what GPUs did: alone, and in a session of ours whose clock they are brought to.

The file beside is written by hand in the form of Kineto's export; no GPU has made it. What PyTorch writes without a
GPU is read too, where PyTorch is installed.
"""

import gzip
import json
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from brute_gpu import gpu_of

from drivetrain import scope
from drivetrain.cli.main import main
from drivetrain.core.errors import FileFormatError, InvalidInput
from drivetrain.scope.format import WALL_CLOCK
from drivetrain.scope.notes import GPU_REFUSED
from drivetrain.scope.profile import Profile
from drivetrain.scope.report.shares import in_words
from drivetrain.scope.trace import gpu, kineto
from drivetrain.scope.trace.events import BEGIN, Process

BY_HAND = Path(__file__).with_name("kineto.json")
US = 1000


def of_operations(profile):
    return {(one.operation, one.time_class): (one.ns, one.num) for one in profile.usage.operations}


@pytest.fixture
def alone():
    return Profile(kineto.trace_of(BY_HAND))


def test_gpu_time_belongs_to_annotations_to_backward_passes_and_to_optimizers(alone):
    assert of_operations(alone) == {
        ("inference", "gpu_kernel"): (30 * US, 1),
        ("inference", "gpu_copy"): (10 * US, 1),
        ("backpropagation", "gpu_kernel"): (50 * US, 1),
        ("optimizer", "gpu_copy"): (5 * US, 1),
        ("unattributed", "gpu_kernel"): (3 * US, 1),
    }
    assert alone.num_steps() == 1
    assert alone.usage.source == "Kineto"


def test_threads_have_operators_as_native_time_and_calls_as_classes_of_their_own(alone):
    totals = {(r.thread, r.operation, r.time_class): r.raw_ns for r in alone.breakdown() if "GPU" not in r.thread}
    inference = {name: totals["main", "inference", name] // US for name in ("python", "backend", "profiler")}
    assert inference == {"python": 100 - 5 - 20, "backend": 100 - 8, "profiler": 1}
    assert totals["main", "inference", "accelerator_api"] == (8 - 1 + 5) * US
    assert totals["main", "inference", "accelerator_sync"] == 20 * US
    # The call of autograd's thread, whose number Kineto did not know, is that of the operator with its external id.
    assert totals["thread 231.1", "backpropagation", "accelerator_api"] == 6 * US
    assert totals["thread 231.1", "backpropagation", "backend"] == 94 * US


def test_overhead_that_the_driver_has_anyway_is_not_that_of_recording(alone):
    assert alone.usage.recording.on_threads_ns == 1 * US
    assert alone.usage.recording.elsewhere_ns == 10 * US
    assert alone.usage.recording.driver_ns == 2 * US


def test_records_have_bytes_directions_and_kinds():
    found = kineto.trace_of(BY_HAND).gpu
    copies = found.activity.where(found.activity.kind == gpu.COPY)
    assert (copies.nbytes.tolist(), copies.copy_kind.tolist(), copies.stream.tolist()) == ([4096], [2], [7])
    assert found.activity.copy_kind[found.activity.kind == gpu.SET].tolist() == [0]
    assert found.api.detail[found.api.kind == gpu.SYNC].tolist() == [3]
    assert np.bincount(found.api.kind).tolist() == [0, 4, 1, 1, 3]


def test_the_report_takes_the_file_itself_gzipped_or_not(tmp_path, capsys):
    packed = tmp_path / "trace.json.gz"
    packed.write_bytes(gzip.compress(BY_HAND.read_bytes()))
    found = []
    for file in (BY_HAND, packed):
        assert main(["report", str(file), "--json", str(tmp_path / "numbers.json")]) == 0
        found.append(json.loads((tmp_path / "numbers.json").read_text()))
    assert found[0] == found[1]
    assert found[0]["gpu"]["busy_ns"] == 98 * US
    assert "launched by" in capsys.readouterr().out


@pytest.fixture
def recorded(tmp_path):
    """A session, and a trace of Kineto's form in which it launched a kernel in an operation."""
    folder = tmp_path / "run"
    with scope.session(folder, calibrate_every=0):
        for _ in range(3):
            with scope.operation("inference"):
                sum(range(10_000))
    trace = scope.load(folder).trace
    (named,) = [i for i, site in enumerate(trace.sites) if site.name == "inference"]
    (thread,) = [thread for thread in trace.threads if thread.tid == threading.get_native_id()]
    begin_ns = int(thread.time_ns[np.flatnonzero((thread.site == named) & (thread.kind == BEGIN))[1]])
    where = {"pid": trace.processes[0].pid, "tid": thread.tid}
    args = {"correlation": 3, "device": 0, "stream": 7}
    events = [
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 2.0, "dur": 3.0, "args": args, **where},
        {"ph": "X", "cat": "kernel", "name": "sgemm", "pid": 0, "tid": 7, "ts": 6.0, "dur": 4.0, "args": args},
    ]
    base_ns = begin_ns + trace.about[WALL_CLOCK]
    file = tmp_path / "kineto.json"
    file.write_text(json.dumps({"schemaVersion": 1, "baseTimeNanoseconds": base_ns, "traceEvents": events}))
    return folder, file, begin_ns


def test_a_session_takes_the_devices_of_a_trace_by_its_own_clock(recorded, tmp_path, capsys):
    folder, file, begin_ns = recorded
    assert main(["report", str(folder), "--kineto", str(file), "--json", str(tmp_path / "numbers.json")]) == 0
    found = json.loads((tmp_path / "numbers.json").read_text())
    assert found["gpu"]["operations"] == [{"operation": "inference", "class": "gpu_kernel", "ns": 4 * US, "num": 1}]
    joined = kineto.into(scope.load(folder).trace, [file])
    assert joined.gpu.activity.begin_ns.tolist() == [begin_ns + 6 * US]
    assert ("inference", "accelerator_api") in {(row["operation"], row["class"]) for row in found["rows"]}
    assert len(joined.threads) == 1


def test_a_session_that_could_not_record_gpus_itself_keeps_what_nvml_said(recorded):
    folder, file, begin_ns = recorded
    trace = scope.load(folder).trace
    readings = [{"time_ns": begin_ns + 10**6 * number, "utilization": 90} for number in range(3)]
    refused = replace(trace, gpu=gpu_of((), (), readings), notes=(f"{GPU_REFUSED}: another profiler has it.", "Else."))
    assert Profile(refused).usage is None
    joined = Profile(kineto.into(refused, [file]))
    assert joined.usage.devices[0].nvml.utilization == pytest.approx(0.9)
    assert joined.trace.notes == ("Else.",)


def test_of_several_processes_those_whose_traces_are_given_are_named(recorded):
    folder, file, _ = recorded
    trace = scope.load(folder).trace
    pid = trace.processes[0].pid
    more = replace(trace, processes=(*trace.processes, Process(pid=pid + 1, start=0, parent=pid, argv=())))
    (note,) = kineto.into(more, [file]).gpu.notes
    assert note == f"What GPUs did is known of process {pid} only, by --kineto."


def test_a_trace_of_what_a_process_became_by_exec_is_of_that(recorded):
    folder, file, _ = recorded
    trace = scope.load(folder).trace
    (now,) = trace.processes
    (thread,) = trace.threads
    first = {name: getattr(thread, name)[:1] for name in ("kind", "site", "value")}
    threads = (replace(thread, time_ns=thread.time_ns[:1] - 1, **first), replace(thread, process=1))
    processes = (replace(now, start=now.start - 1), now)
    found = kineto.into(replace(trace, processes=processes, threads=threads), [file])
    assert (found.gpu.activity.process.tolist(), found.gpu.api.process.tolist()) == ([1], [1])


def test_alone_nothing_is_said_of_imports_and_of_our_own_annotations(alone):
    words = " ".join(in_words(alone))
    assert "imports" not in words
    assert "scope.operation" not in words


def test_files_that_do_not_fit_are_refused_in_a_sentence(recorded, tmp_path, capsys):
    folder, file, _ = recorded
    trace = scope.load(folder).trace
    with pytest.raises(InvalidInput, match="of the session's processes"):
        kineto.into(trace, [BY_HAND])
    with pytest.raises(InvalidInput, match="with its own"):
        kineto.into(kineto.into(trace, [file]), [file])
    session = json.loads((folder / "session.json").read_text())
    session.pop(WALL_CLOCK)
    (folder / "session.json").write_text(json.dumps(session))
    with pytest.raises(InvalidInput, match="record it again"):
        kineto.into(scope.load(folder).trace, [file])
    damaged = tmp_path / "damaged.json"
    for text in (b"[]", b"{}", b"\x1f\x8bno", b"{", b'{"traceEvents": [{"ph": "X"}]}', gzip.compress(b"{}")[:-4]):
        damaged.write_bytes(text)
        with pytest.raises(FileFormatError, match="and it is none"):
            kineto.trace_of(damaged)
    document = json.loads(BY_HAND.read_text())
    document["traceEvents"].append({**document["traceEvents"][4], "pid": 101})
    damaged.write_text(json.dumps(document))
    with pytest.raises(FileFormatError, match="of one process, got 2"):
        kineto.trace_of(damaged)
    for words in (
        [str(folder), "--kineto", str(tmp_path / "none.json")],
        [str(folder), "--kineto", str(file), str(file)],
        [str(BY_HAND), "--pack"],
        [str(tmp_path / "x")],
    ):
        assert main(["report", *words]) != 0
        assert "expected" in capsys.readouterr().err


def test_a_trace_without_anything_is_no_gpu(tmp_path):
    file = tmp_path / "empty.json"
    file.write_text('{"traceEvents": []}')
    profile = Profile(kineto.trace_of(file))
    assert not profile.usage.was_used
    assert "empty.json holds nothing that ran on a GPU." in profile.notes


@pytest.mark.release
@pytest.mark.torch
def test_what_pytorch_exports_without_a_gpu_is_read_and_says_so(tmp_path):
    torch = pytest.importorskip("torch", reason='needs torch: pip install "drivetrain[torch]"')
    from torch.profiler import ProfilerActivity, profile, record_function

    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.Adam(model.parameters())
    file = tmp_path / "kineto.json"
    with scope.session(tmp_path / "run"), profile(activities=[ProfilerActivity.CPU]) as profiler:
        for _ in range(2):
            with record_function("inference"):
                model(torch.ones(2, 4))
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    profiler.export_chrome_trace(str(file))
    alone = Profile(kineto.trace_of(file))
    assert {"inference", "backpropagation", "optimizer"} <= {row.operation for row in alone.breakdown()}
    assert not alone.usage.was_used
    session = scope.load(tmp_path / "run").trace
    assert "kineto.json holds nothing that ran on a GPU." in Profile(kineto.into(session, [file])).notes
    # The clocks are brought together: in another unit, or from another time, they were years apart.
    events = kineto.read(file).shifted(-session.about[WALL_CLOCK]).events
    minute_ns = 60 * 10**9
    assert all(session.begin_ns - minute_ns < event.begin_ns < session.end_ns + minute_ns for event in events)


@pytest.mark.parametrize(
    "damage",
    [
        {"ts": float("inf")},
        {"dur": 1e300},
        {"dur": -1},
        {"args": "none"},
        {"args": {"correlation": 2**40}},
        {"args": {"device": float("nan")}},
        {"args": {"stream": float("-inf")}},
        {"args": {"External id": []}},
    ],
)
def test_numbers_that_no_trace_holds_are_one_sentence(tmp_path, damage):
    document = json.loads(BY_HAND.read_text())
    event = next(one for one in document["traceEvents"] if one.get("cat") == "kernel")
    file = tmp_path / "trace.json"
    file.write_text(json.dumps({**document, "traceEvents": [{**event, **damage}]}))
    with pytest.raises(FileFormatError, match=r"expected a trace that torch\.profiler exported"):
        kineto.trace_of(file)


def test_a_file_that_is_no_text_is_refused_without_its_bytes(tmp_path):
    file = tmp_path / "replay"
    file.write_bytes(b"DRVTRPLY" + b"\x93rows" * 1000)
    with pytest.raises(FileFormatError, match="it is none: UnicodeDecodeError: ") as refused:
        kineto.trace_of(file)
    assert len(str(refused.value)) < 300 + len(str(file))


def test_brackets_without_an_end_are_one_sentence(tmp_path):
    file = tmp_path / "trace.json"
    file.write_text("[" * 100_000)
    with pytest.raises(FileFormatError, match="it is none"):
        kineto.trace_of(file)
