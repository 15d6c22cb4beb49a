"""Opens the contenders of a group, and times them in turn: a slow minute of the machine hits all alike."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from drivetrain.bench.process import Rival
from drivetrain.bench.replay.groups import Group
from drivetrain.bench.replay.timing import Timing
from drivetrain.bench.turns import in_turn
from drivetrain.bench.worker import Start, Worker, started
from drivetrain.core.errors import RunError

OPEN_TIMEOUT_S = 600.0
MEASURE_TIMEOUT_S = 120.0  # the first time of an operation may compile it

Answer = TypeVar("Answer")


@dataclass
class Measured:
    """What came of one group.

    Attributes:
        timings: Operation -> contender -> one timing per round.
        memory_nbytes: Contender -> what its process grew by.
        missing: Contender -> operation ("" for all of them) -> why it does not have it.
        failed: Contender -> what went wrong; it has no timings then.
    """

    timings: dict[str, dict[str, list[Timing]]] = field(default_factory=dict[str, dict[str, list[Timing]]])
    memory_nbytes: dict[str, int] = field(default_factory=dict[str, int])
    missing: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    failed: dict[str, str] = field(default_factory=dict[str, str])

    def give_up(self, name: str, error: RunError) -> None:
        """A contender takes no further part; a failure of ours is an error.

        Raises:
            RunError: It was ours.
        """
        if name == "ours":
            raise error
        self.failed[name] = str(error)
        for of_operation in self.timings.values():
            of_operation.pop(name, None)


def measure_group(
    group: Group,
    rivals: Sequence[Rival],
    *,
    num_rounds: int,
    slice_s: float,
    start: Start = Worker.start,
) -> Measured:
    """Time everybody at every operation of a group, `num_rounds` times in turn.

    Raises:
        RunError: Our own process failed.
    """
    measured = Measured()
    with started({rival.name: rival for rival in rivals}, start) as workers:
        here = open_all(group, workers, measured)
        for phase in group.phases:
            for number in range(num_rounds):
                for operation in phase:
                    for name in in_turn(here, number):
                        time_one(name, workers[name], operation, slice_s, measured)
    for name, reason in measured.failed.items():
        print(f"  {name} failed: {reason}")
    return measured


def open_all(group: Group, workers: Mapping[str, Worker], measured: Measured) -> list[str]:
    """Have everybody open the group's store at the same time; who has it."""
    for name, worker in workers.items():
        attempt(measured, name, lambda worker=worker: worker.send(group.request))
    here: list[str] = []
    for name, worker in workers.items():
        if name in measured.failed:
            continue
        answer = attempt(measured, name, lambda worker=worker: worker.receive(OPEN_TIMEOUT_S))
        if answer is None:
            continue
        if "missing" in answer:
            measured.missing[name] = {"": answer["missing"]}
            continue
        here.append(name)
        if "memory_nbytes" in answer:
            measured.memory_nbytes[name] = answer["memory_nbytes"]
    return here


def time_one(name: str, worker: Worker, operation: str, slice_s: float, measured: Measured) -> None:
    """One contender at one operation, unless it failed before or does not have it."""
    if name in measured.failed or operation in measured.missing.get(name, {}):
        return
    request = {"do": "measure", "name": operation, "slice_s": slice_s}
    answer = attempt(measured, name, lambda: worker.ask(request, timeout_s=MEASURE_TIMEOUT_S))
    if answer is None:
        return
    if "missing" in answer:
        measured.missing.setdefault(name, {})[operation] = answer["missing"]
        return
    measured.timings.setdefault(operation, {}).setdefault(name, []).append(Timing(**answer))


def attempt(measured: Measured, name: str, act: Callable[[], Answer]) -> Answer | None:
    """What `act` returns; None where the contender failed at it."""
    try:
        return act()
    except RunError as error:
        measured.give_up(name, error)
        return None
