"""GPU work of profiled programs reaches arrays, from processes that initialise CUDA; whatever fails is one line."""

import shutil
import signal

import fake_gpu
import numpy as np
import pytest
from programs import profiled, profiled_text

from drivetrain import scope
from drivetrain.bench.gpu import recorded as bench
from drivetrain.bench.gpu import recording as recording_of_bench
from drivetrain.bench.machine import gpus
from drivetrain.core.errors import FileFormatError
from drivetrain.scope.cupti import headers
from drivetrain.scope.cupti.readings import Nvml, NvmlError, Readings
from drivetrain.scope.report import gpu as words
from drivetrain.scope.trace.gpu import COPY, DRIVER, GRAPH, KERNEL, OVERHEAD, RUNTIME, SET, SYNC


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    return fake_gpu.build(tmp_path_factory.mktemp("fake"))


@pytest.fixture(scope="module")
def layers(tmp_path_factory):
    return tmp_path_factory.mktemp("layers")


@pytest.fixture(autouse=True)
def gpu(libraries, layers, own_cache, monkeypatch):
    """The libraries that stand for a GPU, and a layer that is compiled once for all tests."""
    for name, value in libraries.items():
        monkeypatch.setenv(name, value)
    fake_gpu.share_layer(layers)


@pytest.fixture(scope="module")
def small(libraries, layers, tmp_path_factory):
    """A recording of two kernels, where three records were dropped and a kernel has no times."""
    folder = tmp_path_factory.mktemp("small") / "run.scope"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**libraries, "XDG_CACHE_HOME": str(folder.parent)}.items():
            patch.setenv(name, value)
        fake_gpu.share_layer(layers)
        text = "fake.cuInit(0)\nlaunch('one')\nlaunch('two')\nfake.fake_drop(3)\nfake.fake_untimed()\n"
        profiled_text(folder, fake_gpu.PROGRAM + text)
    return folder


@pytest.fixture
def recording(small, tmp_path):
    """A copy of it, to be changed."""
    return shutil.copytree(small, tmp_path / "copy.scope")


def recorded(folder, text, **how):
    profiled_text(folder, fake_gpu.PROGRAM + text, **how)
    return scope.load(folder).trace


def names(trace, rows):
    return [trace.gpu.names[name] for name in rows.name]


@pytest.mark.release
def test_what_a_program_does_on_the_gpu_is_in_its_trace(folder):
    trace = recorded(
        folder,
        """
assert fake.cuInit(0) == 0
with scope.operation("inference"):
    launch("_Z7forwardPf", 2_000_000)
with scope.operation("backpropagation"):
    launch("_Z8backwardPf")
    fake.fake_copy(1, ctypes.c_uint64(4096), ctypes.c_uint64(500))
    fake.fake_synchronize(3, ctypes.c_uint64(700))
fake.fake_launch_by_driver(b"plain", ctypes.c_uint64(1))
fake.fake_set(ctypes.c_uint64(64))
fake.fake_graph(5)
fake.fake_overhead(1 << 16)  # in a thread 77 of its own
""",
    )
    activity, api = trace.gpu.activity, trace.gpu.api
    assert sorted(activity.kind) == sorted([KERNEL, KERNEL, KERNEL, COPY, SET, GRAPH])
    kernels = activity.where(activity.kind == KERNEL)
    assert sorted(names(trace, kernels)) == ["backward(float*)", "forward(float*)", "plain"]
    longest = kernels.where(kernels.end_ns - kernels.begin_ns == 2_000_000)
    assert names(trace, longest) == ["forward(float*)"]
    assert (int(longest.device[0]), int(longest.context[0]), int(longest.stream[0])) == (1, 2, 3)
    copy = activity.where(activity.kind == COPY)
    assert (copy.nbytes.tolist(), copy.copy_kind.tolist()) == ([4096], [1])
    assert activity.graph[activity.kind == GRAPH].tolist() == [5]
    assert sorted(api.kind) == sorted([RUNTIME] * 4 + [DRIVER, SYNC, OVERHEAD])
    assert set(activity.correlation) - {0} <= set(api.correlation)
    (thread,) = [thread for thread in trace.threads if thread.num_events]
    assert set(api.tid[api.kind == RUNTIME].tolist()) == {thread.tid}
    inside = {
        name: trace.sites[int(site) - 1].operation if site else ""
        for name, site in zip(activity_names_by_call(trace), api.external, strict=True)
    }
    assert inside["forward(float*)"] == "inference"
    assert inside["backward(float*)"] == "backpropagation"
    assert inside["plain"] == ""
    assert np.all((trace.begin_ns < api.begin_ns) & (api.begin_ns < trace.end_ns))
    assert not trace.notes
    assert not trace.gpu.notes


def activity_names_by_call(trace):
    """For each call the kernel that it launched, or its own name."""
    activity, api = trace.gpu.activity, trace.gpu.api
    kernels = dict(zip(activity.correlation.tolist(), names(trace, activity), strict=True))
    return [
        kernels.get(call, name) if kind in (RUNTIME, DRIVER) else f"{name} itself"
        for call, kind, name in zip(api.correlation.tolist(), api.kind.tolist(), names(trace, api), strict=True)
    ]


@pytest.mark.release
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_children_that_begin_to_use_the_gpu_are_recorded(folder, method):
    trace = recorded(
        folder,
        f"""
import multiprocessing as mp

def work():
    fake.cuInit(0)
    launch("child")

if __name__ == "__main__":
    child = mp.get_context({method!r}).Process(target=work)
    child.start()
    child.join()
    assert child.exitcode == 0
    fake.cuInit(0)
    launch("parent")
""",
    )
    rows = trace.gpu.activity
    pids = dict(zip(names(trace, rows), [trace.processes[n].pid for n in rows.process], strict=True))
    assert set(pids) == {"child", "parent"}
    assert len(set(pids.values())) == 2
    calls = trace.gpu.api
    owners = {(thread.process, thread.tid) for thread in trace.threads}
    assert {(int(p), int(tid)) for p, tid in zip(calls.process, calls.tid, strict=True)} <= owners
    assert not trace.notes


@pytest.mark.whole
def test_a_process_that_was_forked_too_late_is_noted_once(folder):
    trace = recorded(
        folder,
        """
fake.cuInit(0)
launch("parent")
for _ in range(2):
    child = os.fork()
    if child == 0:
        assert fake.cuInit(0) != 0
        launch("child")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
""",
    )
    assert names(trace, trace.gpu.activity) == ["parent"]
    (note,) = [note for note in trace.notes if "GPU" in note]
    assert "forked after their parent had begun to use CUDA" in note


KILLED_BY_A_THREAD = """
import threading, time
threading.Thread(target=lambda: time.sleep(0.01) or os.kill(os.getpid(), 9)).start()
time.sleep(100)
"""


@pytest.mark.parametrize("kill", ["os.kill(os.getpid(), 9)", KILLED_BY_A_THREAD])
def test_a_program_that_is_killed_leaves_what_was_handed_over(folder, kill):
    text = f"fake.cuInit(0)\nlaunch('before')\nfake.fake_flush()\nlaunch('after')\n{kill}\n"
    done = profiled_text(folder, fake_gpu.PROGRAM + text, check=False)
    assert done.returncode == -signal.SIGKILL
    profile = scope.load(folder)
    assert names(profile.trace, profile.trace.gpu.activity) == ["before"]
    assert any(note.startswith("What GPUs did last in process") for note in profile.notes)


@pytest.mark.parametrize(
    ("failure", "says"),
    [
        ("cuptiSubscribe=39", "another profiler (torch.profiler, Nsight) has CUPTI in this process"),
        ("cuptiActivityEnable:10=35", "this user has no permission"),
    ],
)
def test_a_refusal_is_one_line_for_all_processes_and_they_run_on(folder, monkeypatch, failure, says):
    monkeypatch.setenv("FAKE_CUPTI_FAILURE", failure)
    text = """
import subprocess, sys
fake.cuInit(0)
launch("kernel")
if len(sys.argv) == 1:
    subprocess.run([sys.executable, __file__, "child"], check=True)
print("ran")
"""
    assert profiled_text(folder, fake_gpu.PROGRAM + text).stdout == b"ran\nran\n"
    trace = scope.load(folder).trace
    (note,) = trace.notes
    assert says in note
    assert "\n" not in note
    assert not len(trace.gpu.activity)


def test_readings_say_how_busy_each_device_was(small):
    readings = scope.load(small).trace.gpu.readings
    assert len(readings) >= 4  # at the beginning and at the end
    assert readings.device.tolist()[:2] == [0, 1]
    assert set(zip(readings.device.tolist(), readings.utilization.tolist(), strict=True)) == {(0, 90), (1, 0)}
    assert set(readings.memory_nbytes.tolist()) == {600, 5}
    assert np.all(np.diff(readings.time_ns) >= 0)


@pytest.mark.parametrize(("visible", "memory"), [("1,0", [5, 600]), ("GPU-second", [5]), ("1,9,0", [5]), ("", [])])
def test_readings_are_of_the_devices_that_the_program_sees(monkeypatch, visible, memory):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert [used for _, used in Nvml().read()] == memory


@pytest.mark.parametrize("function", ["nvmlInit_v2", "nvmlDeviceGetUtilizationRates"])
def test_without_readings_the_session_says_why(tmp_path, monkeypatch, function):
    monkeypatch.setenv("FAKE_NVML_FAILURE", function)
    with Readings(tmp_path):
        pass
    (file,) = tmp_path.glob("*.not-captured")
    assert file.read_text().startswith(f"What NVML says of the GPU was not recorded: {function}: Driver Not Loaded")


def test_an_nvml_that_is_not_there_is_an_error_of_one_line(monkeypatch):
    monkeypatch.setenv(headers.NVML_VARIABLE, "libnvml-that-is-nowhere.so")
    with pytest.raises(NvmlError, match=r"^libnvml-that-is-nowhere.so cannot be loaded: .*$"):
        Nvml()


def test_counts_of_what_is_missing_become_sentences(small):
    assert scope.load(small).trace.gpu.notes == (
        "3 records of the GPU found no room in CUPTI's buffers and are missing.",
        "1 activities of the GPU are missing, because it had no room for their times.",
    )


def test_what_was_dropped_after_the_last_buffer_counts_and_a_name_that_is_also_a_type_stays_a_name(folder):
    trace = recorded(folder, "fake.cuInit(0)\nlaunch('f')\nfake.fake_flush()\nfake.fake_drop(2)\n")
    assert names(trace, trace.gpu.activity) == ["f"]
    assert trace.gpu.notes == ("2 records of the GPU found no room in CUPTI's buffers and are missing.",)


def test_files_are_read_up_to_what_is_whole(recording):
    (file,) = recording.glob("*.gpu")
    whole = file.read_bytes()
    for size in range(len(whole) - 100, len(whole), 7):
        file.write_bytes(whole[:size])
        num_records = (size - 40) // 48
        trace = scope.load(recording).trace
        assert len(trace.gpu.activity) + len(trace.gpu.api) <= num_records
    file.write_bytes(whole[:10])
    assert not len(scope.load(recording).trace.gpu.activity)


def test_a_name_that_is_cut_off_is_unknown(recording):
    (table,) = recording.glob("*.gpu-names")
    table.write_bytes(table.read_bytes()[:-2])
    trace = scope.load(recording).trace
    assert sorted(names(trace, trace.gpu.activity)) == ["two", "unknown"]  # what was flushed first was named first


def test_records_that_found_no_room_are_no_unused_gpu(recording):
    for file in recording.glob("*.gpu"):
        file.unlink()
    profile = scope.load(recording)
    assert words.in_words(profile.usage) == [words.NOT_RECORDED]
    assert any("found no room" in note for note in profile.notes)


def test_records_of_another_version_are_refused(recording):
    (file,) = recording.glob("*.gpu")
    whole = file.read_bytes()
    file.write_bytes(whole[:32] + b"\x63\0\0\0" + whole[36:])
    with pytest.raises(FileFormatError, match="expected records of version 2, got 99"):
        scope.load(recording)


def test_packing_keeps_what_was_recorded_and_leaves_no_segments(recording):
    trace = scope.load(recording).trace
    scope.pack(recording)
    again = scope.load(recording).trace
    assert sorted(names(again, again.gpu.activity)) == ["one", "two"]
    assert again.gpu.readings.time_ns.tolist() == trace.gpu.readings.time_ns.tolist()
    assert again.gpu.notes == trace.gpu.notes
    assert {file.name for file in recording.iterdir()} == {"session.json", "trace.parquet", "gpu.parquet"}


def test_off_records_nothing_of_the_gpu(folder, tmp_path):
    script = tmp_path / "program.py"
    script.write_text(fake_gpu.PROGRAM + "fake.cuInit(0)\nlaunch('kernel')\n")
    profiled(folder, "--gpu", "off", script)
    trace = scope.load(folder).trace
    assert trace.gpu is None
    assert not trace.notes


@pytest.mark.release
def test_what_recording_costs_a_call_is_found_in_the_run_itself(folder, tmp_path, monkeypatch):
    """The library spends 4 µs of CPU time on each call that it records: that is what blocks without it have to tell."""
    monkeypatch.setenv("FAKE_CUPTI_COST_NS", "4000")
    script = tmp_path / "program.py"
    script.write_text(
        fake_gpu.PROGRAM
        + """
import time
fake.cuInit(0)
begin = time.process_time()
while time.process_time() < begin + 1.2:
    with scope.operation("inference"):
        sum(range(4000))
        launch("kernel")
        launch("kernel")
    fake.fake_synchronize(3, ctypes.c_uint64(100))
    scope.mark_step()
"""
    )
    profiled(folder, "--calibrate-every", "3", script)
    profile = scope.load(folder)
    (check,) = profile.usage.recording.checks
    (launch,) = (one for one in check.calls if one.kind == "launch")
    assert launch.num > 1000
    assert launch.ns + 5 * launch.se_ns > 4000
    assert check.own_ns == 0
    assert 0.3 < profile.usage.recorded_ns / profile.usage.wall_ns < 1
    assert any(row.time_class == "unrecorded" for row in profile.breakdown() if row.thread.startswith("GPU"))
    assert any("blocks of steps" in text for text in words.in_words(profile.usage))


def test_a_program_of_the_bench_is_recorded_and_says_what_holds_of_cupti(tmp_path, layers):
    cache = tmp_path / "own-cache" / "drivetrain"
    cache.mkdir(parents=True)
    (cache / "cupti").symlink_to(layers, target_is_directory=True)
    script = tmp_path / "program.py"
    text = """
fake.cuInit(0)
for operation in ("inference", "backpropagation"):
    with scope.operation(operation):
        launch("kernel")
fake.fake_set(ctypes.c_uint64(64))  # of no call
"""
    script.write_text(fake_gpu.PROGRAM + text)
    profile = bench.record(tmp_path, script, calibrate_every=0, limit_s=60)
    found = {case.name.partition(": ")[2]: case.value("ours") for case in recording_of_bench.cases(profile)}
    assert found["with the call that launched it"] == pytest.approx(2 / 3)
    assert found["with an external id"] == found["not begun before that call"] == 1
    assert found["of backpropagation"] == pytest.approx(1000 / 2100)
    assert found["attributed"] == pytest.approx(2000 / 2100)
    assert gpus() == ["Fake A", "Fake B"]


def test_a_cupti_that_the_program_has_loaded_already_is_the_one_that_is_used(folder, tmp_path, monkeypatch, libraries):
    """PyTorch loads its own as libcupti.so.13; a second one from elsewhere would hold half of the state."""
    shutil.copy(libraries[headers.LIBRARY_VARIABLE], tmp_path / "libcupti.so.13")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    monkeypatch.setenv(headers.LIBRARY_VARIABLE, str(tmp_path / "another" / "libcupti.so"))
    program = fake_gpu.PROGRAM.replace('os.environ["DRIVETRAIN_LIBCUPTI"]', '"libcupti.so.13"')
    profiled_text(folder, program + "fake.cuInit(0)\nlaunch('kernel')\n")
    trace = scope.load(folder).trace
    assert names(trace, trace.gpu.activity) == ["kernel"]
    assert not trace.notes
