"""`sim.explain`: what became of an environment on its way to a kernel."""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from collections import Counter
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from drivetrain.sim.api import Autoreset, Tree, name_of
from drivetrain.sim.compiler import checked
from drivetrain.sim.engines.native.engine import layout_of
from drivetrain.sim.engines.native.kernel import write_kernel
from drivetrain.sim.engines.native.plan import Plan
from drivetrain.sim.gymnax import adapted
from drivetrain.sim.ir.importer import import_jaxpr
from drivetrain.sim.ir.passes.pipeline import simplified, vectorizable
from drivetrain.sim.ir.program import Block, Op
from drivetrain.sim.trace import told_of_params, trace
from drivetrain.sim.varying import num_rows, varied

CONDITIONS_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What the native engine makes of one step with autoreset.

    Attributes:
        name: Of the environment.
        num_equations: Of JAX's program.
        num_imported: Operations of our representation, as imported.
        num_simplified: After folding, common subexpressions and dead code.
        num_kernel: Of what the kernel is written from, where small arrays are scalars; constants not counted.
        state_nbytes: Of one environment between two steps.
        recorded_nbytes: Of one environment per step.
        scratch_nbytes: Memory of one environment that a step needs for arrays beyond its registers.
        sunk: For each condition under which something is computed: (operations, random words, where it comes from).
        fused: Arrays that are computed where they are read, without memory.
        kept: Arrays that have memory.
        loops: Loops that stay loops.
        most: The commonest operations of the kernel.
    """

    name: str
    num_equations: int
    num_imported: int
    num_simplified: int
    num_kernel: int
    state_nbytes: int
    recorded_nbytes: int
    scratch_nbytes: int
    sunk: tuple[tuple[int, int, str], ...]
    fused: int
    kept: int
    loops: int
    most: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        """The same as a few lines."""
        sizes = f"{self.num_equations:,} equations of JAX, {self.num_imported:,} operations imported, "
        lines = [
            self.name,
            f"  program   {sizes}{self.num_simplified:,} simplified, {self.num_kernel:,} in the kernel",
            f"  state     {self.state_nbytes:,} bytes per environment, {self.recorded_nbytes:,} recorded per step",
            f"  sunk      {self.sunk_text()}",
            f"  fused     {self.fused:,} arrays are computed where they are read",
            f"  kept      {self.kept:,} arrays have memory, {self.scratch_nbytes:,} bytes per environment",
            f"  loops     {self.loops:,}",
            f"  most      {', '.join(f'{count:,} {name}' for name, count in self.most)}",
        ]
        return "\n".join(lines)

    def sunk_text(self) -> str:
        """The conditions, those that save most first."""
        if not self.sunk:
            return "nothing: no condition decides over work that only it needs"
        shown = [
            f"{size:,} operations ({words:,} random hashes){where}"
            for size, words, where in self.sunk[:CONDITIONS_SHOWN]
        ]
        more = len(self.sunk) - len(shown)
        return "; ".join(shown) + (f"; {more} more" if more > 0 else "")


def explain(
    env: Any, params: Tree = None, record: tuple[str, ...] = ("obs", "reward", "terminated", "truncated"),
    *, autoreset: Autoreset = "same_step",
) -> Explanation:  # fmt: skip
    """Say how large an environment is, and what of it the native engine sinks, fuses and keeps.

    Compiles nothing. `print` shows it.

    Args:
        env: As for `sim.compile`, like the other arguments.
        params: Of the environment; its defaults when None. Rows, one for each environment, may be of any number.
        record: What a kernel would record.
        autoreset: How a kernel would restart episodes.

    Raises:
        InvalidInput: An argument does not fit.
        CompileError: The environment cannot be compiled; the message says what to change.
    """
    settings = checked(1, 1, "native", record, autoreset, 1)
    env = adapted(env)
    params = env.default_params if params is None else params
    params, differing = varied(env, params, num_rows(env, params))
    one = params if differing is None else differing.of(0)
    with told_of_params(env, params):
        traced = trace(env, one, settings.autoreset, settings.record, differing=differing)
    imported = import_jaxpr(traced.jaxpr, traced.name)
    small = simplified(imported)
    kernel = vectorizable(small)
    plans = [Plan(block) for block in blocks_of(kernel)]
    arrays = [op for op in kernel.walk() if op.name != "const" and any(value.shape for value in op.outputs)]
    num_fused = sum(value in plan.virtual for plan in plans for op in arrays for value in op.outputs)
    counts = Counter(op.name for op in kernel.walk() if op.name != "const")
    return Explanation(
        name=name_of(env),
        num_equations=equations_of(traced.jaxpr),
        num_imported=imported.num_ops,
        num_simplified=small.num_ops,
        num_kernel=sum(counts.values()),
        state_nbytes=nbytes_of(traced.state),
        recorded_nbytes=nbytes_of(traced.record),
        scratch_nbytes=write_kernel(kernel, layout_of(small, traced)).scratch_nbytes,
        sunk=tuple(sorted((branch(op) for op in kernel.ops if op.name == "if"), reverse=True)),
        fused=num_fused,
        kept=len(arrays) - num_fused,
        loops=counts["for"] + counts["while"],
        most=tuple(counts.most_common(6)),
    )


def blocks_of(block: Block) -> list[Block]:
    """A block and those of its regions."""
    return [block, *(inner for op in block.ops for region in op.regions for inner in blocks_of(region))]


def branch(op: Op) -> tuple[int, int, str]:
    """How much a branch computes, and the line of the environment that it comes from."""
    inside = [inner for region in op.regions for inner in region.walk() if inner.name != "const"]
    words = sum(inner.outputs[0].size for inner in inside if inner.name == "threefry")
    return len(inside), words, f" at {op.where}" if op.where else ""


def nbytes_of(tree: Tree) -> int:
    """Bytes of a pytree of shapes."""
    return sum(int(np.prod(leaf.shape)) * np.dtype(leaf.dtype).itemsize for leaf in jax.tree.leaves(tree))


def equations_of(jaxpr: Any) -> int:
    """Equations of a JAX program and of those inside it."""
    inner = getattr(jaxpr, "jaxpr", jaxpr)
    return sum(1 + sum(map(equations_of, programs_in(eqn.params))) for eqn in inner.eqns)


def programs_in(parameters: dict[str, Any]) -> list[Any]:
    """Programs among an equation's parameters."""
    found: list[Any] = []
    for value in parameters.values():
        found += [each for each in (value if isinstance(value, tuple | list) else [value]) if hasattr(each, "eqns")]
    return found
