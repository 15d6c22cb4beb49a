"""What a signal's handler raises reaches a recorded program wherever it was when the signal came."""

import pytest
from programs import profiled_text

from drivetrain.scope import _native


def test_a_signal_that_comes_during_a_garbage_collection_is_not_lost(tmp_path):
    text = """
import gc, signal, time


class Told(Exception):
    pass


def tell(*about):
    raise Told


signal.signal(signal.SIGALRM, tell)
kept = [[] for _ in range(1_000_000)]
gc.disable()  # but for the ones that are asked for
num_told = 0
for _ in range(10):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.003)
        gc.collect()
        deadline = time.monotonic() + 0.2
        while time.monotonic() < deadline:  # where the signal comes later
            pass
    except Told:
        num_told += 1
print(num_told)
"""
    done = profiled_text(tmp_path / "run.scope", text)
    assert done.stdout.decode().strip() == "10"


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_while_a_hook_is_told_of_a_call_is_the_calls(error):
    def told():
        raise error

    recorded = _native.Wrapped(lambda: "called", _native.Span(0), told)
    with pytest.raises(error):
        recorded()
