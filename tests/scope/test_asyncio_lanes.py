"""Tasks of asyncio hold operations across an await, each for itself."""

import asyncio
import subprocess
import sys
import time

import numpy as np
from programs import profiled_text

from drivetrain import scope
from drivetrain.scope.reference import innermost
from drivetrain.scope.trace.events import BEGIN, END, INSTRUMENTS, LANE

BUSY_S = 0.02


def busy(seconds=BUSY_S):
    """Compute for so long, by the clock that the recording uses."""
    end = time.monotonic_ns() + int(seconds * 1e9)
    while time.monotonic_ns() < end:
        pass


def totals(folder):
    """Nanoseconds per operation."""
    sums = {}
    for row in scope.load(folder).breakdown():
        if row.time_class != "idle":
            sums[row.operation] = sums.get(row.operation, 0) + row.raw_ns
    return sums


def test_interleaved_tasks_keep_their_operations_across_an_await(tmp_path):
    async def work(name, turns, asked, given):
        with scope.operation(name):
            for _ in range(turns):
                await asked.acquire()  # the other has its turn now
                busy()
                given.release()

    async def both():
        first, second = asyncio.Semaphore(1), asyncio.Semaphore(0)
        await asyncio.gather(work("a", 4, first, second), work("b", 4, second, first))

    with scope.session(tmp_path / "run"):
        asyncio.run(both())
    spent = totals(tmp_path / "run")
    assert spent["a"] >= 4 * BUSY_S * 1e9
    assert spent["b"] >= 4 * BUSY_S * 1e9, "and nothing of it is the other's"


def test_time_of_others_and_of_the_event_loop_is_not_the_waiting_tasks(tmp_path):
    async def holds():
        with scope.operation("held"):
            await asyncio.sleep(5 * BUSY_S)

    async def works():
        busy(5 * BUSY_S)

    async def both():
        await asyncio.gather(holds(), works())

    with scope.session(tmp_path / "run"):
        asyncio.run(both())
        with scope.operation("afterwards"):
            busy()
    spent = totals(tmp_path / "run")
    assert spent["other"] >= 5 * BUSY_S * 1e9
    assert spent["afterwards"] >= BUSY_S * 1e9
    profile = scope.load(tmp_path / "run")
    thread = profile.trace.threads[0]
    inner = innermost(thread.kind, thread.site).inner
    assert inner[-1] == -1, "nothing is left open"
    sites = [site.name for site in profile.trace.sites]
    held = np.flatnonzero(thread.site == sites.index("held"))
    assert (thread.kind[held[0] : held[-1]] == LANE).sum() >= 2, "others ran in between"


def test_what_is_held_across_an_await_ends_as_what_it_was_entered_by(tmp_path):
    async def holds():
        with scope.operation("held"):
            await asyncio.sleep(0)

    async def several():
        await asyncio.gather(*(holds() for _ in range(4)))

    with scope.session(tmp_path / "run", calibrate_every=0):
        asyncio.run(several())
    trace = scope.load(tmp_path / "run").trace
    (thread,) = trace.threads
    held = (thread.site == [site.name for site in trace.sites].index("held")) & np.isin(thread.kind, [BEGIN, END])
    assert held.sum() == 8
    assert (thread.value[held] == INSTRUMENTS.index("annotation")).all()


def test_what_is_around_the_loop_is_around_its_tasks_and_decorated_coroutines_work(tmp_path):
    @scope.operation("inner")
    async def inner():
        await asyncio.sleep(0)
        busy()

    async def outer():
        busy()
        await inner()

    with scope.session(tmp_path / "run"), scope.operation("outer"):
        asyncio.run(outer())
    spent = totals(tmp_path / "run")
    assert spent["outer"] >= BUSY_S * 1e9
    assert spent["inner"] >= BUSY_S * 1e9


def test_a_generator_that_another_task_ends_leaves_the_task_that_began_it(tmp_path):
    @scope.operation("produced")
    async def produce():
        for number in range(3):
            yield number

    @scope.operation("generated")
    def generate():
        yield from range(3)

    async def close(generator):
        generator.close()

    async def main(around):
        async for _ in produce():
            break  # asyncio closes it in a task of its own
        mine = generate()
        next(mine)
        await asyncio.create_task(close(mine))
        next(around)  # which is entered around the loop
        around.close()
        with scope.phase("later"):
            await asyncio.sleep(0)

    with scope.session(tmp_path / "run"):
        around = generate()
        next(around)
        asyncio.run(main(around))
        with scope.phase("afterwards"):
            pass
    rows = scope.load(tmp_path / "run").breakdown()
    assert {row.operation for row in rows if row.phase} == {"other"}
    assert {row.operation for row in rows} >= {"produced", "generated"}


def test_a_profiled_program_with_asyncio_has_lanes_and_waits_for_its_next_event(tmp_path):
    folder = tmp_path / "run.scope"
    text = """
import asyncio, inspect
from drivetrain import scope

async def work(name):
    with scope.operation(name):
        await asyncio.sleep(0.02)
        raise ValueError(name)

async def main():
    found = await asyncio.gather(work("a"), work("b"), return_exceptions=True)
    assert [str(error) for error in found] == ["a", "b"]
    task = asyncio.create_task(work("c"))
    await asyncio.sleep(0)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        pass

asyncio.run(main())
"""
    profiled_text(folder, text)
    profile = scope.load(folder)
    assert {"a", "b", "c"} <= totals(folder).keys()
    lanes = {int(site) for thread in profile.trace.threads for site in thread.site[thread.kind == LANE]}
    assert len(lanes) >= 4, "the thread's own, and one of each task"
    assert any(row.time_class == "wait" for row in profile.breakdown()), "the event loop's"


def test_recording_does_not_import_asyncio():
    code = "import sys; from drivetrain import scope; print('asyncio' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "False"


def test_a_session_that_begins_in_a_coroutine_is_left_by_what_its_task_leaves(tmp_path):
    async def another():
        with scope.operation("another's"):
            await asyncio.sleep(0)
            busy()

    async def main(folder):
        with scope.session(folder):
            with scope.operation("held"):
                await asyncio.sleep(0)
            await asyncio.create_task(another())
            busy()
        return scope.load(folder)

    async def twice():  # each in a task of its own, and with what the other's has been
        return [await asyncio.create_task(main(tmp_path / name)) for name in ("one", "two")]

    for profile in asyncio.run(twice()):
        (thread,) = profile.trace.threads
        assert innermost(thread.kind, thread.site).inner[-1] == -1, "nothing is left open"
        spent = {row.operation: row.raw_ns for row in profile.breakdown() if row.time_class == "python"}
        assert spent["other"] >= BUSY_S * 1e9
        assert spent["another's"] >= BUSY_S * 1e9
        assert "held" in spent
