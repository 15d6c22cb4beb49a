"""Runs a block on tensors: `ir/evaluate.py` in PyTorch. Leading axis [num_envs], or [1] where all are alike."""

from collections.abc import Sequence

from drivetrain.sim.engines.tensors.elementwise import constant, elementwise, threefry
from drivetrain.sim.engines.tensors.movement import MOVEMENT, sort
from drivetrain.sim.engines.tensors.words import Tensor, torch
from drivetrain.sim.ir.program import Block, Op, Value

Known = dict[Value, Tensor]


class Evaluator:
    """Evaluates blocks; constants become tensors once."""

    def __init__(self, *, both_branches: bool = False) -> None:
        """No constants yet.

        Args:
            both_branches: An `if` evaluates both without looking at its condition, as a graph must.
        """
        self.both_branches = both_branches
        self.constants: Known = {}

    def block(self, block: Block, arguments: Sequence[Tensor], outer: Known | None = None) -> list[Tensor]:
        """Outputs of a block, of its inputs and the values of the blocks around it."""
        known: Known = dict(outer or {})
        known.update(zip(block.inputs, arguments, strict=True))
        for op in block.ops:
            known.update(zip(op.outputs, self.op(op, known), strict=True))
        return [known[value] for value in block.outputs]

    def op(self, op: Op, known: Known) -> Sequence[Tensor]:
        """The outputs of one operation."""
        if op.name == "const":
            if op.out not in self.constants:
                self.constants[op.out] = constant(op)
            return [self.constants[op.out]]
        if op.name == "if":
            return self.choice(op, known)
        if op.name == "while":
            return self.until(op, known)
        if op.name == "for":
            return self.times(op, known)
        inputs = [known[value] for value in op.inputs]
        if op.name == "threefry":
            return threefry(*inputs)
        if op.name == "sort":
            return sort(op, inputs)
        return [MOVEMENT[op.name](op, inputs) if op.name in MOVEMENT else elementwise(op, inputs)]

    def choice(self, op: Op, known: Known) -> Sequence[Tensor]:
        """Both branches, or the one that all environments take."""
        condition, (then, other) = known[op.inputs[0]], op.regions
        if not self.both_branches and bool(condition.all()):
            return self.block(then, (), known)
        if not self.both_branches and not bool(condition.any()):
            return self.block(other, (), known)
        pairs = zip(self.block(then, (), known), self.block(other, (), known), strict=True)
        return [choose(condition, x, y) for x, y in pairs]

    def until(self, op: Op, known: Known) -> Sequence[Tensor]:
        """Until no environment goes on; those that are done stay as they are."""
        carried = [known[value] for value in op.inputs]
        active = self.block(op.regions[0], carried, known)[0]
        while bool(active.any()):
            after = self.block(op.regions[1], carried, known)
            carried = [choose(active, new, old) for new, old in zip(after, carried, strict=True)]
            active = active & self.block(op.regions[0], carried, known)[0]
        return carried

    def times(self, op: Op, known: Known) -> Sequence[Tensor]:
        """As often as attrs length says."""
        carried = [known[value] for value in op.inputs]
        for index in range(op.attrs["length"]):
            carried = self.block(op.regions[0], [torch.full((1,), index, dtype=torch.int32), *carried], known)
        return carried


def choose(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """X in the environments where the scalar condition holds, else y."""
    return torch.where(condition.reshape(-1, *[1] * (max(x.ndim, y.ndim) - 1)), x, y)
