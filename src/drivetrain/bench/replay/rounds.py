"""Opens the contenders of a group, and times them in turn: a slow minute of the machine hits all alike."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from drivetrain.bench.process import Rival
from drivetrain.bench.replay.groups import Group
from drivetrain.bench.replay.timing import Timing
from drivetrain.bench.turns import in_turn
from drivetrain.bench.worker import Start, Worker, started
from drivetrain.core.errors import RunError
from drivetrain.core.printable import printable

OPEN_TIMEOUT_S = 600.0
MEASURE_TIMEOUT_S = 120.0  # the first time of an operation may compile it

Answer = TypeVar("Answer")
Requests = Mapping[str, Mapping[str, Any]]
"""Operations, or scenes, each with what asks for it."""


@dataclass
class Measured:
    """What came of one group.

    Attributes:
        rounds: Operation -> contender -> a Timing of each round; or scene -> contender -> its members' turns of each.
        memory_nbytes: Contender -> what its process grew by.
        missing: Contender -> operation, or scene ("" for all of them) -> why it does not have it.
        failed: Contender -> what went wrong; it has no rounds then.
        logs: Contender that failed -> the last lines that it wrote.
    """

    rounds: dict[str, dict[str, list[Any]]] = field(default_factory=dict[str, dict[str, list[Any]]])
    memory_nbytes: dict[str, int] = field(default_factory=dict[str, int])
    missing: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    failed: dict[str, str] = field(default_factory=dict[str, str])
    logs: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def give_up(self, name: str, error: RunError) -> None:
        """A contender takes no further part; a failure of ours is an error.

        Raises:
            RunError: It was ours.
        """
        if name == "ours":
            raise error
        self.failed[name] = str(error)
        self.logs[name] = getattr(error, "__notes__", [])
        for of_one in self.rounds.values():
            of_one.pop(name, None)


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
    phases = [{name: {"do": "measure", "name": name, "slice_s": slice_s} for name in phase} for phase in group.phases]
    return measure(
        group,
        phases,
        rivals,
        lambda answer: Timing(**answer),
        num_rounds=num_rounds,
        timeout_s=MEASURE_TIMEOUT_S,
        start=start,
    )


def measure(
    group: Group,
    phases: Sequence[Requests],
    rivals: Sequence[Rival],
    read: Callable[[Mapping[str, Any]], Any],
    *,
    num_rounds: int,
    timeout_s: float,
    start: Start = Worker.start,
) -> Measured:
    """Ask everybody for everything of a phase, `num_rounds` times in turn, and then for the next.

    `read` makes of an answer what is kept of it.

    Raises:
        RunError: Our own process failed.
    """
    measured = Measured()
    with started({rival.name: rival for rival in rivals}, start) as workers:
        here = open_all(group, workers, measured)
        for phase in phases:
            for number in range(num_rounds):
                for what, request in phase.items():
                    for name in in_turn(here, number):
                        answer = ask_one(name, workers[name], what, request, timeout_s, measured)
                        if answer is not None:
                            measured.rounds.setdefault(what, {}).setdefault(name, []).append(read(answer))
    for name, reason in measured.failed.items():
        print(f"  {name} failed: {reason}")
        for line in measured.logs[name]:
            print(f"    {printable(line)}")
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


def ask_one(
    name: str, worker: Worker, what: str, request: Mapping[str, Any], timeout_s: float, measured: Measured
) -> dict[str, Any] | None:
    """A contender's answer; None where it has failed, or does not have what is asked for."""
    if name in measured.failed or what in measured.missing.get(name, {}):
        return None
    answer = attempt(measured, name, lambda: worker.ask(request, timeout_s=timeout_s))
    if answer is not None and "missing" in answer:
        measured.missing.setdefault(name, {})[what] = answer["missing"]
        return None
    return answer


def attempt(measured: Measured, name: str, act: Callable[[], Answer]) -> Answer | None:
    """What `act` returns; None where the contender failed at it."""
    try:
        return act()
    except RunError as error:
        measured.give_up(name, error)
        return None
