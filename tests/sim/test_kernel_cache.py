"""Processes that want the same kernel at once: one compiles, all load it, and a killed one stops nobody."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from drivetrain.core.errors import CompileError
from drivetrain.sim.engines import toolchain

SOURCE = 'extern "C" int answer() { return 42; }'
# The toolchain alone, without JAX: what a process does to get a kernel.
PROGRAM = f"""
import importlib.util, sys
spec = importlib.util.spec_from_file_location("toolchain", {toolchain.__file__!r})
toolchain = importlib.util.module_from_spec(spec)
spec.loader.exec_module(toolchain)
sys.stdin.readline()
print(toolchain.load_library({SOURCE!r}, ()).answer())
"""
COMPILER = """#!/bin/sh
case "$1" in --version) ;; *) echo run >> "$COUNT"; {before} ;; esac
exec g++ "$@"
"""


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Starts a process that waits for a line, and then asks for the kernel."""

    def begin(before="", arguments=""):
        wrapper = tmp_path / f"compiler-{len(before)}"
        wrapper.write_text(COMPILER.format(before=before or ":"))
        wrapper.chmod(0o755)
        environment = {**os.environ, "CXX": f"{wrapper} {arguments}", "COUNT": str(tmp_path / "count"),
                       "DRIVETRAIN_CACHE": str(tmp_path / "kernels")}  # fmt: skip
        return subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                text=True, env=environment)  # fmt: skip

    return begin


def answers(processes):
    """What each says, all of them let go at once."""
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    return [process.communicate(timeout=100)[0].strip() for process in processes]


def runs(folder: Path):
    return (folder / "count").read_text().count("run")


def test_a_compiler_may_have_arguments(start):
    assert answers([start(arguments="-DNOTHING")]) == ["42"]


@pytest.fixture
def as_compiler(monkeypatch, tmp_path):
    """Makes a program the compiler, with nothing kept."""

    def choose(program):
        monkeypatch.setenv("CXX", str(program))
        monkeypatch.setenv("DRIVETRAIN_CACHE", str(tmp_path / "kernels"))
        toolchain.compiler.cache_clear()

    yield choose
    toolchain.compiler.cache_clear()


def test_a_compiler_that_writes_nothing_is_told_as_such(as_compiler):
    as_compiler("/bin/true")
    with pytest.raises(CompileError, match=r"CXX=/bin/true does not .*says that all is well and writes nothing; set"):
        toolchain.load_library(SOURCE, ())


def test_a_compiler_that_is_not_handed_the_source_leaves_nothing_for_one_that_is(as_compiler, tmp_path):
    wrapper = tmp_path / "wrapper"
    wrapper.write_text('#!/bin/sh\nexec g++ "$@" < /dev/null\n')
    wrapper.chmod(0o755)
    as_compiler(wrapper)
    with pytest.raises(CompileError, match=r"does not compile C\+\+17 here: what it writes shows nothing of .* input"):
        toolchain.load_library(SOURCE, ())
    as_compiler("g++")
    assert toolchain.load_library(SOURCE, ()).answer() == 42


def test_a_compiler_that_is_killed_is_told_of_with_memory_and_is_no_fault_of_the_kernel(as_compiler, tmp_path):
    wrapper = tmp_path / "wrapper"
    killed = "echo 'g++: fatal error: Killed signal terminated program cc1plus' >&2; exit 1"
    wrapper.write_text(f'#!/bin/sh\ncase "$1" in --version) exec g++ "$@" ;; esac\n{killed}\n')
    wrapper.chmod(0o755)
    as_compiler(wrapper)
    with pytest.raises(CompileError, match="it was killed, as programs are where memory runs out; make room") as told:
        toolchain.load_library(SOURCE, ())
    assert "report" not in str(told.value)


def test_one_of_several_processes_compiles_and_all_load_it(start, tmp_path):
    assert answers([start("sleep 1") for _ in range(4)]) == ["42"] * 4
    assert runs(tmp_path) == 1
    assert sorted(path.suffix for path in (tmp_path / "kernels").iterdir()) == [".lock", ".so"]


def test_a_process_that_is_killed_while_it_compiles_stops_nobody_and_what_it_left_goes_away(start, tmp_path):
    assert answers([start("kill -9 $PPID; exit 1")]) == [""]
    assert len(list((tmp_path / "kernels").glob("*.so.*"))) == 1
    assert answers([start(), start()]) == ["42", "42"]
    assert runs(tmp_path) == 2
    assert sorted(path.suffix for path in (tmp_path / "kernels").iterdir()) == [".lock", ".so"]


def test_flags_that_a_user_gives_with_the_compiler_make_another_kernel(monkeypatch, tmp_path):
    monkeypatch.setenv("DRIVETRAIN_CACHE", str(tmp_path))
    found = []
    for number in (1, 2):
        monkeypatch.setattr(toolchain, "compiler", lambda number=number: (("g++", f"-DNUMBER={number}"), "one"))
        found.append(toolchain.load_library('extern "C" int number() { return NUMBER; }', ()).number())
    assert found == [1, 2]
