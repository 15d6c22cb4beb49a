"""The engine `torch_compiled`: the program as graphs that `torch.compile` (TorchInductor) makes C++ of.

    ops ... ops │ while │ ops ... ops        a graph, a loop by the interpreter, a graph

A graph has no branch: an `if` computes both sides and chooses, as `vmap` makes XLA do. A graph has no loop either, so a
`for` is written out if that is short. What is left breaks the graph: a `while`, which ends by value, and long loops;
the interpreter of the engine `torch` runs them in between.
"""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from drivetrain.sim.api import Runner, Settings
from drivetrain.sim.engines.tensors.evaluate import Evaluator, Known
from drivetrain.sim.engines.tensors.words import Tensor, torch
from drivetrain.sim.engines.toolchain import compiler
from drivetrain.sim.engines.torch import TensorRunner
from drivetrain.sim.ir.importer import import_jaxpr
from drivetrain.sim.ir.passes.pipeline import simplified
from drivetrain.sim.ir.passes.sinking import inputs_of
from drivetrain.sim.ir.program import Block, Op, Value
from drivetrain.sim.trace import Traced

MOST_UNROLLED = 2_000
"""Operations that a loop may be written out to."""
OPTIONS = {"realize_opcount_threshold": 8}
"""Inductor writes what computes a value into everything that reads it, up to so many operations. A cipher is a chain of
120 whose links are each read twice: at Inductor's 30 that takes minutes."""


def build(traced: Traced, settings: Settings) -> Runner:
    """The simplified program in compiled pieces, which the first call compiles.

    Raises:
        CompileError: There is no C++ compiler.
    """
    compiler()
    block = simplified(import_jaxpr(traced.jaxpr, traced.name))
    return TensorRunner(traced, settings, block, Pieces(block))


class Pieces:
    """A block as graphs with loops in between."""

    def __init__(self, block: Block) -> None:
        """Nothing is compiled yet."""
        self.block = block
        self.pieces = list(pieces_of(block))
        self.interpreter = Evaluator()

    def __call__(self, arguments: Sequence[Tensor]) -> list[Tensor]:
        """Outputs of the block; see `Evaluator.block`."""
        known: Known = dict(zip(self.block.inputs, arguments, strict=True))
        num_envs = max(map(len, arguments))
        for piece in self.pieces:
            given = [known[value] for value in piece.block.inputs]
            if piece.is_graph:
                results = piece(given)
            else:  # by the values that it meets, a loop gives one row or all, and graphs are made for one of the two
                rows = self.interpreter.block(piece.block, given)
                results = [x.expand(num_envs, *x.shape[1:]).contiguous() for x in rows]
            known.update(zip(piece.block.outputs, results, strict=True))
        return [known[value] for value in self.block.outputs]


_tracing = threading.RLock()
"""PyTorch traces for all threads at once: meanwhile none of them can trace another piece, or call one."""


@dataclass
class Piece:
    """Consecutive operations, with what they need from before and what is needed after them."""

    block: Block
    is_graph: bool
    compiled: Any = field(default=None)

    def __call__(self, arguments: Sequence[Tensor]) -> Sequence[Tensor]:
        """As `Evaluator.block`, compiled for these shapes at the first call."""
        with _tracing:
            return self._called(arguments)

    def _called(self, arguments: Sequence[Tensor]) -> Sequence[Tensor]:
        if self.compiled is None:
            evaluator = Evaluator(both_branches=True)

            def run(*given: Tensor) -> list[Tensor]:
                return evaluator.block(self.block, given)

            tracer: Any = torch.fx.experimental.proxy_tensor
            graph = tracer.make_fx(run, tracing_mode="fake")(*arguments)
            self.compiled = torch.compile(graph, fullgraph=True, dynamic=False, options=OPTIONS)
        return self.compiled(*arguments)


def pieces_of(block: Block) -> Iterator[Piece]:
    """The pieces of a block, in their order; constants are part of each that uses them."""
    constants = {op.out: op for op in block.ops if op.name == "const"}
    ops = [op for op in block.ops if op.name != "const"]
    runs = [(is_graph, list(run)) for is_graph, run in groupby(ops, can_be_graph)]
    for number, (is_graph, run) in enumerate(runs):
        later = {value for _, other in runs[number + 1 :] for op in other for value in inputs_of(op)}
        yield Piece(piece_of(run, constants, later | set(block.outputs)), is_graph)
    given = [value for value in block.outputs if value in constants]
    if given:
        yield Piece(Block((), tuple(constants[value] for value in given), tuple(given)), is_graph=False)


def piece_of(run: Sequence[Op], constants: dict[Value, Op], needed: set[Value]) -> Block:
    """A run of operations as a block of its own."""
    made = {value: None for op in run for value in op.outputs}
    used = {value: None for op in run for value in sorted(inputs_of(op), key=lambda v: v.number)}
    own = [constants[value] for value in used if value in constants]
    inputs = tuple(value for value in used if value not in made and value not in constants)
    return Block(inputs, (*own, *run), tuple(value for value in made if value in needed))


def can_be_graph(op: Op) -> bool:
    """Whether an operation has no loop that ends by value, and none that is too long to be written out."""
    every = Block((), (op,), ()).walk()
    return all(inner.name != "while" for inner in every) and written_out(op) <= MOST_UNROLLED


def written_out(op: Op) -> int:
    """Operations of the graph that an operation becomes."""
    inner = sum(written_out(each) for region in op.regions for each in region.ops)
    return max(1, inner * (op.attrs["length"] if op.name == "for" else 1))
