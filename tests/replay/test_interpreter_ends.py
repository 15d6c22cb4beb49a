"""Daemon threads that are within a call, or waiting for the GIL after one, when the interpreter ends."""

import pytest
from children import run_script

SETUP = """
import threading, time
import numpy as np
from drivetrain.core.errors import DrivetrainError
from drivetrain.replay import Replay
from drivetrain.replay.limiter import Limiter
replay = Replay(1000, {"x": ((), "int64")})
writer = replay.writer(8)
step = dict(x=np.arange(8), reward=np.zeros(8), terminated=np.zeros(8, bool), truncated=np.zeros(8, bool))
writer.add(**step)
limiter = Limiter(1, tolerance=1)
consumer = limiter.consumer()
def learn():
    sample = replay.sample(8)
    replay.update_priorities(sample.keys, np.ones(8))
def insert():
    writer.add(**step)
def wait():
    try:
        consumer.acquire(timeout_s=0.001)
    except DrivetrainError:
        pass
def always(call):
    while True:
        call()
"""


@pytest.mark.whole
@pytest.mark.parametrize("call", ["learn", "insert", "wait"])
def test_the_process_ends_well(call):
    for _ in range(3):
        started = f"threading.Thread(target=always, args=({call},), daemon=True).start()"
        assert run_script(f"{SETUP}{started}\ntime.sleep(0.3)\nprint('done')").split() == ["done"]
