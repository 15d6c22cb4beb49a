"""`drivetrain doctor` tries things out, reports them all, and judges by what failed."""

import contextlib
import errno
import json
import multiprocessing
import os
import signal
import subprocess
import sys

import pytest

from drivetrain.cli import doctor
from drivetrain.cli.main import main
from drivetrain.core.errors import DrivetrainError
from drivetrain.core.interrupts import noting_interrupts
from drivetrain.scope.cupti import headers


def rows_of(tmp_path):
    code = main(["doctor", "--json", str(tmp_path / "doctor.json")])
    document = json.loads((tmp_path / "doctor.json").read_text())
    return code, document, {row["name"]: row for row in document["rows"]}


def test_this_installation_is_found_to_work(tmp_path, capsys):
    code, document, rows = rows_of(tmp_path)
    assert (code, document["ok"]) == (0, True)
    assert capsys.readouterr().out.endswith("\ndrivetrain works here\n")
    assert rows["platform"]["status"] == rows["native code"]["status"] == rows["shared memory"]["status"] == "ok"
    assert "jax" in rows["extra train"]["found"]


def test_a_segment_that_nobody_can_attach_is_a_failure(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(doctor, "lock_and_die", fail_to_attach)
    code, document, rows = rows_of(tmp_path)
    assert (code, document["ok"]) == (1, False)
    assert rows["shared memory"]["status"] == "failed"
    assert "exit code 5" in rows["shared memory"]["found"]
    assert capsys.readouterr().out.endswith("\ndoes not work here: shared memory\n")


def fail_to_attach(handle):
    raise SystemExit(5)


def test_native_code_that_does_not_load_is_a_failure_and_no_traceback(monkeypatch, tmp_path):
    def no_native_code(name):
        raise ImportError("undefined symbol:\n  somewhere")

    monkeypatch.setattr(doctor.importlib, "import_module", no_native_code)
    row = doctor.tried("native code", doctor.native_code)
    assert (row.status, row.found) == ("failed", "ImportError: undefined symbol: somewhere")
    assert row.remedy


def test_what_the_system_refuses_is_told_as_a_limit_that_no_other_installation_would_change():
    def too_many():
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    row = doctor.tried("shared memory", too_many)
    assert (row.status, row.found) == ("failed", f"[Errno {errno.EMFILE}] {os.strerror(errno.EMFILE)}")
    assert "ulimit" in row.remedy
    assert "install" not in row.remedy


@pytest.mark.usefixtures("pythons_own_interrupts")
@pytest.mark.parametrize("error", [ImportError, DrivetrainError])
def test_ctrl_c_while_native_code_is_loaded_is_no_finding(error):
    def swallowing():
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        raise error("Encountered an error while initializing the extension.")

    with noting_interrupts(), pytest.raises(KeyboardInterrupt):
        doctor.tried("native code", swallowing)


@pytest.mark.usefixtures("pythons_own_interrupts")
def test_ctrl_c_does_not_reach_the_process_that_tries_shared_memory(monkeypatch):
    def start(process):
        assert signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())
        signal.raise_signal(signal.SIGINT)
        started.append(process)

    started = []
    monkeypatch.setattr(multiprocessing.get_context("spawn").Process, "start", start)
    with pytest.raises(KeyboardInterrupt):
        doctor.shared_memory()
    assert started


def test_instructions_that_nobody_knows_are_a_failure_that_says_what_to_do(monkeypatch):
    monkeypatch.setenv("DRIVETRAIN_SIMD", "sse9")
    row = doctor.tried("native code", doctor.native_code)
    assert (row.status, row.remedy) == ("failed", "")
    assert row.found.startswith("DRIVETRAIN_SIMD: expected baseline, avx2 or avx512, got 'sse9'; leave it unset")


@pytest.mark.parametrize("there", [True, False])
def test_what_bfloat16_is_multiplied_by_is_told_where_there_is_such_a_thing(monkeypatch, there):
    monkeypatch.setattr("drivetrain.train._native.has_tiles", lambda: there)
    assert doctor.native_code().endswith(", bfloat16 by AMX") == there


@pytest.mark.parametrize(("system", "processor"), [("Darwin", "arm64"), ("Linux", "riscv64")])
def test_another_platform_is_refused(monkeypatch, system, processor):
    monkeypatch.setattr(doctor.platform, "system", lambda: system)
    monkeypatch.setattr(doctor.platform, "machine", lambda: processor)
    row = doctor.platform_row()
    assert row.status == "failed"
    assert "Linux" in row.remedy


def test_an_absent_extra_says_how_to_install_it_and_fails_nothing(monkeypatch):
    monkeypatch.setattr(doctor, "installed_version", lambda name: "1.2" if name == "sbx-rl" else None)
    row = doctor.extra_row("bench")
    assert (row.status, row.found) == ("absent", "sbx-rl 1.2")
    assert row.remedy == 'pip install "drivetrain[bench]"'


@pytest.mark.parametrize(("cxx", "found"), [("nonsense", "no nonsense"), ("false", "does not compile C++17")])
def test_a_compiler_that_is_not_there_or_of_no_use_is_told_with_who_needs_one(monkeypatch, cxx, found):
    monkeypatch.setenv("CXX", cxx)
    row = doctor.compiler_row()
    assert (row.status, found in row.found) == ("absent", True)
    assert "drivetrain.sim" in row.remedy


@pytest.fixture
def nvidia_smi(monkeypatch):
    """Answers in place of the driver's tool."""

    def install(path, answer=""):
        monkeypatch.setattr(doctor.shutil, "which", lambda name: path)
        listed = subprocess.CompletedProcess([path], 0, stdout=answer, stderr="")
        monkeypatch.setattr(doctor.subprocess, "run", lambda *args, **kwargs: listed)

    return install


def test_a_machine_without_a_gpu_is_fine(nvidia_smi):
    nvidia_smi(None)
    assert doctor.gpu_row().status == "absent"


def test_gpus_are_named_without_their_serial_numbers(nvidia_smi):
    nvidia_smi("nvidia-smi", "GPU 0: NVIDIA H200 (UUID: GPU-1)\nGPU 1: NVIDIA H200 (UUID: GPU-2)\n")
    row = doctor.gpu_row()
    assert (row.status, row.found) == ("ok", "GPU 0: NVIDIA H200; GPU 1: NVIDIA H200")


def test_a_driver_without_its_tool_is_told_from_none(nvidia_smi, monkeypatch):
    nvidia_smi(None)
    monkeypatch.setattr(headers, "has_driver", lambda: True)
    assert "a driver, and no nvidia-smi" in doctor.gpu_row().found


def test_a_tool_that_prints_no_text_is_a_finding(tmp_path, monkeypatch):
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\nprintf 'GPU 0: \\377'\n")
    tool.chmod(0o755)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: str(tool))
    assert doctor.gpu_row().found == "GPU 0: \ufffd"


def test_an_unwritable_file_is_one_sentence(tmp_path, capsys):
    assert main(["doctor", "--json", str(tmp_path / "absent" / "doctor.json")]) == 2
    assert capsys.readouterr().err.endswith("doctor.json: its folder does not exist; make it first\n")


def test_a_reader_who_went_away_is_no_failed_check():
    reader, writer = os.pipe()
    os.close(reader)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    words = [sys.executable, "-m", "drivetrain.cli.main", "doctor"]
    with open(writer, "wb") as gone:
        done = subprocess.run(words, env=environment, stdout=gone, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (141, b"")
