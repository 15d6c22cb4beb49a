"""What a call of a kernel passes: an array for each leaf, and inside the step the scalars that the leaf has become.

arrays p[...]        keys, done, state, actions, shared; what comes out: state, done, records
inputs of a step     two key words, step, state, done, actions, shared; a leaf as its scalars, or as one array
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from drivetrain.sim.ir.passes.scalars import is_small
from drivetrain.sim.ir.program import Block, Value


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The step's inputs and outputs as they were before scalar replacement, and where in a call their arrays begin."""

    state: Sequence[Value]
    actions: Sequence[Value]
    record: Sequence[Value]
    shared: Sequence[Value] = ()
    keys_at = 0
    done_at = 1
    state_at = 2

    @property
    def actions_at(self) -> int:
        """The first array of the actions."""
        return self.state_at + len(self.state)

    @property
    def shared_at(self) -> int:
        """The first array of what all environments share."""
        return self.actions_at + len(self.actions)

    @property
    def state_out_at(self) -> int:
        """The first array of the new state."""
        return self.shared_at + len(self.shared)

    @property
    def done_out_at(self) -> int:
        """The array of the new ends of episodes."""
        return self.state_out_at + len(self.state)

    @property
    def records_at(self) -> int:
        """The first array of what is recorded."""
        return self.done_out_at + 1

    @property
    def num_arrays(self) -> int:
        """How many arrays a call passes."""
        return self.records_at + len(self.record)


class Inputs(NamedTuple):
    """The inputs of a step after scalar replacement."""

    keys: Sequence[Value]
    number: Value
    """Of the step."""
    kept: Sequence[Value]
    """What the step before gave: state, and done, which is last. The step's first outputs are as many."""
    actions: Sequence[Value]
    shared: Sequence[Value]

    @property
    def state(self) -> Sequence[Value]:
        """All that is kept but done."""
        return self.kept[:-1]

    @property
    def done(self) -> Value:
        """Whether the step before has ended an episode."""
        return self.kept[-1]


def step_inputs(block: Block, layout: Layout) -> Inputs:
    """Which of a step's inputs are what."""
    first_action = 4 + sum(map(num_parts, layout.state))
    first_shared = len(block.inputs) - len(layout.shared)
    return Inputs(
        keys=block.inputs[:2],
        number=block.inputs[2],
        kept=block.inputs[3:first_action],
        actions=block.inputs[first_action:first_shared],
        shared=block.inputs[first_shared:],
    )


def parts_of(leaves: Sequence[Value], values: Sequence[Value]) -> list[tuple[Value, list[Value]]]:
    """Each leaf with the scalars, or the one array, that it has become."""
    rest = iter(values)
    return [(leaf, [next(rest) for _ in range(num_parts(leaf))]) for leaf in leaves]


def num_parts(leaf: Value) -> int:
    """How many scalars a leaf becomes; an array that stays one is one."""
    return leaf.size if is_small(leaf) else 1
