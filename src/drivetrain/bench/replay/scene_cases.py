"""The rows of the tables of several on one buffer."""

from collections.abc import Callable, Mapping, Sequence

from drivetrain.bench.replay.rounds import Measured
from drivetrain.bench.replay.scenes import Play, Scene, Turns
from drivetrain.bench.report import Case, Target

PER_SECOND = "calls/s"
UNDISTURBED = 0.75  # of the rate alone, that each of two keeps on one buffer
APART = (
    "apart: both at once on buffers of their own. What is lost there is the machine's doing: memory "
    "and cores that the two processes share anyway"
)


def total_rate(turns: Turns) -> float:
    """Calls per second of all members together."""
    return sum(member["turns"] / member["seconds"] for member in turns)


def rate_of(members: slice) -> Callable[[Turns], float]:
    """Calls per second of some members together."""
    return lambda turns: total_rate(turns[members])


def throughput_cases(play: Play, measured: Measured) -> list[Case]:
    """One case per scene: all members together."""
    scenes = [scene for scene in play.scenes if measured.rounds.get(scene.name)]
    return [scene_case(play, scene, "", total_rate, measured) for scene in scenes]


def actor_cases(play: Play, measured: Measured) -> list[Case]:
    """Two cases per scene: what the actors insert, and what the learners learn."""
    cases: list[Case] = []
    for scene in play.scenes:
        if not measured.rounds.get(scene.name):
            continue
        num_actors = sum(member["role"].startswith("insert") for member in scene.members)
        for suffix, members in ((": inserts", slice(num_actors)), (": updates", slice(num_actors, None))):
            cases.append(scene_case(play, scene, suffix, rate_of(members), measured))
    return cases


def contention_cases(play: Play, measured: Measured) -> list[Case]:
    """What each of the two keeps of its rate, beside its rates alone and apart."""
    played = measured.rounds
    if "ours" not in played.get("together", {}):
        return []
    group = play.group.name
    roles = [
        ("insert 64 and update 256, beside a sampler", slice(0, 1), "feeder alone"),
        ("sample 256, beside inserts and updates", slice(1, 2), "sampler alone"),
    ]
    return [
        Case(
            name=f"{group}: {name} [{PER_SECOND}]",
            unit=PER_SECOND,
            better="higher",
            group=group,
            samples=rates(played["together"], rate_of(member)),
            references={
                "ours, alone": rates(played[alone], total_rate)["ours"],
                "ours, apart": rates(played["apart"], rate_of(member))["ours"],
            },
            targets=[Target(against="ours, alone", aim=UNDISTURBED)],
            notes=[APART, *notes_of("together", "processes", measured)],
            details={scene: {who: list(each) for who, each in played[scene].items()} for scene in played},
        )
        for name, member, alone in roles
    ]


def rates(played: Mapping[str, Sequence[Turns]], rate: Callable[[Turns], float]) -> dict[str, list[float]]:
    """One rate per round of each contender."""
    return {name: [rate(turns) for turns in each] for name, each in played.items()}


def scene_case(play: Play, scene: Scene, suffix: str, rate: Callable[[Turns], float], measured: Measured) -> Case:
    """One scene in calls per second."""
    group, played = play.group.name, measured.rounds[scene.name]
    return Case(
        name=f"{group}: {scene.name}{suffix} [{PER_SECOND}]",
        unit=PER_SECOND,
        better="higher",
        group=group,
        samples=rates(played, rate),
        notes=notes_of(scene.name, scene.how, measured),
        details={who: list(each) for who, each in played.items()},
    )


def notes_of(scene: str, how: str, measured: Measured) -> list[str]:
    """Who does not take part, and why."""
    notes: list[str] = []
    for name, reasons in measured.missing.items():
        if "" in reasons:
            notes.append(f"{name}: {reasons['']}")
        elif scene in reasons:
            notes.append(f"{name}, {how}: {reasons[scene]}")
    return notes
