"""What each pass is good for: the programs of gymnax's environments with one pass left out, against all of them.

    python tests/sim/passes/effects.py [NAME ...]        a table as in design/sim-passes.md

`work` counts the vector operations of a step in which no branch is taken, weighted as in sinking; `memory` is
the bytes that a tile needs per environment, `loops` how many loops over elements the C++ has. All three are counts,
the same on every machine for one version of JAX and gymnax.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np

from drivetrain import sim
from drivetrain.sim.engines.native import plan
from drivetrain.sim.engines.native.engine import layout_of
from drivetrain.sim.engines.native.kernel import write_kernel
from drivetrain.sim.engines.native.memory import Memory
from drivetrain.sim.ir.importer import import_jaxpr
from drivetrain.sim.ir.passes import pipeline, scalars
from drivetrain.sim.ir.passes.sinking import COSTS
from drivetrain.sim.trace import trace

# One of each kind; all of gymnax's take many times as long.
ENVIRONMENTS = ["CartPole-v1", "Acrobot-v1", "Asterix-MinAtar", "Breakout-MinAtar", "Freeway-MinAtar",
                "SpaceInvaders-MinAtar", "FourRooms-misc", "MetaMaze-misc", "Catch-bsuite",
                "UmbrellaChain-bsuite"]  # fmt: skip
# What stands in for a pass that is left out.
LEFT_OUT: dict[str, tuple[object, str, object]] = {
    "folding": (pipeline, "fold", lambda block: block),
    "counters": (pipeline, "count_by_index", lambda block: block),
    "range analysis": (pipeline, "drop_bounds", lambda block: block),
    "common subexpressions": (pipeline, "eliminate_common", lambda block: block),
    "dead code": (pipeline, "eliminate_dead", lambda block: block),
    "short rows": (pipeline, "write_out_short_rows", lambda block: block),
    "scalar replacement": (scalars, "MOST_ELEMENTS", 2),  # a key is always two scalars
    "converted puts": (pipeline, "convert_below_puts", lambda block: block),
    "predicated puts": (pipeline, "predicate_puts", lambda block: block),
    "sinking": (pipeline, "sink", lambda block: block),
    "elementwise fusion": (plan, "ELEMENTWISE", frozenset[str]()),
    "rematerialisation": (plan, "LEAST_TABLE", sys.maxsize),
    "loop collapse": (plan.Plan, "is_flat", lambda *_: False),
    "liveness": (Memory, "again", lambda *_: None),
    "in place": (plan.Plan, "is_last_read", lambda *_: False),
}
Counts = tuple[float, int, int]


def work_of(block) -> float:
    """Weighted vector operations where no branch is taken; a `while` counts once."""
    total = 0.0
    for op in block.ops:
        if op.name in ("while", "for"):
            total += op.attrs.get("length", 1) * sum(map(work_of, op.regions))
        elif op.name != "if" and op.outputs:
            total += COSTS.get(op.name, 1) * max(value.size for value in op.outputs)
    return total


@contextmanager
def without(name: str | None) -> Iterator[None]:
    """Everything but one pass."""
    if name is None:
        yield
    else:
        with patch.object(*LEFT_OUT[name]):
            yield


def traced(name: str):
    """A step of an environment, nothing recorded but what people record."""
    env = sim.from_gymnax(name)
    return trace(env, env.default_params, "same_step", ("obs", "reward", "terminated", "truncated"))


def measured(step) -> Counts:
    """Work, memory and loops of a step."""
    imported = pipeline.simplified(import_jaxpr(step.jaxpr))
    block = pipeline.vectorizable(imported)
    written = write_kernel(block, layout_of(imported, step))
    return work_of(block), written.scratch_nbytes, written.source.count("for (int i")


def rows(names: list[str], left_out: list[str]) -> Iterator[str]:
    """A row for each pass: how many times the work, memory and loops without it, median and most."""
    steps = {name: traced(name) for name in names}
    every = {name: measured(step) for name, step in steps.items()}
    for pass_name in left_out:
        with without(pass_name):
            counts = np.array([measured(step) for step in steps.values()], float)
        base = np.array([every[name] for name in steps], float)
        ratios = np.where(counts == base, 1.0, counts / np.maximum(base, 1))  # nothing of nothing is the same
        cells = [described(ratios[:, k], names) for k in range(3)]
        yield f"| {pass_name} | {' | '.join(cells)} |"


def described(ratios, names: list[str]) -> str:
    """Median and largest of some ratios, with the environment of the largest."""
    if np.allclose(ratios, 1.0):
        return "same"
    worst = int(np.argmax(ratios))
    return f"{np.median(ratios):.2f}, most {ratios[worst]:.1f} ({names[worst].partition('-')[0]})"


def table(names: list[str]) -> str:
    """The table as Markdown."""
    head = ["| without | work | memory | loops |", "|---|---|---|---|"]
    return "\n".join([*head, *rows(names, list(LEFT_OUT))]) + "\n"


if __name__ == "__main__":
    sys.stdout.write(table(sys.argv[1:] or ENVIRONMENTS))
