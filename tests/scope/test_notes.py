"""What is missing is said in sentences, and nothing fails of saying so."""

from drivetrain import scope
from drivetrain.scope.hooks import torch_operators
from drivetrain.scope.notes import leave_note, read_notes


def test_the_latest_sentence_of_each_cause_is_read(tmp_path):
    leave_note(tmp_path, "b", "it was not recorded")
    leave_note(tmp_path, "a", "earlier")
    leave_note(tmp_path, "a", "later")
    assert read_notes(tmp_path) == ["later", "it was not recorded"]


def test_a_note_that_cannot_be_written_is_not_said_and_none_is_too_odd_to_be(tmp_path):
    leave_note(tmp_path / "absent", "a", "text")
    leave_note(tmp_path, "odd", "the file \udce4.py")  # what is not Unicode in a path
    assert read_notes(tmp_path) == [r"the file \udce4.py"]


def test_what_processes_say_alike_is_read_once(tmp_path):
    for number in (71, 9, 72):
        leave_note(tmp_path, f"{number}.jax", f"Process {number}: jax was not hooked: it is new")
        leave_note(tmp_path, f"{number}.other", f"Process {number} ({number}) was not captured")
    leave_note(tmp_path, "gpu-refused", "9 records are missing")
    assert read_notes(tmp_path) == [
        "Process 71: jax was not hooked: it is new (likewise 72, 9)",
        "Process 71 (71) was not captured",
        "Process 72 (72) was not captured",
        "Process 9 (9) was not captured",
        "9 records are missing",
    ]


def test_notes_that_are_not_text_are_read_all_the_same(tmp_path):
    (tmp_path / "7.not-captured").write_bytes(b"\xff was not hooked")
    assert read_notes(tmp_path) == ["� was not hooked"]


def test_a_library_of_operators_that_does_not_fit_is_said_and_keeps_no_other_hook_from_pytorch(tmp_path, monkeypatch):
    (tmp_path / "of_another.so").write_text("no library")
    monkeypatch.setenv(torch_operators.VARIABLE, str(tmp_path / "of_another.so"))
    with scope.session(tmp_path / "run"):
        assert torch_operators.install() is False
    (note,) = read_notes(tmp_path / "run")
    assert "operators of PyTorch were not recorded, and modules count as native time whole: " in note
