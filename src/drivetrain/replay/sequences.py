"""Sequences: what a row is when it is a window of consecutive steps, for recurrent learners."""

from dataclasses import asdict, dataclass
from typing import Any, cast

from drivetrain.core.docstrings import with_fields
from drivetrain.core.errors import InvalidInput
from drivetrain.replay import arguments

_MOST_STEPS = 100_000
SLASH = "\u2215"
"""In flat names, in place of a slash within a key such as `walker/position`."""


@with_fields
@dataclass(frozen=True, kw_only=True)
class Sequences:
    """Makes each row a window of T = burn_in + length consecutive steps of one episode.

    A window begins every `period` steps of an episode. The last row of an episode is the first
    window that reaches its end; what it lacks of T steps is zero, and `mask` tells. So each step of
    an episode is in a row, and each but its first `burn_in` beyond the burn-in of one.

    Raises:
        InvalidInput: A value does not fit.

    Reference: Kapturowski et al. 2019, "Recurrent experience replay in distributed reinforcement
    learning" (R2D2): overlapping sequences, stored state, burn-in.
    """

    length: int
    """Steps to learn from, those after the burn-in."""
    burn_in: int = 0
    """Steps before them, from which a recurrent state is only recomputed."""
    period: int | None = None
    """Steps from the beginning of one window to that of the next, at most `length`; None: `length`."""
    initial: tuple[str, ...] = ()
    """Fields kept for a window's first step alone, such as the recurrent state: `[B, ...]` in a sample.
    Names of fields, or of nested dicts for all that is in them."""

    def __post_init__(self) -> None:
        integer = arguments.require_int
        length = integer("Sequences.length", self.length, least=1, most=_MOST_STEPS)
        checked: dict[str, Any] = {
            "length": length,
            "burn_in": integer("Sequences.burn_in", self.burn_in, least=0, most=_MOST_STEPS),
        }
        if self.period is not None:
            period = integer("Sequences.period", self.period, least=1, most=_MOST_STEPS)
            if period > length:
                raise InvalidInput(
                    f"Sequences.period: expected at most length ({length}), got {period}: "
                    "the steps between two windows would never be learned from"
                )
            checked["period"] = period
        names: Any = self.initial
        is_names = isinstance(names, tuple | list) and all(isinstance(name, str) for name in names)  # pyright: ignore[reportUnknownVariableType]
        if not is_names:
            raise InvalidInput(f'Sequences.initial: expected names such as ("state",), got {self.initial!r}')
        for name, value in {**checked, "initial": tuple(cast("list[str]", names))}.items():
            object.__setattr__(self, name, value)  # as Python's own, which a file can hold

    @property
    def num_steps(self) -> int:
        """T, the steps of a row."""
        return self.burn_in + self.length

    @property
    def num_new_steps(self) -> int:
        """Steps that a row has and the one before it has not."""
        return self.length if self.period is None else self.period

    def keeps_initial(self, name: str) -> bool:
        """Whether this field, of flat name, is kept for the first step alone."""
        return any(is_within(name, group) for group in self.initial)

    def to_json(self) -> dict[str, Any]:
        """JSON-able form; `from_json` inverts it."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any] | None) -> "Sequences | None":
        """The sequences that `to_json` wrote; None stays None."""
        if values is None:
            return None
        plain: dict[str, Any] = {**values, "initial": tuple(values["initial"])}
        return cls(**plain)


def is_within(name: str, group: str) -> bool:
    """Whether a field, of flat name, is that of this name as it was declared, or in the nested dict of this name."""
    declared = name.replace(SLASH, "/")
    return declared == group or declared.startswith(group + "/")


def require_sequences(sequence: Any, num_step: int) -> None:
    """Whether this is a `Sequences`, used without n-step returns.

    Raises:
        InvalidInput: It is not.
    """
    if not isinstance(sequence, Sequences):
        raise InvalidInput(f"sequence: expected Sequences(length=...), got {sequence!r}")
    if num_step != 1:
        raise InvalidInput(
            f"num_step: expected 1 with sequences, whose rewards are per step, got {num_step!r}; "
            "compute n-step returns from the sequence"
        )
