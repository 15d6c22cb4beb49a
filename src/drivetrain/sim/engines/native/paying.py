"""Whether stepping tiles in groups or in pairs pays, told from the program of a step.

Groups cost something in every step: values between their parts go through memory. They gain in three ways:

- **Lanes that take the branch alone** are brought together. Where the branch's condition is the same in all lanes that
  began together, as a limit of time alone is, a tile takes it as a whole or not at all, and nothing is gained.
- **Several tiles at once** keep the processor busy while one waits for the results of its last step. Where a step's new
  state hangs on the old one by short chains of operations, one tile alone keeps it busy.
- **What only the last step of a call needs** is left to that step (split.py), which compilers see in some functions
  alone.

Pairs share what they read of weights, and one tile computes where the other waits. A source of two steps takes twice as
long to compile, which is nothing for a short step, and much for a long one that hardly multiplies.
"""

from collections.abc import Collection, Iterable, Sequence

from drivetrain.sim.engines.native.layout import Inputs
from drivetrain.sim.engines.native.split import Split
from drivetrain.sim.ir.passes.sinking import cost_of, inputs_of
from drivetrain.sim.ir.program import Block, Op, Value

LATENCIES = {"threefry": 70, "div": 12, "rem": 15, "sqrt": 16, "rsqrt": 28, "sin": 60, "cos": 60, "exp": 50, "log": 60,
             "log1p": 70, "pow": 120, "tanh": 60, "erf_inv": 120, "logistic": 60, "floor": 10, "ceil": 10, "pick": 6,
             "take": 20, "while": 200, "for": 200}  # fmt: skip
"""Cycles from an operation's inputs to its results, about."""
OF_FLOATS, OF_INTEGERS = 4, 1
"""Of all others."""
PER_CYCLE = 3
"""Vector operations that a processor begins in a cycle, about."""
MEMORY_CYCLES = 20
"""That a tile's way through memory takes in a step, about: 5 to 20 where it was measured (design/sim.md)."""
LEAST_OF_LAST_STEPS = 100
"""Vector operations that all steps but the last are spared, from which on that pays for the way through memory."""
SHORT, LONG = 400, 1000
"""Operations of a step up to which a pair is always faster, and from which on it takes seconds more to compile."""
LEAST_PER_OP = 10
"""Multiply-adds of layers for each operation of a step between; pairs gain 6 to 24% then (design/sim-policies.md)."""


def pairs_pay(block: Block, shared: Iterable[Value]) -> bool:
    """Whether pairs are the faster form of a step, by enough for what they take to compile.

    Args:
        shared: Inputs that are the same for all environments.
    """
    ops = [op for op in block.walk() if op.name != "const"]
    products = [op for op in block.ops if op.name == "dot"]
    if not products and not any(value.shape for value in shared):
        return False
    num_multiply_adds = sum(op.inputs[0].size * op.out.size for op in products)
    return len(ops) < SHORT or (len(ops) < LONG and num_multiply_adds >= LEAST_PER_OP * len(ops))


def groups_pay(block: Block, given: Inputs, split: Split) -> bool:
    """Whether groups are the faster form of a step."""
    of_last_steps = cost_of({*split.before.last, *split.taken.last})
    if of_last_steps >= LEAST_OF_LAST_STEPS or not condition_in_phase(block, given, split.branch):
        return True
    ops = [*split.before.every, *split.after]
    return longest_chain(ops, given.kept) > cost_of(set(ops)) / PER_CYCLE + MEMORY_CYCLES


def condition_in_phase(block: Block, given: Inputs, branch: Op) -> bool:
    """Whether a branch's condition is the same for all environments that began together.

    That is so where it hangs on nothing but constants, the number of the step, and state that begins alike and changes
    by these alone.
    """
    kept = given.kept
    alike = {value for value, after in zip(kept, block.outputs, strict=False) if after is not value}
    while True:
        known = alike_in(block.ops, {given.number, *alike})
        less = {value for value, after in zip(kept, block.outputs, strict=False) if value in alike and after in known}
        if less == alike:
            return branch.inputs[0] in known
        alike = less


def alike_in(ops: Sequence[Op], given: Collection[Value]) -> set[Value]:
    """What is alike in all lanes if the given values are."""
    known = set(given)
    for op in ops:
        if op.name == "if" and op.inputs[0] in known:
            inside = [alike_in(region.ops, known) for region in op.regions]
            for k, value in enumerate(op.outputs):
                if all(region.outputs[k] in found for region, found in zip(op.regions, inside, strict=True)):
                    known.add(value)
        elif inputs_of(op) <= known:
            known.update(op.outputs)
    return known


def longest_chain(ops: Sequence[Op], kept: Sequence[Value]) -> float:
    """Cycles of the longest chain of operations that begins at the state."""
    ready: dict[Value, float] = dict.fromkeys(kept, 0.0)
    for op in ops:
        start = max((ready[value] for value in inputs_of(op) if value in ready), default=None)
        if start is not None:
            ready |= dict.fromkeys(op.outputs, start + latency(op))
    return max(ready.values())


def latency(op: Op) -> float:
    """Cycles from an operation's inputs to its results; a branch is as if it were not taken."""
    if op.name in LATENCIES:
        return LATENCIES[op.name]
    is_float = any(value.dtype == "float32" for value in op.inputs)
    return OF_FLOATS if is_float else OF_INTEGERS
