"""What `drivetrain replay inspect` says of a file is what is in it."""

import json
import os
import tracemalloc

import numpy as np
import pytest
from children import write_rows
from old_files import write_old_file

from drivetrain.cli import main as command
from drivetrain.replay import Replay, Sequences
from drivetrain.replay.inspection import inspect
from drivetrain.replay.testing import TaggedRows, TaggedStacks

SPEC = {"obs": {"camera": ((2, 3), "uint8"), "speed": ((), "float32")}, "action": ((), "int64")}


@pytest.fixture
def saved(tmp_path):
    """A replay of 100 rows, 80 of them there, saved twice."""
    replay, path, rng = Replay(100, SPEC, alpha=0.5, seed=4), tmp_path / "replay", np.random.default_rng(0)
    writer = replay.writer(4)
    for t in range(20):
        obs = {"camera": np.zeros((4, 2, 3), np.uint8), "speed": np.zeros(4, np.float32)}
        ends = np.array([t % 5 == 4, False, False, False])
        writer.add(
            obs=obs,
            action=np.arange(4),
            reward=rng.random(4),
            next_obs=obs,
            terminated=ends,
            truncated=~ends & (t == 7),
        )
        if t == 15:
            replay.save(path)
    replay.update_priorities(replay.all_keys(), np.linspace(0.55, 40, 80))
    replay.save(path, incremental=True)
    return replay, path


def test_the_report_says_what_is_in_the_file(saved):
    replay, path = saved
    report = inspect(path)
    assert (report.capacity, report.num_rows, report.num_inserted, report.alpha) == (100, 80, 80, 0.5)
    assert (report.version, report.nbytes, report.num_left_out) == (3, path.stat().st_size, 0)
    assert {"name": "obs/camera", "dtype": "uint8", "shape": [2, 3], "nbytes": 6, "is_shared": False} in report.fields
    assert len(report.fields) == 9
    assert [(part["num_rows"], part["num_leaves"]) for part in report.parts] == [(64, 0), (16, 64)]
    assert 0 < report.dead_share < 0.2
    priorities = replay.priorities(replay.all_keys())
    np.testing.assert_allclose(
        [report.priorities.minimum, report.priorities.mean, report.priorities.maximum],
        [priorities.min(), priorities.mean(), priorities.max()],
        rtol=1e-6,
    )
    expected, _ = np.histogram(priorities, np.array(report.histogram.edges) * (1 + 1e-9 * np.r_[-1, np.zeros(11), 1]))
    assert report.histogram.counts == expected.tolist()
    assert report.num_terminated == 4
    assert report.num_truncated == 4
    assert report.rewards.count == 80


def test_fields_are_described_as_a_row_of_a_sample_shows_them(tmp_path):
    kept_once = Sequences(length=5, burn_in=2, initial=("state",))
    for options in ({}, {"num_step": 3}, {"sequence": kept_once}):
        replay = Replay(8, {"obs": ((3,), "float32"), "action": ((), "int64"), "state": ((4,), "float16")}, **options)
        replay.save(tmp_path / "replay")
        fields = {
            name: (str(array.dtype), list(array.shape[1:]), array.nbytes)
            for name, array in replay.new_batch(1).data.items()
        }
        described = inspect(tmp_path / "replay").fields
        assert {field["name"]: (field["dtype"], field["shape"], field["nbytes"]) for field in described} == fields


def test_rewards_and_ends_are_those_of_the_rows(tmp_path):
    for tagged, options in (
        (TaggedRows(16), {}),
        (TaggedStacks(16, stack=3), {"share_next_obs": True, "frame_stack": 3}),
    ):
        replay = Replay(64, tagged.spec, **options)
        write_rows(replay, 100, num_bytes=16)
        for version in (2, 3):
            path = tmp_path / "replay"
            replay.save(path) if version == 3 else write_old_file(path, replay, 2)
            report, data = inspect(path), replay.sample(64).data
            rewards = data["reward"].astype(float)
            assert (report.rewards.minimum, report.rewards.maximum) == (rewards.min(), rewards.max())
            assert report.rewards.mean == pytest.approx(rewards.mean())
            assert report.num_terminated == data["terminated"].sum()
            assert report.num_truncated == data["truncated"].sum()


def test_the_text_shows_all_of_it(saved, capsys):
    _, path = saved
    assert command.main(["replay", "inspect", str(path)]) == 0
    text = capsys.readouterr().out
    for line in (
        "fill      80 of 100 rows (80.0%), 80 ever inserted",
        "  obs/camera       uint8[2, 3]  6 B",
        "rewards   ",
        "ends      4 rows terminated, 4 truncated",
        "saves     2; ",
        ": 16 rows, 64 changed priorities",
        "prioritized True",
    ):
        assert line in text
    bars = [line.count("#") for line in text.splitlines() if " .. " in line and "#" in line]
    assert len(bars) > 6
    assert max(bars) == 40


def test_the_json_is_the_report(saved, capsys):
    _, path = saved
    assert command.main(["replay", "inspect", str(path), "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["num_rows"] == 80
    assert sum(values["histogram"]["counts"]) == 80
    assert values["settings"]["seed"] == 4


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("\ud800", r"\ud800"),
        ("a\x1b[31mb", r"a\x1b[31mb"),
        ("a\nb", r"a\nb"),
        ("\u202ea", r"\u202ea"),
        ("größe", "größe"),
    ],
)
def test_a_name_that_a_terminal_would_obey_is_shown_as_an_escape(tmp_path, capsys, name, shown):
    path = tmp_path / "replay"
    Replay(8, {"obs": ((2,), "float32"), name: ((), "int64")}).save(path)
    assert command.main(["replay", "inspect", str(path)]) == 0
    assert f"\n  {shown:10}  int64  8 B\n" in capsys.readouterr().out


@pytest.mark.parametrize("prioritized", [True, False])
@pytest.mark.parametrize("num_rows", [0, 8])
def test_files_without_rows_or_priorities_are_told_too(tmp_path, capsys, num_rows, prioritized):
    path = tmp_path / "replay"
    replay = Replay(8, TaggedRows(16).spec, prioritized=prioritized)
    write_rows(replay, num_rows, num_bytes=16)
    replay.save(path)
    assert command.main(["replay", "inspect", str(path)]) == 0
    text = capsys.readouterr().out
    assert ("priorities: none are kept" in text) == (not prioritized)
    assert ("priorities: none, for there are no rows" in text) == (prioritized and not num_rows)
    bars = [line.split() for line in text.splitlines() if line.endswith("#")]
    assert bars == ([["1", "..", "1", "8", "#" * 40]] if prioritized and num_rows else [])  # one priority, one bar
    assert command.main(["replay", "inspect", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rewards"]["mean"] == (None if num_rows == 0 else 3.5)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"nonsense", "not a replay file of drivetrain"),
        (None, "No such file"),
        ("cut", "truncated"),
        ("odd", "damaged"),
    ],
)
def test_a_file_that_is_none_or_damaged_is_one_sentence_and_exit_code_2(saved, capsys, data, message):
    _, path = saved
    good = path.read_bytes()
    path.unlink()
    if data is not None:
        path.write_bytes(
            {"cut": good[:900], "odd": good[:1500] + bytes(255 - x for x in good[1500:1508]) + good[1508:]}.get(
                data, data
            )
        )
    assert command.main(["replay", "inspect", str(path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"drivetrain: error: {path}: ")
    assert message in printed.err
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize(
    ("file", "message"),
    [("", "FILE: expected the path of a file, got ''"), ("/proc/self/mem", "/proc/self/mem: Input/output error")],
)
def test_no_name_and_a_disk_that_fails_are_one_sentence(capsys, file, message):
    assert command.main(["replay", "inspect", file]) == 2
    assert capsys.readouterr().err == f"drivetrain: error: {message}\n"


def test_a_folder_is_answered_with_where_the_file_of_a_run_is(capsys, tmp_path):
    assert command.main(["replay", "inspect", str(tmp_path)]) == 2
    printed = capsys.readouterr().err
    assert f"expected a file that Replay.save wrote, got the folder {str(tmp_path)!r}; " in printed
    assert "RUN/checkpoint/replay-N" in printed


@pytest.mark.parametrize(("argv", "code"), [([], 2), (["--help"], 0), (["nonsense"], 2)])
def test_the_verb_says_what_it_can_do(capsys, argv, code):
    assert command.main(["replay", *argv]) == code
    printed = capsys.readouterr()
    assert "inspect" in printed.out + printed.err


@pytest.mark.parametrize("make", [lambda path: os.mkfifo(path), lambda path: path.symlink_to("/dev/null")])
def test_a_pipe_or_a_device_is_no_file_and_is_not_waited_for(tmp_path, capsys, make):
    make(tmp_path / "replay")
    assert command.main(["replay", "inspect", str(tmp_path / "replay")]) == 2
    assert "expected a file that Replay.save wrote, got a pipe or a device" in capsys.readouterr().err


def test_an_unfinished_save_is_told(saved, capsys):
    _, path = saved
    with open(path, "ab") as file:
        file.write(b"x" * 2048)
    with pytest.warns(UserWarning, match="2048 bytes are left out"):
        inspect(path)
    assert command.main(["replay", "inspect", str(path)]) == 0
    assert "2.00 KiB of a save that was not finished" in capsys.readouterr().out


@pytest.mark.whole
def test_inspecting_takes_memory_for_an_index_and_not_for_the_rows(tmp_path):
    tagged, path = TaggedRows(50_000), tmp_path / "replay"
    replay = Replay(2000, tagged.spec)
    write_rows(replay, 2000, num_envs=500, num_bytes=50_000)
    replay.save(path)
    replay.close()
    tracemalloc.start()
    inspect(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert path.stat().st_size > 100_000_000
    assert peak < 50_000_000


def test_infinite_returns_of_both_signs_are_told_without_a_warning(tmp_path, capsys):
    replay = Replay(10, {"action": ((), "int64")}, num_step=2, gamma=1.0)
    writer, no = replay.writer(1), np.zeros(1, bool)
    for reward in (3.4e38, 3.4e38, -3.4e38, -3.4e38, -3.4e38):
        writer.add(action=np.zeros(1, int), reward=np.full(1, reward), terminated=no, truncated=no)
    replay.save(tmp_path / "replay")
    report = inspect(tmp_path / "replay")
    assert (report.rewards.minimum, report.rewards.maximum) == (-np.inf, np.inf)
    assert command.main(["replay", "inspect", str(tmp_path / "replay")]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("priorities", [[0.5, 2.0], [2.0, 2.0]])
def test_leaves_that_a_small_alpha_reads_as_infinite_are_told_without_a_warning(tmp_path, capsys, priorities):
    with Replay(2, {"action": ((), "int64")}) as replay:
        yes, no = np.ones(2, bool), np.zeros(2, bool)
        replay.writer(2).add(action=np.zeros(2, int), reward=np.zeros(2), terminated=yes, truncated=no)
        replay.update_priorities(replay.all_keys(), np.array(priorities))
        replay.set_alpha(1e-5, rescale=False)
        replay.save(tmp_path / "replay")
    report = inspect(tmp_path / "replay")
    assert report.priorities.maximum == np.finfo(np.float32).max
    assert np.isfinite([report.priorities.mean, *report.histogram.edges]).all()
    assert sum(report.histogram.counts) == 2
    assert command.main(["replay", "inspect", str(tmp_path / "replay")]) == 0
    assert capsys.readouterr().err == ""
