"""Memory of one block's arrays: what nobody reads any more is given to the next array that fits (liveness)."""

from collections.abc import Callable, Mapping

from drivetrain.sim.ir.program import Value


class Memory:
    """The buffers of a block, by name, with when each was last given."""

    def __init__(self) -> None:
        """None yet."""
        self.now = 0
        """Position of the operation that is being written."""
        self.buffers: dict[str, tuple[str, int]] = {}
        """Name -> vector type, size."""
        self.given: dict[str, int] = {}
        """Name -> position at which it was last given to a value; within that operation it is in use."""

    def add(self, name: str, kind: str, size: int) -> None:
        """A new buffer, given now."""
        self.buffers[name] = kind, size
        self.given[name] = self.now

    def again(self, kind: str, size: int, names: Mapping[Value, str], last_read: Callable[[Value], int]) -> str | None:
        """The smallest buffer that is large enough and that no value needs any more; None if there is none.

        Args:
            kind: Of vectors; a buffer keeps its type.
            size: Elements, at least.
            names: The buffer of every value that has memory.
            last_read: The position at which a value is read for the last time.
        """
        fitting = {
            name
            for name, (has_kind, has_size) in self.buffers.items()
            if has_kind == kind and has_size >= size and self.given[name] < self.now
        }
        if fitting:
            fitting -= {name for value, name in names.items() if name in fitting and last_read(value) >= self.now}
        if not fitting:
            return None
        best = min(fitting, key=lambda name: (self.buffers[name][1], name))
        self.given[best] = self.now
        return best
