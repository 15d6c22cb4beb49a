"""What a contender has to offer to be measured: a full buffer, and the calls on it.

Whatever turns inputs into a contender's own form (tensors, batches, device arrays) is done off the
clock: each gets what its own users would hold in their hands.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from drivetrain.bench.replay.layouts import Layout, Step


@dataclass(frozen=True)
class Inserter:
    """`insert(prepare(step))` adds one step of each environment; `prepare` is off the clock."""

    prepare: Callable[[Step], Any]
    insert: Callable[[Any], object]


@dataclass(frozen=True)
class Updater:
    """`update(sample, prepare(priorities))` gives the rows of a sample new priorities."""

    prepare: Callable[[NDArray[Any]], Any]
    update: Callable[[Any, Any], object]


def as_it_is(value: Any) -> Any:
    """For contenders whose own form is NumPy's."""
    return value


class Store(Protocol):
    """One buffer, and the calls that are measured; each may raise `NotOffered`."""

    def inserter(self, num_envs: int) -> Inserter:
        """Adds steps of `num_envs` environments."""
        ...

    def sampler(self, batch_size: int) -> Callable[[], Any]:
        """Draws a batch with its importance weights, every array ready to be read."""
        ...

    def updater(self, batch_size: int) -> Updater:
        """Gives sampled rows new priorities."""
        ...


class TreeStore(Protocol):
    """A sum tree alone, every leaf set."""

    def finder(self, batch_size: int) -> tuple[Callable[[], Any], Callable[[Any], object]]:
        """`find(prepare())` looks up `batch_size` random masses; `prepare` draws them off the clock."""
        ...

    def setter(self, batch_size: int) -> tuple[Callable[[], Any], Callable[[Any], object]]:
        """`update(prepare())` sets `batch_size` random leaves."""
        ...


class Company(Protocol):
    """A buffer that several threads, or processes of one machine, use at the same time."""

    def view(self) -> Store:
        """The buffer for one more thread of this process; may raise `NotOffered`."""
        ...

    def invitation(self) -> Any:
        """What `join` needs in another process; may raise `NotOffered`."""
        ...


@dataclass(frozen=True)
class Sharing:
    """How a contender's buffer is used by several.

    Attributes:
        make: An empty buffer for a layout and a capacity.
        join: From an invitation, the buffer in another process.
        start: How the library's users start those processes, in the words of `multiprocessing`.
        threads: Whether several threads of one process may use it.
    """

    make: Callable[[Layout, int], Company]
    join: Callable[[Any], Store]
    start: str = "spawn"
    threads: bool = True
