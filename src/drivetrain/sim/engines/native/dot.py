"""A vector of each environment times a matrix, as C++: the layers of a policy, whose weights all environments share.

A lane is an environment, so a weight is read once for a tile and goes to all lanes. The sums of eight columns are in
registers at once, which hides the time that a multiply-add takes; more would not fit beside what they are made of.
"""

from drivetrain.sim.engines.native.emitter import Emitter, Index
from drivetrain.sim.ir.program import Op

IN_REGISTERS = 8
"""Elements of a product that are summed at once: two multiply-adds begin per cycle, and each takes four."""


def write_dot(at: Emitter, op: Op, _: str) -> None:
    """Blocks of columns whose sums stay in registers; each weight is read once for a tile of environments."""
    name, num_columns = at.buffer(op.out), op.out.size
    whole = num_columns // IN_REGISTERS * IN_REGISTERS
    if whole:
        j = at.new("i")
        with at.braces(f"for (int {j} = 0; {j} < {whole}; {j} += {IN_REGISTERS})"):
            columns_of_dot(at, op, name, Index({j: 1}), IN_REGISTERS)
    if whole < num_columns:
        with at.braces():
            columns_of_dot(at, op, name, Index(start=whole), num_columns - whole)
    at.names[op.out] = name


def columns_of_dot(at: Emitter, op: Op, name: str, first: Index, num_columns: int) -> None:
    """Some columns next to each other; each is a sum of its own, in the order of the rows."""
    x, y = op.inputs
    places = [first + Index(start=k) for k in range(num_columns)]
    sums = [at.new("r") for _ in places]
    at.line(f"vf {', '.join(f'{total}{{}}' for total in sums)};")
    k = at.new("i")
    with at.braces(f"for (int {k} = 0; {k} < {x.size}; ++{k})"):
        row = at.let("float32", at.element(x, [Index({k: 1})]))
        for total, place in zip(sums, places, strict=True):
            at.line(f"{total} = fma_({row}, {at.element(y, [Index({k: 1}), place])}, {total});")
    for total, place in zip(sums, places, strict=True):
        at.line(f"{name}[{place}] = {total};")
