"""Ours with a thread for each core to copy a sample, where everybody may use all cores."""

from drivetrain.bench.replay.layouts import Layout
from drivetrain.bench.replay.peers.entry import Offer, serve
from drivetrain.bench.replay.peers.ours import OurStore, make_replay
from drivetrain.core.machine import num_cores


def make_store(layout: Layout, capacity: int) -> OurStore:
    """A replay of this process's own, its large samples copied by all cores."""
    return OurStore(make_replay(layout, capacity), num_threads=num_cores())


if __name__ == "__main__":
    serve(Offer(make_store))
