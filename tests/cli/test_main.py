"""The command line: verbs, exit codes, and one line for every mistake of the user's."""

import _imp
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import types
from pathlib import Path

import pytest

import drivetrain
from drivetrain.cli import main as command
from drivetrain.core.errors import InvalidInput, RunError
from drivetrain.replay import Replay


@pytest.fixture
def verb(monkeypatch):
    """Replaces the verb `doctor` by a function, as if that were in its file."""

    def install(run):
        module = types.ModuleType("drivetrain.cli.doctor")
        module.run = run
        monkeypatch.setitem(sys.modules, "drivetrain.cli.doctor", module)

    return install


def raising(error):
    def run(argv):
        raise error

    return run


def test_each_verb_is_a_file_with_a_run_function():
    folder = Path(command.__file__).parent
    files = {path.stem for path in folder.glob("*.py")} - {"__init__", "main", "flags"}
    assert files == set(command.VERBS)
    for verb in command.VERBS:
        assert "\ndef run(argv: list[str]) -> int:" in (folder / f"{verb}.py").read_text()


@pytest.mark.parametrize("argv", [[], ["--help"], ["-h"], ["help"]])
def test_help_lists_every_verb(argv, capsys):
    assert command.main(argv) == 0
    printed = capsys.readouterr().out
    assert all(f"  {verb} " in printed and summary in printed for verb, summary in command.VERBS.items())


def test_version_prints_the_version(capsys):
    assert command.main(["--version"]) == 0
    assert capsys.readouterr().out == f"drivetrain {drivetrain.__version__}\n"


def test_an_unknown_verb_is_one_sentence_with_the_nearest_match(capsys):
    assert command.main(["trian", "dqn"]) == 2
    assert capsys.readouterr().err == "drivetrain: error: unknown verb 'trian': did you mean 'train'?\n"


@pytest.mark.parametrize("verb", ["xyz", "nonsense"])
def test_a_verb_like_no_other_gets_the_whole_list(verb, capsys):
    assert command.main([verb]) == 2
    assert f"choose from {', '.join(command.VERBS)}" in capsys.readouterr().err


def test_a_verb_gets_the_rest_of_the_line_and_gives_the_exit_code(verb):
    seen = []

    def run(argv):
        seen.append(argv)
        return 7

    verb(run)
    assert command.main(["doctor", "--json", "x"]) == 7
    assert seen == [["--json", "x"]]


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (InvalidInput("batch_size: expected 1,\n   got 0"), 2, "batch_size: expected 1, got 0"),
        (RunError("the learner died"), 1, "the learner died"),
        (PermissionError(13, "Permission denied", "/sys/x"), 2, "/sys/x: Permission denied"),
        (
            OSError(28, "No space left on device"),
            2,
            "No space left on device: neither the run directory nor the output may be on a full disk",
        ),
        (
            OSError(27, "File too large"),
            2,
            "File too large: neither the shell (`ulimit -f`) nor the file system may let a file grow so large",
        ),
        (
            OSError(24, "Too many open files"),
            2,
            "Too many open files: this shell allows a process too few (`ulimit -n`)",
        ),
        (
            OSError(5, "Input/output error"),
            2,
            "Input/output error: a disk that this reads or writes fails (`dmesg` says which)",
        ),
        (MemoryError(), 2, "there is not enough memory: what was asked for does not fit; ask for something smaller"),
        (MemoryError("no 8 TiB"), 2, "there is not enough memory: no 8 TiB; ask for something smaller"),
        (
            ModuleNotFoundError("No module named 'jax'", name="jax"),
            2,
            'this needs jax, which is not installed: pip install "drivetrain[train]"',
        ),
    ],
)
def test_a_mistake_is_one_line_on_stderr(verb, capsys, error, code, message):
    verb(raising(error))
    assert command.main(["doctor"]) == code
    assert capsys.readouterr() == ("", f"drivetrain: error: {message}\n")


@pytest.mark.parametrize(
    "error", [ZeroDivisionError(), ModuleNotFoundError("No module named 'q'", name="q"), OSError(5)]
)
def test_a_bug_of_ours_keeps_its_traceback(verb, error):
    verb(raising(error))
    with pytest.raises(type(error)) as caught:
        command.main(["doctor"])
    assert caught.value is error


def test_ctrl_c_exits_130_without_a_word(verb, capsys):
    verb(raising(KeyboardInterrupt()))
    assert command.main(["doctor"]) == 130
    assert capsys.readouterr() == ("", "")


@pytest.mark.usefixtures("pythons_own_interrupts")
def test_ctrl_c_while_native_code_is_loaded_is_ctrl_c(verb, capsys):
    def run(argv):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:  # as nanobind does with whatever was raised
            raise ImportError("Encountered an error while initializing the extension.") from None

    verb(run)
    before = signal.getsignal(signal.SIGINT)
    assert command.main(["doctor"]) == 130
    assert capsys.readouterr() == ("", "")
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.usefixtures("pythons_own_interrupts")
def test_ctrl_c_while_a_class_is_made_is_without_a_word(verb, capsys):
    class Interrupted:
        def __set_name__(self, owner, name):
            signal.raise_signal(signal.SIGINT)

    verb(lambda argv: type("Made", (), {"field": Interrupted()}))  # a RuntimeError, up to Python 3.11
    assert command.main(["doctor"]) == 130
    assert capsys.readouterr() == ("", "")


def test_another_ctrl_c_as_the_command_clears_up_after_the_first_is_without_a_word(verb, monkeypatch, capsys):
    def interrupted():
        raise KeyboardInterrupt

    verb(raising(KeyboardInterrupt()))
    monkeypatch.setattr(command, "drop_unwritten", interrupted)
    assert command.main(["doctor"]) == 130
    assert capsys.readouterr() == ("", "")


def test_ctrl_c_while_our_native_code_loads_numpy_is_without_a_word():
    code = """
import signal, sys
from drivetrain.cli.main import main

class Interrupting:
    def find_spec(self, name, path, target=None):
        if name == "numpy.linalg":
            signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
assert "numpy" not in sys.modules
sys.meta_path.insert(0, Interrupting())
sys.exit(main(["train", "dqn", "CartPole-v1", "--show-config"]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.usefixtures("pythons_own_interrupts")
def test_ctrl_c_while_native_code_is_loaded_waits_until_it_is(verb, monkeypatch, capsys):
    def create(spec):
        signal.raise_signal(signal.SIGINT)
        loaded.append(spec.name)
        return create_dynamic(spec)

    def run(argv):
        sys.modules.pop("_lsprof", None)
        importlib.import_module("_lsprof")
        threading.Event().wait(60)

    loaded, create_dynamic = [], _imp.create_dynamic
    monkeypatch.setattr(_imp, "create_dynamic", create)
    verb(run)
    assert command.main(["doctor"]) == 130
    assert (loaded, capsys.readouterr()) == (["_lsprof"], ("", ""))


def test_a_reader_that_goes_away_ends_the_command_quietly():
    code = "import sys; from drivetrain.cli.main import main; sys.stdin.read(); sys.exit(main(['--help']))"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.close()
    process.stdin.close()
    with process.stderr:
        assert process.stderr.read() == b""
    assert process.wait() == command.OUTPUT_CLOSED


def test_a_mistake_is_one_line_from_a_shell_too():
    done = subprocess.run(
        [sys.executable, "-m", "drivetrain.cli.main", "nonsense"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("drivetrain: error: unknown verb")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(("verb", "found"), [("train", True), ("resume", True), ("eval", True), ("doctor", False)])
def test_modules_of_the_folder_can_be_named_and_hide_no_other(verb, found, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(command, "load_verb", lambda name: lambda arguments: 0)
    assert (command.main([verb]), command.main([verb])) == (0, 0)
    assert [path for path in sys.path if path == str(tmp_path)] == [str(tmp_path)] * found
    assert not found or sys.path[-1] == str(tmp_path)


@pytest.mark.parametrize("name", ["doctor", "train"])
def test_a_folder_that_was_removed_meanwhile_is_a_sentence_and_not_a_traceback(name, tmp_path, monkeypatch, capsys):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert command.main([name, "dqn", "CartPole-v1"]) == 2
    message = "the folder in which this was called does not exist any more; `cd` to one that does"
    assert capsys.readouterr().err == f"drivetrain: error: {message}\n"


@pytest.mark.parametrize(
    "words",
    [
        ["doctor", "--json", "circle"],
        ["report", ".", "--html", "circle/page.html"],
        ["report", ".", "--kineto", "circle"],
        ["plot", "circle"],
        ["plot", ".", "-o", "circle/curves.png"],
        ["train", "dqn", "CartPole-v1", "--scratch-dir", "circle"],
        ["train", "dqn", "CartPole-v1", "--seeds", "1,2", "--run-dir", "circle"],
    ],
    ids=" ".join,
)
def test_links_that_lead_in_a_circle_are_a_sentence_and_not_a_traceback(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "circle").symlink_to("circle")
    assert command.main(words) == 2
    assert "expected a path, got links that lead in a circle; choose another" in capsys.readouterr().err


@pytest.mark.whole
def test_a_command_started_without_standard_streams_works(tmp_path):
    """What it opens must not become standard output, into which it prints."""
    file = tmp_path / "doctor.json"
    shell = f"exec {sys.executable} -m drivetrain.cli.main doctor --json {file} <&- >&- 2>&-"
    assert subprocess.run(["bash", "-c", shell], check=False).returncode == 0
    assert json.loads(file.read_text())["ok"]


@pytest.mark.whole
def test_names_that_the_output_cannot_encode_are_escaped(tmp_path):
    Replay(4, {"länge": ((), "float32")}).save(tmp_path / "ö.bin")
    for arguments in (["inspect", str(tmp_path / "ö.bin")], ["inspect", str(tmp_path / "none ö")]):
        done = subprocess.run(
            [sys.executable, "-m", "drivetrain.cli.main", "replay", *arguments],
            env={**os.environ, "PYTHONIOENCODING": "ascii"},
            capture_output=True,
            check=False,
        )
        assert b"\\xf6" in done.stdout + done.stderr
        assert b"Traceback" not in done.stderr


def test_half_of_a_pair_of_surrogates_is_escaped_in_the_c_locale_as_elsewhere():
    program = "from drivetrain.cli.main import open_streams; open_streams(); print('\\ud800 \\udcff')"
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONIOENCODING", "PYTHONUTF8")}
    done = subprocess.run(
        [sys.executable, "-c", program], env={**environment, "LC_ALL": "C"}, capture_output=True, check=False
    )
    assert done.stdout == b"\\ud800 \\udcff\n", done.stderr
