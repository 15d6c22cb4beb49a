"""Ours with obs and next_obs as arrays of their own, the default: no contender, but beside ours with joined stacks."""

from drivetrain.bench.replay.layouts import Layout
from drivetrain.bench.replay.peers.entry import Offer, serve
from drivetrain.bench.replay.peers.ours import OurStore, make_replay


def make_store(layout: Layout, capacity: int) -> OurStore:
    """A replay of this process's own, whose samples hold each frame as often as stacks show it."""
    return OurStore(make_replay(layout, capacity), join_stacks=False)


if __name__ == "__main__":
    serve(Offer(make_store))
