"""Where a step is cut so that several tiles can take it together: at its costliest branch, and by what only ends need.

            of every step      of the last step of a call alone
before      ...                ...
branch      ...                ...
after       ...

State that a step writes and never reads, as the last reward that an observation shows, is only needed where a call
ends: with it go the operations that nothing else needs, a bandit's reward with its random numbers.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from drivetrain.sim.ir.passes.sinking import cost_of, inputs_of
from drivetrain.sim.ir.program import Block, Op, Value

LEAST_COST = 100
"""Vector operations of a branch from which on lanes are brought together for it."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """Operations in their order: those that every step needs, and those that the last step of a call needs besides."""

    every: Sequence[Op]
    last: Sequence[Op]

    @property
    def all(self) -> Sequence[Op]:
        """Both, in an order that they can run in: those that every step needs do not need the others."""
        return [*self.every, *self.last]


@dataclass(frozen=True, kw_only=True)
class Split:
    """A step cut at its costliest branch.

    Attributes:
        branch: It has operations where its condition holds, and none where it does not.
        before: What does not need its results.
        taken: Of the branch.
        after: What does.
        needed: Values that a later part, a record or the next step needs in every step.
    """

    branch: Op
    before: Part
    taken: Part
    after: Sequence[Op]
    needed: Collection[Value]


def split_of(block: Block, kept: Sequence[Value]) -> Split | None:
    """Where a step is cut; None for one without such a branch, or with arrays in memory.

    Args:
        kept: The inputs that hold what the step before gave as its first outputs.
    """
    values = [*block.inputs, *(value for op in block.walk() if op.name != "const" for value in op.outputs)]
    branches = [op for op in block.ops if op.name == "if" and not op.regions[1].ops]
    if any(value.shape for value in values) or not branches:
        return None
    branch = max(branches, key=lambda op: cost_of(set(op.regions[0].ops)))
    if cost_of(set(branch.regions[0].ops)) < LEAST_COST:
        return None
    late: set[Value] = set(branch.outputs)
    after: list[Op] = []
    for op in block.ops:
        if not late.isdisjoint(inputs_of(op)):
            after.append(op)
            late.update(op.outputs)
    waiting = {branch, *after}
    before = [op for op in block.ops if op not in waiting]
    made = {value for op in after for value in op.outputs}
    return parted(branch, before, after, needed_of(block, kept) | made | used_by(after))


def needed_of(block: Block, kept: Sequence[Value]) -> set[Value]:
    """Outputs that every step has to give: records, and state that the next step reads."""
    read = {value for op in block.ops for value in inputs_of(op)} | set(block.outputs)
    state = zip(kept, block.outputs, strict=False)
    return {*block.outputs[len(kept) :], *(value for before, value in state if before in read)}


def parted(branch: Op, before: Sequence[Op], after: Sequence[Op], needed: set[Value]) -> Split:
    """The parts of a step; what is needed every time is what the branch and what comes before it have to give."""
    then, other = branch.regions
    chosen = [k for k, value in enumerate(branch.outputs) if value in needed]
    taken = apart(then.ops, {then.outputs[k] for k in chosen})
    needed = needed | {*branch.inputs, *used_by(taken.every)}
    needed |= {region.outputs[k] for region in (then, other) for k in chosen}
    return Split(branch=branch, before=apart(before, needed), taken=taken, after=after, needed=frozenset(needed))


def apart(ops: Sequence[Op], values: Iterable[Value]) -> Part:
    """Operations that make values, or what those need, and the others."""
    wanted = set(values)
    every: set[Op] = set()
    for op in reversed(ops):
        if not wanted.isdisjoint(op.outputs):
            every.add(op)
            wanted |= inputs_of(op)
    return Part(every=[op for op in ops if op in every], last=[op for op in ops if op not in every])


def used_by(ops: Iterable[Op]) -> set[Value]:
    """Everything that operations and their regions use from outside."""
    return {value for op in ops for value in inputs_of(op)}
