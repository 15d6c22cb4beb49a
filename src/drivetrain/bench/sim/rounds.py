"""Opens a scene in every contender's process and times them in turn: a slow minute of the machine hits all alike."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from drivetrain.bench.process import Rival
from drivetrain.bench.sim.peers.entry import Slice
from drivetrain.bench.sim.scene import Scene
from drivetrain.bench.turns import in_turn
from drivetrain.bench.worker import Start, Worker, started
from drivetrain.core.errors import RunError

OPEN_TIMEOUT_S = 300.0
MEASURE_TIMEOUT_S = 120.0


@dataclass
class Measured:
    """What came of one scene.

    Attributes:
        slices: Contender -> one slice per round.
        missing: Contender -> why it does not have the scene.
        failed: Contender -> what went wrong.
    """

    slices: dict[str, list[Slice]] = field(default_factory=dict[str, list[Slice]])
    missing: dict[str, str] = field(default_factory=dict[str, str])
    failed: dict[str, str] = field(default_factory=dict[str, str])

    def rates(self, contender: str) -> list[float]:
        """Million steps per CPU-second, one per round."""
        return [each.num_steps / each.cpu_s / 1e6 for each in self.slices.get(contender, []) if each.cpu_s > 0]

    def wall_rates(self, contender: str) -> list[float]:
        """Million steps per second of the clock, one per round."""
        return [each.num_steps / each.wall_s / 1e6 for each in self.slices.get(contender, [])]


def measure(
    scenes: Mapping[str, tuple[Rival, Scene]], *, num_rounds: int, slice_s: float, start: Start = Worker.start
) -> Measured:
    """Each contender at its form of a scene, `num_rounds` times in turn, every one in a process of its own."""
    measured = Measured()
    with started({name: rival for name, (rival, _) in scenes.items()}, start) as workers:
        for name, (_, scene) in scenes.items():
            send(measured, name, workers[name], scene.as_request())
        here = [name for name, worker in workers.items() if answer(measured, name, worker, OPEN_TIMEOUT_S) is not None]
        for number in range(num_rounds):
            for name in in_turn(here, number):
                time_one(measured, name, workers[name], slice_s)
    return measured


def send(measured: Measured, name: str, worker: Worker, request: Mapping[str, Any]) -> None:
    """Ask a contender, unless it failed before."""
    try:
        if name not in measured.failed:
            worker.send(request)
    except RunError as error:
        measured.failed[name] = str(error)


def answer(measured: Measured, name: str, worker: Worker, timeout_s: float) -> dict[str, Any] | None:
    """A contender's answer; None where there is none or it says that it does not have the scene."""
    if name in measured.failed:
        return None
    try:
        said = worker.receive(timeout_s)
    except RunError as error:
        measured.failed[name] = str(error)
        return None
    if "missing" in said:
        measured.missing[name] = said["missing"]
        return None
    return said


def time_one(measured: Measured, name: str, worker: Worker, slice_s: float) -> None:
    """One slice of one contender, unless it failed before."""
    send(measured, name, worker, {"do": "measure", "slice_s": slice_s})
    said = answer(measured, name, worker, MEASURE_TIMEOUT_S)
    if said is not None:
        measured.slices.setdefault(name, []).append(Slice(**said))


def everybody(rivals: Sequence[Rival], scene: Scene) -> dict[str, tuple[Rival, Scene]]:
    """All contenders at the same scene."""
    return {rival.name: (rival, scene) for rival in rivals}
