"""What crosses between processes: weights, and reports that never hold up an actor."""

import fcntl
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from drivetrain.core.errors import SegmentError
from drivetrain.train.config import TrainConfig
from drivetrain.train.ledger.rules import START
from drivetrain.train.processes.reports import Inbox, Reports
from drivetrain.train.processes.topology import Memory
from drivetrain.train.runs.requirements import describe
from drivetrain.train.weights import Weights


def test_readers_get_the_latest_weights_and_how_many_updates_are_behind_them():
    source = Weights.create(5)
    reader = Weights.attach(source.handle(), 5)
    assert not reader.refresh()
    for number in (1, 2, 3):
        source.publish(np.full(5, number, np.float32), 10 * number)
    assert reader.refresh()
    assert reader.vector.tolist() == [3.0] * 5
    assert reader.num_updates == 30
    assert not reader.refresh()


def test_reports_arrive_in_order():
    inbox = Inbox()
    reports = Reports(fd=inbox.writing_fd)
    assert reports.offer({"number": 1})
    reports.send({"number": 2})
    assert inbox.read() == ([{"number": 1}, {"number": 2}], True)
    assert inbox.read() == ([], True)
    inbox.close_writing()
    assert inbox.read() == ([], False)
    inbox.close()


def test_an_offer_to_a_full_pipe_is_lost_at_once_and_whole():
    inbox = Inbox()
    reports = Reports(fd=inbox.writing_fd)
    num_kept = 0
    while reports.offer({"text": "x" * 1_000}):
        num_kept += 1
    assert num_kept > 10
    inbox.close_writing()
    assert [report["text"] for report in inbox.read()[0]] == ["x" * 1_000] * num_kept
    inbox.close()


def test_what_a_child_said_last_is_read_to_its_end_however_much_its_pipe_holds():
    inbox = Inbox()
    fcntl.fcntl(inbox.writing_fd, fcntl.F_SETPIPE_SZ, 2**18)  # the usual size where pages are of 16 KiB
    reports = Reports(fd=inbox.writing_fd)
    reports.send({"final_episodes": [[1.0, 500, 0.0]] * 9_000})
    reports.send({"reason": "the end"})
    inbox.close_writing()
    assert [list(report) for report in inbox.read()[0]] == [["final_episodes"], ["reason"]]
    inbox.close()


def test_an_offer_to_a_dead_supervisor_is_lost_and_harmless():
    inbox = Inbox()
    os.close(inbox.fd)
    assert not Reports(fd=inbox.writing_fd).offer({"number": 1})
    inbox.close_writing()


@pytest.mark.parametrize("failing", ["Weights.create", "load_checkpoint", "first_published"])
def test_memory_of_a_run_that_cannot_be_had_whole_is_let_go_at_once(monkeypatch, failing):
    def refuse(*arguments):
        raise SegmentError("no room")

    monkeypatch.setattr(f"drivetrain.train.processes.topology.{failing}", refuse)
    monkeypatch.setattr("drivetrain.train.processes.topology.load_replay", lambda *_, **options: None)
    config = (
        TrainConfig.default("dqn", "CartPole-v1").override(deterministic=True, num_actors=1, capacity=100).resolved()
    )
    interface = describe(config)
    with pytest.raises(SegmentError) as caught:  # whose traceback holds what was made
        Memory(config, interface, replace(START, num_resumes=int(failing == "load_checkpoint")), Path("absent"))
    held = [os.readlink(fd) for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()]
    assert not [file for file in held if "replay" in file or "rollout" in file], "its largest parts"
    assert caught.tb
