"""A mistake in a flag is one line, as any mistake of the user's."""

import pytest

from drivetrain.cli.main import main


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["eval", "run", "--which", "y"], "invalid choice 'y' for argument '--which'. Expected one of"),
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
        (["resume", "--foo", "RUN"], "Unrecognized options: --foo"),
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
    assert "expected FILE (Written by Replay.save), got nothing" in absent


def test_help_is_as_wide_as_the_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    with pytest.raises(SystemExit) as ended:
        main(["eval", "--help"])
    assert ended.value.code == 0
    assert 40 < max(map(len, capsys.readouterr().out.splitlines())) <= 50
