"""Ours as it is by default, which compares stacks and samples two arrays: no contender, but beside ours."""

from drivetrain.bench.replay.layouts import Layout
from drivetrain.bench.replay.peers.entry import Offer, serve
from drivetrain.bench.replay.peers.ours import OurStore, make_replay


def make_store(layout: Layout, capacity: int) -> OurStore:
    """A replay of this process's own."""
    return OurStore(make_replay(layout, capacity), join_stacks=False, check_obs=True)


if __name__ == "__main__":
    serve(Offer(make_store))
