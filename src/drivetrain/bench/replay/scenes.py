"""Several on one buffer: which scenes are played, by how many, and the rounds that measure them.

throughput    1, 2, 4, ... learners, or actors, as threads or as processes: calls of all together
contention    one process inserts and updates, another samples: each alone, both on one buffer,
and both at once on buffers of their own, which is what the machine alone takes
actors        the paper's synchronisation benchmark: actors insert single steps of Hopper's
shapes into 10^6 rows, half as many learners sample and update 100
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from drivetrain.bench.process import Rival
from drivetrain.bench.replay.groups import Group, power
from drivetrain.bench.replay.rounds import Measured, measure

ACTORS = (1, 2, 4, 8, 12, 16, 20)  # the paper's are those from 4 on
FEEDER, SAMPLER = {"role": "feed", "buffer": 0}, {"role": "sample 256", "buffer": 0}


@dataclass(frozen=True, kw_only=True)
class Scene:
    """Members that play at once, on one buffer or several."""

    name: str
    how: str
    members: Sequence[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Play:
    """Scenes on the same buffers: a group of the report.

    Attributes:
        group: What is opened, under which heading.
        scenes: Played in turn, in every round.
        seconds: How long each scene.
    """

    group: Group
    scenes: Sequence[Scene]
    seconds: float = 0.5


def counted(count: int, things: str) -> str:
    """A number of things."""
    singular = {"processes": "process"}.get(things, things.removesuffix("s"))
    return f"{count} {singular if count == 1 else things}"


def several(role: str, count: int, how: str) -> Scene:
    """So many members of one role."""
    return Scene(name=f"{role}, {counted(count, how)}", how=how, members=[{"role": role, "buffer": 0}] * count)


def crowd_group(name: str, layout: str, capacity: int) -> Group:
    """A buffer that several will use."""
    name = f"{name}, {layout}, {power(capacity)} rows"
    return Group(name=name, request={"do": "open crowd", "layout": layout, "capacity": capacity}, phases=())


def throughput(most: int, capacity: int = 2**20) -> Play:
    """Learners and actors in growing numbers, up to `most`."""
    counts = [count for count in (1, 2, 4, 8, 16, 32, 64) if count < most] + [most]
    scenes = [
        several(role, count, how)
        for role in ("learn 256", "insert 64")
        for how in ("threads", "processes")
        for count in counts
    ]
    return Play(group=crowd_group("throughput", "obs 4", capacity), scenes=scenes)


def contention(capacity: int = 2**20) -> Play:
    """One that inserts and updates beside one that samples."""
    elsewhere = {**SAMPLER, "buffer": 1}
    scenes = [
        Scene(name="feeder alone", how="processes", members=[FEEDER]),
        Scene(name="sampler alone", how="processes", members=[SAMPLER]),
        Scene(name="together", how="processes", members=[FEEDER, SAMPLER]),
        Scene(name="apart", how="processes", members=[FEEDER, elsewhere]),
    ]
    return Play(group=crowd_group("contention", "obs 4", capacity), scenes=scenes)


def actors_and_learners(most: int) -> Play:
    """The paper's mixes that fit into `most` processes, one actor and one learner at least."""
    mixes = [(actors, max(1, actors // 2)) for actors in ACTORS]
    scenes = [
        Scene(
            name=f"{counted(actors, 'actors')}, {counted(learners, 'learners')}",
            how="processes",
            members=[{"role": "insert 1", "buffer": 0}] * actors + [{"role": "learn 100", "buffer": 0}] * learners,
        )
        for actors, learners in mixes
        if actors + learners <= max(2, most)
    ]
    return Play(group=crowd_group("actors and learners", "obs 11", 10**6), scenes=scenes)


Turns = list[dict[str, float]]  # per member: turns, seconds, cpu_s


def measure_play(play: Play, rivals: Sequence[Rival], *, num_rounds: int) -> Measured:
    """Have everybody play every scene, `num_rounds` times in turn.

    Raises:
        RunError: Our own process failed.
    """
    scenes = {
        scene.name: {"do": "rate", "how": scene.how, "members": list(scene.members), "seconds": play.seconds}
        for scene in play.scenes
    }
    timeout_s = 120.0 + 10 * play.seconds  # the first time, buffers are filled and processes started
    return measure(play.group, [scenes], rivals, itemgetter("members"), num_rounds=num_rounds, timeout_s=timeout_s)
