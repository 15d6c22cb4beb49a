"""metrics.csv and TensorBoard say what metrics.jsonl says, whatever happens to a run."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax", reason="needs the train extra")

from tensorboard_rows import scalars
from whole_run import SMALL, read, rows_of

from drivetrain.core.aside import save_text
from drivetrain.train import resume, train
from drivetrain.train.config import TrainConfig
from drivetrain.train.run_dir.archives import append_whole
from drivetrain.train.telemetry.metrics import MetricsFile
from drivetrain.train.telemetry.sinks import tensorboard
from drivetrain.train.telemetry.sinks.table import COLUMNS, Table

CONFIG = TrainConfig.default("dqn", "CartPole-v1").override(csv=True)


def table_of(run_dir):
    """The rows of metrics.csv by header, without what is empty, as numbers."""
    with (run_dir / "metrics.csv").open(newline="") as file:
        return [{name: float(text) for name, text in row.items() if text} for row in csv.DictReader(file)]


def test_a_table_has_the_known_columns_first_and_the_algorithms_own_after_them(tmp_path):
    with MetricsFile(CONFIG, tmp_path, None, pytest.fail) as metrics:
        metrics.write({"eval_return": 9.5, "num_steps": 100, "num_updates": 0})
        assert read(tmp_path / "metrics.csv") == ",".join(COLUMNS) + "\n" + "100,0" + "," * 9 + "9.5,,,,,\n"
        metrics.write({"num_steps": 200, "num_updates": 7, "wall_s": 0.5, "loss": 1 / 3, "q": 2.0})
        metrics.write({"num_steps": 300, "num_updates": 8, "loss": float("nan"), "q": 3.0})
    header, *lines = read(tmp_path / "metrics.csv").splitlines()
    assert header.split(",") == [*COLUMNS, "loss", "q"]
    assert len(lines) == 3
    assert table_of(tmp_path) == rows_of(tmp_path)
    assert table_of(tmp_path)[1]["loss"] == 1 / 3


def test_a_resumed_table_has_one_header_and_neither_later_rows_nor_half_a_line(tmp_path):
    with MetricsFile(CONFIG, tmp_path, None, pytest.fail) as metrics:
        for steps in (100, 200, 300):
            metrics.write({"num_steps": steps, "num_updates": 0, "loss": 0.5})
    with (tmp_path / "metrics.csv").open("a") as file:
        file.write("400,0,0.12")
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"num_steps": 400, "num_')
    with MetricsFile(CONFIG, tmp_path, 200, pytest.fail) as metrics:
        metrics.write({"num_steps": 250, "num_updates": 1, "loss": 0.25})
    assert [row["num_steps"] for row in table_of(tmp_path)] == [100, 200, 250]
    assert table_of(tmp_path) == rows_of(tmp_path)
    assert read(tmp_path / "metrics.csv").count("num_steps") == 1


def test_rows_go_on_in_a_new_file_where_somebody_has_removed_the_old_one_and_damage_is_told_once(tmp_path):
    said = []
    with MetricsFile(CONFIG, tmp_path, None, said.append) as metrics:
        metrics.write({"num_steps": 100})
        (tmp_path / "metrics.jsonl").unlink()
        metrics.write({"num_steps": 200, "loss": 1.0})
        metrics.write({"num_steps": 300})
        assert [row["num_steps"] for row in rows_of(tmp_path)] == [200, 300]
        assert table_of(tmp_path) == rows_of(tmp_path)
        assert not said
        (tmp_path / "metrics.jsonl").write_text("emptied by hand\n")
        for steps in (400, 500):
            metrics.write({"num_steps": steps, f"loss_{steps}": 2.0})
    (sentence,) = said
    assert "metrics.jsonl: damaged, or no metrics of drivetrain" in sentence
    assert "; the run goes on, and rows are lost until that is mended" in sentence
    assert [row["num_steps"] for row in table_of(tmp_path)] == [200, 300]


def test_a_line_that_found_no_room_is_there_once_there_is_room(tmp_path, full_disk):
    rows = [{"num_steps": 1.0}]
    table = Table(tmp_path / "metrics.csv", lambda: rows)
    before = read(tmp_path / "metrics.csv")
    with full_disk(len(before) + 5):
        rows.append({"num_steps": 2.0})
        with pytest.raises(OSError, match="File too large"):
            table.write(rows[-1])
        rows.append({"num_steps": 3.0, "loss": 1.0})
        with pytest.raises(OSError, match="File too large"):
            table.write(rows[-1])
        assert read(tmp_path / "metrics.csv") == before
    rows.append({"num_steps": 4.0})
    table.write(rows[-1])
    table.close()
    assert table_of(tmp_path) == rows


def test_a_file_that_finds_no_room_for_what_is_appended_is_named_and_is_as_it_was(tmp_path, full_disk):
    with (tmp_path / "events").open("ab", buffering=0) as file:
        append_whole(file, b"kept")
        with full_disk(6), pytest.raises(OSError, match=r"File too large: '.*/events'"):
            append_whole(file, b"lost")
    assert read(tmp_path / "events") == "kept"


def test_a_table_that_somebody_has_replaced_as_spreadsheets_do_is_made_anew_with_the_next_row(tmp_path):
    rows = [{"num_steps": 1.0}]
    table = Table(tmp_path / "metrics.csv", lambda: rows)
    save_text(tmp_path / "metrics.csv", "num_steps;1\n")
    rows.append({"num_steps": 2.0})
    table.write(rows[-1])
    table.close()
    assert table_of(tmp_path) == rows


def test_without_being_asked_for_there_is_no_table(tmp_path):
    with MetricsFile(TrainConfig.default("dqn", "CartPole-v1"), tmp_path, None, pytest.fail) as metrics:
        metrics.write({"num_steps": 1})
    assert set(os.listdir(tmp_path)) == {"metrics.jsonl", "tensorboard"}


@pytest.mark.whole
def test_a_finished_and_resumed_run_has_a_table_of_its_rows(tmp_path):
    run_dir = tmp_path / "run"
    train("dqn", "CartPole-v1", total_steps=600, num_actors=0, csv=True, run_dir=str(run_dir), **SMALL)
    resume(run_dir, total_steps=1_100)
    assert table_of(run_dir) == rows_of(run_dir)
    assert {"loss", "eval_return", "checkpoint_s", "episode_return"} <= {
        name for row in table_of(run_dir) for name in row
    }
    assert read(run_dir / "metrics.csv").count("num_steps") == 1


def test_a_row_whose_event_was_lost_with_the_process_is_told_to_tensorboard_by_the_resumed_run(tmp_path):
    told = [{"num_steps": 200}, {"num_steps": 300}, {"num_steps": 250, "eval_return": 1.0}, {"num_steps": 300}]
    with MetricsFile(CONFIG, tmp_path, None, pytest.fail) as metrics:
        for number, row in enumerate(told):
            metrics.write({**row, "num_updates": number})
    for lost in ({"num_steps": 300, "num_updates": 4, "checkpoint_s": 0.5}, {"num_steps": 350, "num_updates": 5}):
        with (tmp_path / "metrics.jsonl").open("a") as file:
            file.write(json.dumps(lost) + "\n")
    with MetricsFile(CONFIG, tmp_path, 300, pytest.fail) as metrics:
        assert scalars(tmp_path / "tensorboard", "num_updates") == {200: 0, 250: 2, 300: 4}
        metrics.write({"num_steps": 400, "num_updates": 6})
    assert scalars(tmp_path / "tensorboard", "num_updates") == {200: 0, 250: 2, 300: 4, 400: 6}
    assert scalars(tmp_path / "tensorboard", "checkpoint_s") == {300: 0.5}
    assert scalars(tmp_path / "tensorboard", "eval_return") == {250: 1.0}


def test_a_clock_that_was_set_back_changes_nothing_of_what_tensorboard_reads(tmp_path, monkeypatch):
    for now_s, resume_at, steps in ((2e9, None, (100, 200, 300)), (1.9e9, 200, (250,)), (1.9e9, 250, (270,))):
        monkeypatch.setattr(tensorboard, "_now_s", lambda now_s=now_s: now_s)
        with MetricsFile(CONFIG, tmp_path, resume_at, pytest.fail) as metrics:
            for number in steps:
                metrics.write({"num_steps": number, "num_updates": number})
    assert list(scalars(tmp_path / "tensorboard", "num_updates")) == [100, 200, 250, 270]


@pytest.mark.release
def test_events_are_written_without_importing_the_whole_of_their_library_which_can_be_imported_afterwards(tmp_path):
    script = """
import sys
from pathlib import Path
from drivetrain.train.telemetry.sinks.tensorboard import TensorBoard
folder = Path(sys.argv[1])
sink = TensorBoard(folder, None)
sink.write({"num_steps": 7, "loss": 0.5})
sink.close()
assert not [name for name in sys.modules if name.partition(".")[0] in ("tensorboardX", "torch")]
sys.path.insert(0, sys.argv[2])
import tensorboardX
tensorboardX.SummaryWriter(str(folder / "other")).close()
from tensorboard_rows import scalars
(folder / "other").rename(folder.parent / "other")
assert scalars(folder, "loss") == {7: 0.5}
TensorBoard(folder, []).close()
assert tensorboardX.SummaryWriter and "tensorboardX.writer" in sys.modules
"""
    here = str(Path(__file__).parents[1])
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "run"), here], check=True)
