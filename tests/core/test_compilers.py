"""What is compiled where it is used is there whole, or not at all."""

import shutil
import sys

import pytest

from drivetrain.core import compilers
from drivetrain.core.compilers import KILLED, compiled_aside, find_cxx, refusal, version_of
from drivetrain.core.errors import CompileError
from live_processes import wait_until_dead


def test_a_result_takes_the_place_of_the_old_one_when_the_block_ends(tmp_path):
    target = tmp_path / "folder" / "library.so"
    for content in ("first", "second"):
        with compiled_aside(target) as aside:
            assert aside.name == target.name
            aside.write_text(content)
            aside.with_name("library.o").write_text("what a compiler leaves beside it")
            assert target.exists() == (content == "second")
        assert target.read_text() == content
    assert list(target.parent.iterdir()) == [target]


def test_after_an_error_the_old_result_is_as_it_was(tmp_path):
    target = tmp_path / "library.so"
    target.write_text("old")

    def compile_half():
        with compiled_aside(target) as aside:
            aside.write_text("half of the ne")
            raise RuntimeError("it was refused")

    with pytest.raises(RuntimeError, match="it was refused"):
        compile_half()
    assert list(tmp_path.iterdir()) == [target]
    assert target.read_text() == "old"


def test_a_compiler_that_made_nothing_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError), compiled_aside(tmp_path / "library.so"):
        pass


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import sys; sys.exit(sys.stdin.read() != 'int x;')", None),
        ("import sys; print('note: see\\n  a.cpp:3: error: no y  \\nerror: more', file=sys.stderr); sys.exit(1)",
         "a.cpp:3: error: no y"),
        ("import sys; print('it went wrong', file=sys.stderr); sys.exit(1)", "it went wrong"),
        ("import os, sys; os.write(2, b'\\xff.cpp: error: no z'); sys.exit(1)", "\ufffd.cpp: error: no z"),
        ("import sys; sys.exit(4)", "exit code 4, without a word"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", KILLED),
        ("import sys; print('g++: Killed signal terminated program cc1plus', file=sys.stderr); sys.exit(1)",
         KILLED),
    ],
)  # fmt: skip
def test_what_a_compiler_refuses_is_its_first_error(program, said):
    assert refusal([sys.executable, "-c", program], source="int x;") == said


def test_a_compiler_that_waits_for_too_long_is_ended_with_what_it_began_and_told_so(monkeypatch, tmp_path):
    monkeypatch.setattr(compilers, "TIMEOUT_S", 0.5)
    begun = tmp_path / "begun"
    assert refusal(["sh", "-c", f"sleep 60 & echo $! > {begun}; wait"]) == "it was not done after 0.5 seconds"
    wait_until_dead([int(begun.read_text())])


def test_one_that_does_not_tell_its_version_is_given_up_with_what_it_began(monkeypatch, tmp_path):
    monkeypatch.setattr(compilers, "VERSION_TIMEOUT_S", 1)
    begun, hanging = tmp_path / "begun", tmp_path / "hanging c++"
    hanging.write_text(f"#!/bin/sh\nsleep 60 & echo $! > {begun}; wait\n")
    hanging.chmod(0o755)
    with pytest.raises(CompileError, match=r"`'.*/hanging c\+\+' -m64 --version` was not done after 1 second; mend it"):
        version_of((str(hanging), "-m64"))
    wait_until_dead([int(begun.read_text())])


def test_one_that_cannot_be_run_is_told_as_such(tmp_path):
    compiler = tmp_path / "c++"
    compiler.write_text("no program\n")
    compiler.chmod(0o755)
    with pytest.raises(CompileError, match=r"cannot be run: `.* --version`: Exec format error; mend it"):
        version_of((str(compiler),))


@pytest.mark.whole
def test_time_is_counted_as_the_processors_so_that_a_busy_machine_refuses_nothing(monkeypatch):
    monkeypatch.setattr(compilers, "LIMIT_CPU_S", 1)
    assert refusal([sys.executable, "-c", "import time; time.sleep(2)"]) is None
    for busy in ([sys.executable, "-c", "while True: pass"], ["sh", "-c", "(while :; do :; done); exit 4"]):
        assert refusal(busy) == "it was not done after 1 second of processor time"


def test_the_version_is_the_first_line_a_compiler_says_of_itself(tmp_path):
    compiler = tmp_path / "compiler"
    compiler.write_text("#!/bin/sh\necho compiler 12.2\necho and a licence\n")
    compiler.chmod(0o755)
    assert version_of((str(compiler),)) == "compiler 12.2"


def test_cxx_may_have_arguments_or_be_a_path_with_spaces(monkeypatch, tmp_path):
    real, spaced = shutil.which("python3"), tmp_path / "my compiler"
    spaced.symlink_to(real)
    for text, command in {
        "python3 -march=native '-D X'": (real, "-march=native", "-D X"),
        str(spaced): (str(spaced),),
        " python3 ": (real,),
        "no-such-compiler -O2": None,
        "python3 'unfinished": None,
    }.items():
        monkeypatch.setenv("CXX", text)
        assert find_cxx() == command
