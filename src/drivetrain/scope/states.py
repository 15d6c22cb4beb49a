"""States: pairs of operation and class of time with a phase, as one small integer each.

sites of a trace -> StateSpace: which part each site sets, and how states are numbered
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivetrain.core.errors import FileFormatError, InvalidInput
from drivetrain.scope.sites import CLASSES, FORWARD, OPERATIONS, UNDECIDED, UNRECORDED, Site


class State(NamedTuple):
    """What a thread is in at a time."""

    operation: str
    time_class: str
    phase: str


BASE = State("other", "python", "")
"""A thread outside all sites."""
IDLE = State("other", "idle", "")
"""Before a thread began, and after it ended."""
UNKNOWN = State(UNRECORDED.operation, UNRECORDED.time_class, "")
"""While instruments of the thread were muted."""


_MOST = 2**31


@dataclass(frozen=True)
class StateSpace:
    """Operations, classes and phases of a trace; code = (operation, class, phase) in mixed radix.

    Raises:
        InvalidInput: Codes would not fit an int32.
    """

    sites: tuple[Site, ...]

    def __post_init__(self) -> None:
        if self.size > _MOST:
            raise InvalidInput(
                f"recording: expected at most {_MOST:,} combinations of an operation, a class and a phase, got "
                f"{len(self.operations):,} operations and {len(self.phases):,} phases; number neither by a counter"
            )

    @cached_property
    def operations(self) -> tuple[str, ...]:
        """Those found by themselves, then the program's own, in the order of the sites."""
        said = (name for site in self.sites for name in (site.operation, site.presumed))
        own = (name for name in said if name and name not in UNDECIDED)
        return tuple(dict.fromkeys([*OPERATIONS, *own]))

    @cached_property
    def _places(self) -> dict[str, int]:
        """Of operations: a program may have thousands."""
        return {name: place for place, name in enumerate(self.operations)}

    @cached_property
    def phases(self) -> tuple[str, ...]:
        """No phase first."""
        return tuple(dict.fromkeys(["", *(site.phase for site in self.sites)]))

    @property
    def size(self) -> int:
        """How many codes there are."""
        return len(self.operations) * len(CLASSES) * len(self.phases)

    def code(self, state: State) -> int:
        """The number of a state."""
        return self.codes(*self.parts(state))

    def codes(self, operation: Any, time_class: Any, phase: Any) -> Any:
        """The number of a state by the indices of its parts, or those of many by arrays of them."""
        return (operation * len(CLASSES) + time_class) * len(self.phases) + phase

    def operation_of(self, codes: NDArray[Any]) -> NDArray[Any]:
        """The indices of the operations of states, by their numbers."""
        return codes // (len(CLASSES) * len(self.phases))

    def class_of(self, codes: NDArray[Any]) -> NDArray[Any]:
        """Those of their classes of time."""
        return codes // len(self.phases) % len(CLASSES)

    def phase_of(self, codes: NDArray[Any]) -> NDArray[Any]:
        """Those of their phases."""
        return codes % len(self.phases)

    def parts(self, state: State) -> tuple[int, int, int]:
        """Indices of operation, class and phase.

        Raises:
            FileFormatError: No site sets one of them.
        """
        try:
            return (
                self.operations.index(state.operation),
                CLASSES.index(state.time_class),
                self.phases.index(state.phase),
            )
        except ValueError as error:
            raise FileFormatError(
                f"recording: expected a site for {state}, got none: its table of sites is damaged; record again"
            ) from error

    def state(self, code: int) -> State:
        """The state of a number."""
        rest, phase = divmod(code, len(self.phases))
        operation, time_class = divmod(rest, len(CLASSES))
        return State(self.operations[operation], CLASSES[time_class], self.phases[phase])

    @cached_property
    def set_by(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
        """Per site the operation, class and phase it sets, -1 where it inherits. A forward pass sets no operation
        here: `rules` decides.
        """
        operation = [self._places.get(s.operation, -1) for s in self.sites]
        time_class = [CLASSES.index(s.time_class) if s.time_class else -1 for s in self.sites]
        phases = {name: place for place, name in enumerate(self.phases)}
        phase = [phases[s.phase] if s.phase else -1 for s in self.sites]
        return np.array(operation, np.int32), np.array(time_class, np.int32), np.array(phase, np.int32)

    @cached_property
    def presumed(self) -> NDArray[np.int32]:
        """Per site the operation it has where nothing around sets one, -1 for none; `rules` decides forward passes."""
        return np.array([self._places.get(s.presumed, -1) for s in self.sites], np.int32)

    @cached_property
    def is_forward(self) -> NDArray[np.bool_]:
        """Per site, whether it is a forward pass whose purpose `rules` finds."""
        return np.array([site.operation == FORWARD for site in self.sites], np.bool_)

    @cached_property
    def is_presumed_forward(self) -> NDArray[np.bool_]:
        """Per site, whether it is one where nothing around says better."""
        return np.array([site.presumed == FORWARD for site in self.sites], np.bool_)
