"""Several threads or processes on one buffer: what each of them does, and how often per second.

    peers/entry.py -> Crowd.rate(how, members, seconds) -> one thread or process per member
                        each waits for the common start, plays its role, and says how often

All members begin at one moment of the monotonic clock, which all processes of a machine share.
"""

import itertools
import multiprocessing
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from drivetrain.bench.replay.layouts import Layout, make_priorities
from drivetrain.bench.replay.operations import insert_operation
from drivetrain.bench.replay.store import Company, Sharing, Store
from drivetrain.bench.serving import NotOffered

HEAD_START_S = 0.1  # until the common start, for everybody to get ready
FEED_KEYS_EVERY = 32  # a feeder draws new keys so often, and inserts and updates the rest of the time
FEED_ENVS, FEED_BATCH = 64, 256

Turn = Callable[[], object]  # one call, or one round of calls, of a role


def insert_role(store: Store, layout: Layout, num_envs: int) -> Turn:
    """An actor: inserts a step."""
    operation = insert_operation(store, layout, num_envs)
    return lambda: operation.call(*operation.prepare(1)[0])


def sample_role(store: Store, _: Layout, batch_size: int) -> Turn:
    """Draws a batch."""
    return store.sampler(batch_size)


def learn_role(store: Store, _: Layout, batch_size: int) -> Turn:
    """A learner: draws a batch and updates it."""
    sample, updater = store.sampler(batch_size), store.updater(batch_size)
    rng = np.random.default_rng(threading.get_native_id())
    priorities = itertools.cycle([updater.prepare(make_priorities(rng, batch_size)) for _ in range(16)])
    return lambda: updater.update(sample(), next(priorities))


def feed_role(store: Store, layout: Layout, _: int) -> Turn:
    """Inserts a step and updates a batch, without the work of drawing one each time."""
    insert = insert_role(store, layout, FEED_ENVS)
    sample, updater = store.sampler(FEED_BATCH), store.updater(FEED_BATCH)
    priorities = updater.prepare(make_priorities(np.random.default_rng(0), FEED_BATCH))
    drawn: list[Any] = []
    count = itertools.count()

    def turn() -> None:
        if next(count) % FEED_KEYS_EVERY == 0:
            drawn[:] = [sample()]
        insert()
        updater.update(drawn[0], priorities)

    return turn


ROLES: Mapping[str, Callable[[Store, Layout, int], Turn]] = {
    "insert": insert_role,
    "sample": sample_role,
    "learn": learn_role,
    "feed": feed_role,
}


def make_turn(store: Store, layout: Layout, role: str) -> Turn:
    """The turn of a role such as "learn 256" or "feed"."""
    kind, _, size = role.partition(" ")
    return ROLES[kind](store, layout, int(size or 0))


def play(turn: Turn, start: float, seconds: float) -> dict[str, float]:
    """Take turns from `start` on for `seconds`, one at least: how many, in what time, for how much CPU time.

    The CPU time is that of the calling thread.
    """
    turn()  # whatever a first call prepares
    while time.monotonic() < start:
        time.sleep(0.001)
    cpu, began, now, turns = time.thread_time(), time.monotonic(), 0.0, 0
    while now < start + seconds:
        turn()
        turns += 1
        now = time.monotonic()
    return {"turns": turns, "seconds": now - began, "cpu_s": time.thread_time() - cpu}


def member_main(join: Callable[[Any], Store], invitation: Any, layout: Layout, connection: Connection) -> None:
    """A member process: joins, and plays the roles it is sent until the other side hangs up."""
    store = join(invitation)
    turns: dict[str, Turn] = {}
    connection.send("here")
    while True:
        try:
            role, start, seconds = connection.recv()
        except EOFError:
            return
        if role not in turns:
            turns[role] = make_turn(store, layout, role)
        connection.send(play(turns[role], start, seconds))


@dataclass
class Crowd:
    """The buffers of one contender, and the processes that joined them."""

    layout: Layout
    capacity: int
    sharing: Sharing
    fill: Callable[[Store, Layout, int], object]
    companies: dict[int, Company] = field(default_factory=dict[int, Company])
    processes: dict[int, list[Connection]] = field(default_factory=dict[int, list[Connection]])

    def company(self, number: int) -> Company:
        """The buffer of a number, made and filled when first asked for."""
        if number not in self.companies:
            company = self.sharing.make(self.layout, self.capacity)
            self.fill(company.view(), self.layout, self.capacity)
            self.companies[number] = company
        return self.companies[number]

    def rate(self, how: str, members: Sequence[Mapping[str, Any]], seconds: float) -> list[dict[str, float]]:
        """Have every member {"role", "buffer"} play at once; what each did.

        Args:
            how: "threads" of this process, or "processes".
            members: The role of each, and the number of the buffer it plays on.
            seconds: How long.
        """
        run = self.by_threads if how == "threads" else self.by_processes
        return run(members, seconds)

    def by_threads(self, members: Sequence[Mapping[str, Any]], seconds: float) -> list[dict[str, float]]:
        """Each member a thread with a view of its own."""
        if not self.sharing.threads:
            raise NotOffered("not made for several threads")
        turns = [make_turn(self.company(m["buffer"]).view(), self.layout, m["role"]) for m in members]
        results: list[dict[str, float]] = [{} for _ in members]
        start = time.monotonic() + HEAD_START_S

        def run(index: int) -> None:
            results[index] = play(turns[index], start, seconds)

        threads = [threading.Thread(target=run, args=(index,)) for index in range(len(members))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results

    def by_processes(self, members: Sequence[Mapping[str, Any]], seconds: float) -> list[dict[str, float]]:
        """Each member a process; those of earlier calls are used again."""
        taken: dict[int, int] = {}
        connections: list[Connection] = []
        for member in members:
            number = member["buffer"]
            index = taken.get(number, 0)
            taken[number] = index + 1
            joined = self.processes.setdefault(number, [])
            if index == len(joined):
                joined.append(self.invite(self.company(number).invitation()))
            connections.append(joined[index])
        start = time.monotonic() + HEAD_START_S
        for connection, member in zip(connections, members, strict=True):
            connection.send((member["role"], start, seconds))
        return [connection.recv() for connection in connections]

    def invite(self, invitation: Any) -> Connection:
        """Start a process that joins a buffer, and wait until it is there."""
        context: Any = multiprocessing.get_context(self.sharing.start)
        ours, theirs = context.Pipe()
        arguments = (self.sharing.join, invitation, self.layout, theirs)
        context.Process(target=member_main, args=arguments, daemon=True).start()
        theirs.close()
        assert ours.recv() == "here"
        return ours
