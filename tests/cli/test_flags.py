"""A mistake in a flag is one line, as any mistake of the user's."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest
import tyro

from drivetrain.cli.flags import read_flags
from drivetrain.cli.main import main
from drivetrain.core.errors import InvalidInput
from drivetrain.train.config.parts import RunConfig


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["envs", "--al"], "Unrecognized options: --al; perhaps you meant: --all"),
        (["doctor", "x"], "Unrecognized options: x"),
        (["doctor", "--json"], "Missing value for argument '--json'"),
        (["eval"], "expected RUN (The run's folder), got nothing"),
        (
            ["eval", "--episode", "5", "RUN"],
            "Unrecognized options: --episode, 5, RUN; perhaps you meant: --episodes; `",
        ),
        (
            ["resume", "RUN", "--num", "5"],
            "Unrecognized options: --num, 5; perhaps you meant: --num-actors, --num-learners; `",
        ),
        (
            ["eval", "RUN", "--episode", "5", "--vide", "x", "--foo"],
            "Unrecognized options: --episode, 5, --vide, x, --foo; perhaps you meant: --episodes for --episode, "
            "--video for --vide; `",
        ),
        (["plot", "RUN", "--out", "FILE"], "Unrecognized options: --out, FILE; perhaps you meant: --output; `"),
        (
            ["report", "A", "--html", "FILE", "B"],
            "Unrecognized options: B; all DIRs stand together, in front of the flags; `",
        ),
        (
            ["plot", "A", "--output", "FILE", "B"],
            "Unrecognized options: B; all RUNs stand together, in front of the flags; `",
        ),
        (["report", "A", "--foo", "B"], "Unrecognized options: --foo, B; `"),
        (
            ["resume", "RUN", "--learners", "2"],
            "Unrecognized options: --learners, 2; perhaps you meant: --num-learners; `",
        ),
        (["resume", "--foo", "RUN"], "Unrecognized options: --foo"),
        (
            ["resume", "RUN", "--batch-size", "64"],
            "Unrecognized options: --batch-size, 64; a run goes on with its own settings, and takes no others than "
            "--total-steps, --num-actors, --num-learners, --scratch-dir and --wandb; `",
        ),
        (["envs", "--", "--all"], "Unrecognized options: --all; flags stand before the word --, behind which there"),
        (
            ["envs", "--all", "True"],
            "Unrecognized options: True; switches take no value: --NAME, or --no-NAME; `",
        ),
        (["envs", "--all", "yes"], "Unrecognized options: yes; switches take no value: --NAME, or --no-NAME; `"),
        (["envs", ""], "Unrecognized options:; an empty word is among the arguments, as of a shell's variable that is"),
        (["eval", ""], "path: expected a path, got ''; an empty word is among the arguments, as of a shell's variable"),
        (["eval", "RUN", "--json", ""], "--json: expected None or a path, got ''; an empty word is among"),
        (["eval", "RUN", "--json", "-"], "--json: expected None or a path, got '-'; - stands for no standard stream"),
        (["eval", "RUN", "--json=-"], "--json: expected None or a path, got '-'; - stands for no standard stream"),
        (["plot", "RUN", "-o", "-"], "-o/--output: expected a path, got '-'; - stands for no standard stream here"),
        (
            ["plot", "RUN", ""],
            "expected values as --help shows them, with spaces between them, got 'RUN', ''; an empty word is among",
        ),
        (
            ["eval", "RUN", "--watch=false", "--vide", "x"],
            "Unrecognized options: false, --vide, x; perhaps you meant: --video; switches take no value: --NAME, or",
        ),
        (["eval", "RUN", "--episodes"], "Missing value for argument '--episodes'"),
        (["eval", "run", "--episodes", "y"], "--episodes: expected a whole number, as 100000, 100_000 or 1e5, got 'y'"),
        (
            ["eval", "run", "--episodes", "1.5"],
            "--episodes: expected a whole number, as 100000, 100_000 or 1e5, got '1.5'",
        ),
        (["eval", "run", "--episodes", "1e999"], "--episodes: expected a whole number"),
        (["eval", "run", "--episodes", "nan"], "--episodes: expected a whole number"),
        (
            ["eval", "run", "--which", "y"],
            "invalid choice 'y' for argument '--which'. Expected one of ('best', 'last')",
        ),
    ],
)
@pytest.mark.parametrize("columns", ["20", "200"])
def test_a_mistake_in_a_flag_is_one_line_at_any_width(capsys, monkeypatch, arguments, said, columns):
    monkeypatch.setenv("COLUMNS", columns)
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(f"drivetrain: error: {said}")
    assert shown.err.endswith(f"; `drivetrain {arguments[0]} --help` lists the flags\n")
    assert shown.err.count("\n") == 1


def test_a_verb_of_a_verb_is_named_whole(capsys):
    assert main(["replay", "inspect", "--foo", "FILE"]) == 2
    assert main(["replay", "inspect"]) == 2
    unknown, absent = capsys.readouterr().err.splitlines()
    assert "Unrecognized options: --foo, FILE; `drivetrain replay inspect --help` lists" in unknown
    assert "expected FILE (Written by Replay.save; of a run, RUN/checkpoint/replay-N), got nothing" in absent


def test_help_is_as_wide_as_the_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    with pytest.raises(SystemExit) as ended:
        main(["eval", "--help"])
    assert ended.value.code == 0
    assert 40 < max(map(len, capsys.readouterr().out.splitlines())) <= 50


@pytest.mark.parametrize("columns", ["1", "5"])
def test_help_comes_to_its_end_on_the_narrowest_terminal(monkeypatch, capsys, columns):
    monkeypatch.setenv("COLUMNS", columns)
    with pytest.raises(SystemExit) as ended:
        main(["eval", "--help"])
    assert ended.value.code == 0
    assert "--episodes" in capsys.readouterr().out


def help_of(kind, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as ended:
        read_flags(kind, ["--help"], prog="program", config=(tyro.conf.OmitArgPrefixes,))
    assert ended.value.code == 0
    return [line.strip("│ ") for line in capsys.readouterr().out.splitlines()]


def test_paths_of_flags_that_shells_leave_as_they_are_begin_in_the_users_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))

    @dataclass(frozen=True, kw_only=True)
    class Flags:
        json: Path | None = None
        folders: tyro.conf.Positional[tuple[Path, ...]]

    flags = read_flags(Flags, ["--json=~/file", "here", "./~there"], prog="prog")
    assert flags.json == tmp_path / "file"
    assert flags.folders == (Path("here"), Path("~there").absolute())


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part."""

    steps: int | None = None
    """How many; none where
    it ends by itself."""


@dataclass(frozen=True, kw_only=True)
class Inherited:
    """What others have, too."""

    name: str = "x"
    """Of whom
    this is."""


@dataclass(frozen=True, kw_only=True)
class Whole(Inherited):
    """Flags of each kind."""

    part: Part = field(default_factory=Part)
    other: Literal["a", "b"] | None = None
    silent: int = 1
    talkative: int = 2
    """The first
    paragraph.

    The second
    one."""


def test_help_ends_lines_where_they_are_full_and_not_where_those_of_the_source_end(capsys, monkeypatch):
    lines = help_of(Whole, capsys, monkeypatch)
    for sentence in (
        "How many; none where it ends by itself. (default: None)",
        "Of whom this is. (default: x)",
    ):
        assert any(line.endswith(sentence) for line in lines), lines
    first = next(at for at, line in enumerate(lines) if line.endswith("The first paragraph."))
    assert lines[first + 2] == "The second one. (default: 2)"


@pytest.mark.parametrize("command", ["plot", "report"])
def test_help_says_that_folders_are_required_where_there_may_be_several(capsys, command):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    shown = capsys.readouterr().out
    assert "(required)" in shown
    assert "(default: )" not in shown


def test_what_may_be_left_out_is_shown_without_braces_and_can_be_said(capsys, monkeypatch):
    shown = "\n".join(help_of(Whole, capsys, monkeypatch))
    assert "--steps None|INT" in shown
    assert "--other None|{a,b}" in shown
    words = ["--part.steps", "None", "--other", "None"]
    assert read_flags(Whole, words, prog="program") == Whole()
    with pytest.raises(InvalidInput, match=r"--part\.steps: expected None or a whole number, got"):
        read_flags(Whole, ["--part.steps", "none"], prog="program")


def test_flags_of_training_are_told_in_lines_as_wide_as_the_terminal(capsys, monkeypatch):
    lines = help_of(RunConfig, capsys, monkeypatch)
    (told,) = (line for line in lines if "Actor processes; 0 runs everything in one process" in line)
    assert "one for each core that the learners leave" in told
