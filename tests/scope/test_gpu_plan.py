"""Whether a GPU is recorded is decided before the program starts, and said in one sentence where it cannot be."""

import contextlib
import threading
import time
from types import SimpleNamespace

import pytest

from drivetrain.cli import doctor
from drivetrain.cli.main import main
from drivetrain.core.errors import CompileError, InvalidInput
from drivetrain.scope import program
from drivetrain.scope.cupti import build, examine, headers, injection, readings
from drivetrain.scope.cupti.plan import plan
from drivetrain.scope.session import read_about

NOWHERE = "libcuda-that-is-nowhere.so"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Headers of CUPTI in a folder, and a library beside them that is any library."""
    include = tmp_path / "toolkit" / "include"
    include.mkdir(parents=True)
    (include / "cupti.h").touch()
    (include / "cuda.h").touch()
    (include / "crt").mkdir()
    (include / "crt" / "host_defines.h").touch()
    (include / "cupti_version.h").write_text("#define CUPTI_API_VERSION 130500\n")
    (tmp_path / "toolkit" / "lib").mkdir()
    (tmp_path / "toolkit" / "lib" / "libcupti.so.13").symlink_to("/usr/lib/libc.so.6")
    monkeypatch.setenv(headers.INCLUDE_VARIABLE, str(include))
    return include


@pytest.fixture
def driver(monkeypatch):
    """A driver in the eyes of who only loads it."""
    monkeypatch.setenv(headers.DRIVER_VARIABLE, "libc.so.6")


@pytest.fixture
def no_headers(monkeypatch):
    monkeypatch.setattr(headers, "_candidates", lambda: iter([]))


def test_where_there_is_no_driver_nothing_is_said_and_nothing_done(monkeypatch):
    monkeypatch.setenv(headers.DRIVER_VARIABLE, NOWHERE)
    found = plan("auto")
    assert (found.note, found.takes_readings) == ("", False)
    assert not any(found.environment.values())


@pytest.mark.parametrize("words", [("--gpu", "on"), ("--gpu=on",)])
def test_on_refuses_to_run_without_a_driver(words, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv(headers.DRIVER_VARIABLE, NOWHERE)
    script = tmp_path / "script.py"
    script.write_text("print('ran')")
    assert main(["profile", "-o", str(tmp_path / "run"), *words, str(script)]) == 2
    said = capsys.readouterr()
    assert "--gpu on: no NVIDIA driver (libcuda.so.1) can be loaded here" in said.err
    assert said.err.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("option", ["--gpu=", "--gpu=maybe", "--torch-operators=yes", "-o=run", "--gp=on"])
def test_options_that_are_none_are_refused(option, capsys, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("print('ran')")
    assert main(["profile", option, str(script)]) == 2
    said = capsys.readouterr().err
    assert "unknown option" in said or "expected auto, on, off" in said


def test_a_kept_layer_that_is_damaged_says_what_to_do(monkeypatch, tmp_path):
    layer = tmp_path / "cupti.so"
    layer.touch()
    monkeypatch.setenv(injection.VARIABLE, str(layer))
    with pytest.raises(InvalidInput, match=r"cupti\.so: .*; remove the file, and the next run compiles it again"):
        injection.attach()


def test_an_nvml_that_never_returns_holds_nobody(monkeypatch, tmp_path):
    over, began = threading.Event(), threading.Event()

    class Lost:
        def read(self):
            began.set()
            over.wait()
            return []

        def close(self):
            pass

    monkeypatch.setattr(readings, "Nvml", Lost)
    monkeypatch.setattr(readings, "ANSWER_S", 0.01)
    with readings.Readings(tmp_path):
        began.wait()
    over.set()
    assert (tmp_path / "gpu-nvml.not-captured").read_text().startswith("NVML did not answer for 0.01 s")


def test_a_session_ends_with_its_program_and_not_with_nvmls_last_word(monkeypatch, tmp_path):
    left_ns = []

    class Slow(contextlib.nullcontext):
        def __exit__(self, *exc_info):
            left_ns.append(time.monotonic_ns())

    monkeypatch.setattr(program, "Readings", Slow)
    assert program.run(tmp_path / "run", ["-c", "pass"], gpu=injection.Plan(takes_readings=True)) == 0
    assert read_about(tmp_path / "run")["end_ns"] <= left_ns[0]


def test_an_unknown_mode_is_refused():
    with pytest.raises(InvalidInput, match="--gpu: expected auto, on, off, got 'maybe'"):
        plan("maybe")


def test_a_gpu_without_headers_is_a_note_that_says_what_to_install(driver, no_headers):
    found = plan("auto")
    assert 'pip install "drivetrain[cupti]"' in found.note
    assert found.takes_readings
    assert not any(found.environment.values())
    with pytest.raises(InvalidInput, match=r"--gpu on: expected cupti\.h, cuda\.h and crt/host_defines\.h"):
        plan("on")


def test_another_tool_of_the_driver_is_not_pushed_aside(driver, monkeypatch):
    monkeypatch.setenv("CUDA_INJECTION64_PATH", "nsys.so")
    found = plan("auto")
    assert "another tool uses CUDA_INJECTION64_PATH=nsys.so" in found.note
    assert "CUDA_INJECTION64_PATH" not in found.environment


def test_a_layer_that_does_not_compile_says_what_the_compiler_said(installed, monkeypatch, tmp_path):
    compiler = tmp_path / "compiler"
    compiler.write_text(
        "#!/bin/sh\necho 'In file included from here:' >&2\necho 'cuda.h:1: error: broken' >&2\nexit 1\n"
    )
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    with pytest.raises(CompileError, match=r"does not compile against .*: cuda.h:1: error: broken$"):
        build.built()


def test_without_a_compiler_the_remedy_is_one(installed, monkeypatch):
    monkeypatch.setenv("CXX", "a-compiler-that-is-nowhere")
    with pytest.raises(CompileError, match="found none: install"):
        build.built()


def test_headers_are_found_with_their_library_and_version(installed, monkeypatch):
    monkeypatch.delenv(headers.LIBRARY_VARIABLE, raising=False)
    found = headers.find()
    assert found.include == (installed,)
    assert found.version == 130500
    assert found.library.endswith("toolkit/lib/libcupti.so.13")


def test_headers_of_one_cuda_may_lie_in_several_folders_that_python_looks_into(monkeypatch, tmp_path):
    parts = {"system/cu13": ["cupti.h", "cuda.h"], "mine/cu13": ["crt/host_defines.h"], "mine/cu12": ["cupti.h"]}
    for place, names in parts.items():
        for name in names:
            file = tmp_path / place / "include" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
    (tmp_path / "system" / "cu13" / "lib").mkdir()
    (tmp_path / "system" / "cu13" / "lib" / "libcupti.so.13").touch()
    places = SimpleNamespace(submodule_search_locations=[str(tmp_path / name) for name in ("mine", "system")])
    monkeypatch.setattr(headers.importlib.util, "find_spec", lambda name: places)
    for variable in (headers.INCLUDE_VARIABLE, headers.LIBRARY_VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    found = headers.find()
    assert found.include == tuple(tmp_path / name / "cu13" / "include" for name in ("mine", "system"))
    assert found.library == str(tmp_path / "system" / "cu13" / "lib" / "libcupti.so.13")


@pytest.mark.parametrize(("driver_cuda", "expected"), [(13, 13), (12, 12), (11, 13), (None, 13)])
def test_the_newest_headers_that_the_driver_knows_are_taken(monkeypatch, driver_cuda, expected):
    installed = [headers.Cupti((), f"libcupti.so.{cuda}") for cuda in (13, 12)]
    monkeypatch.setattr(headers.Cupti, "cuda", property(lambda self: int(self.library[-2:])))
    monkeypatch.setattr(headers, "_candidates", lambda: iter(installed))
    monkeypatch.setattr(headers, "_in", lambda folders: folders)
    monkeypatch.setattr(headers, "driver_cuda", lambda: driver_cuda)
    assert headers.find().cuda == expected


def test_versions_of_before_cuda_13_are_told_by_their_size(installed):
    assert headers.find().cuda == 13
    (installed / "cupti_version.h").write_text("#define CUPTI_API_VERSION 26\n")
    assert headers.find().cuda == 12


@pytest.mark.parametrize("name", ["cuda.h", "crt/host_defines.h"])
def test_headers_do_not_count_without_what_they_include(installed, monkeypatch, name):
    (installed / name).unlink()
    monkeypatch.setattr(headers.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(headers, "_TOOLKITS", ())
    found = headers.find()
    assert found is None or installed not in found.include


def test_doctor_names_what_is_missing_and_fails_nothing(no_headers, monkeypatch):
    monkeypatch.setenv(headers.DRIVER_VARIABLE, NOWHERE)
    row = doctor.gpu_recording_row()
    assert row.status == "absent"
    assert "no CUPTI headers" in row.found
    assert "no NVIDIA driver" in row.found
    assert 'pip install "drivetrain[cupti]"' in row.remedy


def test_doctor_is_content_where_everything_is_there(installed, driver, monkeypatch, tmp_path):
    monkeypatch.setenv(headers.LIBRARY_VARIABLE, "libc.so.6")
    monkeypatch.setattr(examine, "DRIVER_SETTINGS", tmp_path / "none")
    row = doctor.gpu_recording_row()
    assert (row.status, row.remedy) == ("ok", "")
    assert row.found == "CUPTI headers 130500; libcupti loads; a compiler; a driver"


def test_doctor_says_when_cupti_is_newer_than_the_driver(installed, driver, monkeypatch):
    monkeypatch.setenv(headers.LIBRARY_VARIABLE, "libc.so.6")
    monkeypatch.setattr(headers, "driver_cuda", lambda: 12)
    row = doctor.gpu_recording_row()
    assert (row.status, row.remedy) == ("absent", "update the driver, or set CUDA_HOME to a toolkit of CUDA 12")
    assert "CUPTI of CUDA 13 with a driver of CUDA 12" in row.found


def test_doctor_says_when_only_administrators_may_profile(installed, driver, monkeypatch, tmp_path):
    monkeypatch.setenv(headers.LIBRARY_VARIABLE, "libc.so.6")
    (tmp_path / "params").write_text("ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: 1\n")
    monkeypatch.setattr(examine, "DRIVER_SETTINGS", tmp_path / "params")
    monkeypatch.setattr(examine.os, "geteuid", lambda: 1000)
    row = doctor.gpu_recording_row()
    assert row.status == "absent"
    assert "the driver lets administrators profile only" in row.found
    assert "NVreg_RestrictProfilingToAdminUsers=0" in row.remedy
