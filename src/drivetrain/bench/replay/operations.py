"""The measured operations of a store, by name: "insert 64", "sample 256", "update 256"."""

import itertools
from collections.abc import Callable, Mapping

import numpy as np

from drivetrain.bench.replay.layouts import Layout, make_priorities, make_steps
from drivetrain.bench.replay.store import Store, TreeStore
from drivetrain.bench.replay.timing import Operation
from drivetrain.bench.serving import NotOffered

ALPHA, BETA = 0.6, 0.4
NUM_PRIORITIES = 16  # different ones to update with


def insert_operation(store: Store, layout: Layout, num_envs: int) -> Operation:
    """Adding steps, one after the other of endless episodes."""
    inserter = store.inserter(num_envs)
    stream = itertools.cycle([inserter.prepare(step) for step in make_steps(layout, num_envs, seed=num_envs)])
    return Operation(lambda calls: [(next(stream),) for _ in range(calls)], inserter.insert)


def sample_operation(store: Store, _: Layout, batch_size: int) -> Operation:
    """Drawing a batch."""
    return Operation(lambda calls: [()] * calls, store.sampler(batch_size))


def update_operation(store: Store, _: Layout, batch_size: int) -> Operation:
    """Updating a batch that was drawn just before, one at a time: more would be colder in the caches."""
    sample = store.sampler(batch_size)
    updater = store.updater(batch_size)
    rng = np.random.default_rng(batch_size)
    priorities = itertools.cycle([updater.prepare(make_priorities(rng, batch_size)) for _ in range(NUM_PRIORITIES)])
    return Operation(lambda calls: [(sample(), next(priorities)) for _ in range(calls)], updater.update, most_calls=1)


OPERATIONS: Mapping[str, Callable[[Store, Layout, int], Operation]] = {
    "insert": insert_operation,
    "sample": sample_operation,
    "update": update_operation,
}


def make_operation(store: Store, layout: Layout, name: str) -> Operation:
    """The operation of a name such as "sample 256".

    Raises:
        NotOffered: The store does not have it.
    """
    kind, _, size = name.partition(" ")
    return OPERATIONS[kind](store, layout, int(size))


def make_tree_operation(tree: TreeStore, name: str) -> Operation:
    """The operation "find 256" or "update 256" of a tree alone."""
    kind, _, size = name.partition(" ")
    prepare, call = (tree.finder if kind == "find" else tree.setter)(int(size))
    return Operation(lambda calls: [(prepare(),) for _ in range(calls)], call)


def fill(insert: Operation, num_calls: int) -> None:
    """Insert so many times."""
    for _ in range(num_calls):
        for arguments in insert.prepare(1):
            insert.call(*arguments)


def settle(store: Store, batch_size: int, num_batches: int) -> None:
    """Give sampled rows priorities of their own; nothing where there are no priorities."""
    try:
        updater = store.updater(batch_size)
    except NotOffered:
        return
    sample, rng = store.sampler(batch_size), np.random.default_rng(0)
    for _ in range(num_batches):
        updater.update(sample(), updater.prepare(make_priorities(rng, batch_size)))
