"""Packed records of GPUs are the same records, by time, in a fraction of the space."""

from dataclasses import replace

import numpy as np
import pytest
from brute_gpu import gpu_of, gpu_traces, rows_of
from hypothesis import HealthCheck, given, settings

from drivetrain import scope
from drivetrain.core.errors import FileFormatError
from drivetrain.scope.profile import Profile
from drivetrain.scope.trace import folder as folders
from drivetrain.scope.trace import gpu, gpu_parquet, parquet


def sorted_rows(columns):
    return sorted(tuple(row.values()) for row in rows_of(columns))


@given(trace=gpu_traces())
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_all_records_come_back_from_their_file_with_their_types(trace, tmp_path):
    file = tmp_path / "gpu.parquet"
    gpu_parquet.write(replace(trace.gpu, notes=("One.",), source="Kineto"), file)
    again = gpu_parquet.read(file)
    assert (again.names, again.notes, again.source) == (trace.gpu.names, ("One.",), "Kineto")
    for before, after in ((trace.gpu.activity, again.activity), (trace.gpu.api, again.api)):
        assert sorted_rows(before) == sorted_rows(after)
        assert (np.diff(after.begin_ns) >= 0).all()
        for name, dtype in after.dtypes().items():
            assert getattr(after, name).dtype == dtype


def test_readings_and_the_largest_numbers_of_columns_come_back(tmp_path):
    most = {"external": np.iinfo(np.int64).max, "correlation": 2**32 - 1, "tid": 2**40, "end_ns": 2**60}
    records = gpu_of(api=[most], readings=[{"time_ns": 5, "device": 1, "utilization": 97, "memory_nbytes": 2**37}])
    gpu_parquet.write(records, tmp_path / "gpu.parquet")
    again = gpu_parquet.read(tmp_path / "gpu.parquet")
    assert sorted_rows(again.api) == sorted_rows(records.api)
    assert sorted_rows(again.readings) == sorted_rows(records.readings)


def test_a_packed_session_keeps_what_its_gpus_did_at_seven_bytes_per_record_or_fewer(tmp_path):
    with scope.session(tmp_path / "run"):
        pass
    trace = replace(scope.load(tmp_path / "run").trace, gpu=launches_in_a_loop(5000))
    parquet.write(trace, tmp_path / "run" / folders.PACKED)
    assert scope.load(tmp_path / "run").usage is None
    gpu_parquet.write(trace.gpu, tmp_path / "run" / folders.PACKED_GPU)
    assert scope.load(tmp_path / "run").as_json() == Profile(trace).as_json()
    nbytes = (tmp_path / "run" / folders.PACKED_GPU).stat().st_size
    assert nbytes <= 7 * (len(trace.gpu.activity) + len(trace.gpu.api))


def launches_in_a_loop(num):
    """As many kernels as launches, at irregular times, ten kinds of them."""
    rng = np.random.default_rng(0)
    begin = 10**15 + np.cumsum(rng.integers(4000, 9000, num))
    ran = begin + rng.integers(2000, 30_000, num)
    which = rng.integers(0, 10, num)
    api = gpu.GpuApi.of(
        begin_ns=begin, end_ns=begin + rng.integers(1500, 4000, num), kind=np.ones(num), tid=np.full(num, 4242),
        correlation=np.arange(num) + 7,
    )  # fmt: skip
    activity = gpu.GpuActivity.of(
        begin_ns=ran, end_ns=ran + 1000 * which + rng.integers(0, 300, num), kind=np.ones(num), name=1 + which,
        stream=np.full(num, 7), correlation=np.arange(num) + 7,
    )  # fmt: skip
    names = tuple(f"kernel {i}" for i in range(11))
    return gpu.GpuTrace(activity=activity, api=api, readings=gpu.GpuReading.of(), names=names)


def test_packing_writes_the_records_of_gpus_too(tmp_path, monkeypatch):
    with scope.session(tmp_path / "run"):
        pass
    read = folders.segments.read_folder
    records = launches_in_a_loop(10)
    monkeypatch.setattr(folders.segments, "read_folder", lambda folder: replace(read(folder), gpu=records))
    scope.pack(tmp_path / "run")
    assert sorted(file.name for file in (tmp_path / "run").iterdir()) == [
        "gpu.parquet",
        "session.json",
        "trace.parquet",
    ]
    assert sorted_rows(scope.load(tmp_path / "run").trace.gpu.activity) == sorted_rows(records.activity)


def test_of_damaged_pages_only_such_errors_come_as_the_folder_expects(tmp_path):
    file = tmp_path / "gpu.parquet"
    gpu_parquet.write(gpu_of([{"begin_ns": 977 * n * n, "end_ns": 977 * n * n + 5} for n in range(200)]), file)
    whole = file.read_bytes()
    said, places = 0, range(4, len(whole) // 2, 16)
    for place in places:
        file.write_bytes(whole[:place] + bytes(16) + whole[place + 16 :])
        try:
            gpu_parquet.read(file)
        except (FileFormatError, LookupError, TypeError, ValueError):  # as trace/folder.py expects
            said += 1
    assert said > len(places) / 2


def test_a_damaged_file_or_another_one_is_said(tmp_path):
    file = tmp_path / "gpu.parquet"
    gpu_parquet.write(gpu_of(), file)
    assert len(gpu_parquet.read(file).activity) == 0
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(FileFormatError, match="cannot be read"):
        gpu_parquet.read(file)
    with scope.session(tmp_path / "run"):
        pass
    scope.pack(tmp_path / "run")
    with pytest.raises(FileFormatError, match="version 1"):
        gpu_parquet.read(tmp_path / "run" / "trace.parquet")
