"""What we aim at in each case of `drivetrain bench replay`."""

from drivetrain.bench.replay.groups import Group
from drivetrain.bench.replay.layouts import LAYOUTS
from drivetrain.bench.report import BEST_PEER, Target

OTHERWISE = 2.0  # ahead of the best peer, in every other cell
AHEAD = {"update 256": 10.0, "insert 64": 5.0}
LARGE = 2**20
LARGE_SAMPLE = 6.0
FLOOR = 1.8
FRAMES = {"84x84x4 pairs": 2.0, "84x84x4 shared": 3.0}  # at "sample 256"


def targets_of(group: Group, operation: str) -> list[Target]:
    """The targets of one operation of a group; trees alone have none."""
    if group.is_tree:
        return []
    layout, capacity = LAYOUTS[group.request["layout"]], group.request["capacity"]
    if layout.frames:
        aim = FRAMES[layout.name] if operation == "sample 256" else OTHERWISE
        return [Target(against=BEST_PEER, aim=aim)]
    if operation == "sample 256" and capacity == LARGE:
        return [
            Target(against=BEST_PEER, aim=LARGE_SAMPLE),
            Target(against="floor", aim=FLOOR, form="within"),
        ]
    return [Target(against=BEST_PEER, aim=AHEAD.get(operation, OTHERWISE))]
