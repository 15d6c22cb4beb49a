"""Data movement, reductions and sorts on tensors, leading axis [num_envs] or [1]: `ir/evaluate.py` in PyTorch."""

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from drivetrain.sim.engines.native.plan import dimension_map, is_reshape
from drivetrain.sim.engines.tensors.elementwise import INTEGERS
from drivetrain.sim.engines.tensors.words import Tensor, ordered, torch, wrapped
from drivetrain.sim.ir.evaluate import affine_positions
from drivetrain.sim.ir.program import Op

Inputs = Sequence[Tensor]


def rows(x: Tensor) -> Tensor:
    """[num_envs, size]."""
    return x.reshape(len(x), prod(x.shape[1:]))


def together(inputs: Inputs) -> list[Tensor]:
    """All of them for as many environments as the largest has."""
    num_envs = max(map(len, inputs))
    return [x.expand(num_envs, *x.shape[1:]) for x in inputs]


def view(op: Op, inputs: Inputs) -> Tensor:
    """By slices where that is possible, as compilers like it, else by position in the flat array."""
    (x,) = inputs
    if is_reshape(op):
        return x.reshape(len(x), *op.out.shape)
    mapped = dimension_map(op) if op.inputs[0].size and op.out.size else None
    if mapped is None or any(len(runs) > 1 or step < 0 for _, _, runs in mapped for _, step in runs):
        places = affine_positions(op.out.shape, op.attrs["offset"], op.attrs["strides"])
        return rows(x).index_select(1, torch.tensor(places.reshape(-1))).reshape(len(x), *op.out.shape)
    runs = [(start, *run[0]) if run else (start, None, 0) for _, start, run in mapped]
    slices = [start if dim is None else slice(start, start + step * (op.out.shape[dim] - 1) + 1, step)
              for start, dim, step in runs]  # fmt: skip
    dims = [dim for _, dim, _ in runs if dim is not None]
    part = x[(slice(None), *slices)].permute(0, *(1 + dims.index(dim) for dim in sorted(dims)))
    thin = [size if dim in dims else 1 for dim, size in enumerate(op.out.shape)]
    return part.reshape(len(x), *thin).expand(len(x), *op.out.shape)


def concat(op: Op, inputs: Inputs) -> Tensor:
    """Along an axis of one environment."""
    return torch.cat(together(inputs), op.attrs["axis"] + 1)


def stack(op: Op, inputs: Inputs) -> Tensor:
    """Scalars as an array of the output's shape."""
    scalars = torch.stack(together(inputs), -1)
    return scalars.reshape(len(scalars), *op.out.shape)


def take(op: Op, inputs: Inputs) -> Tensor:
    """Elements of each environment's flat x."""
    x, index = together([rows(part) for part in inputs])
    return x.gather(1, index.to(torch.int64)).reshape(len(x), *op.out.shape)


def pick(op: Op, inputs: Inputs) -> Tensor:
    """Scalar number inputs[0] of those that follow."""
    index, *choices = together(inputs)
    return torch.stack(choices, -1).gather(1, index[:, None].to(torch.int64))[:, 0]


def put(op: Op, inputs: Inputs) -> Tensor:
    """One update after the other, so that the last of several wins."""
    out, index, updates, mask = together([rows(x) for x in inputs])
    places = index.to(torch.int64)
    for k in range(index.shape[1]):
        place, new, where = places[:, k : k + 1], updates[:, k : k + 1], mask[:, k : k + 1]
        old = out.gather(1, place)
        after = new if op.attrs["kind"] == "set" else combined(op.attrs["kind"], op.out.dtype, old, new)
        out = out.scatter(1, place, torch.where(where, after, old))
    return out.reshape(len(out), *op.out.shape)


def combined(kind: str, dtype: str, x: Tensor, y: Tensor) -> Tensor:
    """Two values as one: add, mul, max, min, and, or, xor."""
    if dtype == "bool":
        return (x | y) if kind in ("add", "max", "or") else (x ^ y) if kind == "xor" else (x & y)
    if dtype != "float32":
        return wrapped(INTEGERS[kind](dtype, x, y), dtype)
    if kind in ("max", "min"):
        return torch.maximum(x, y) if kind == "max" else torch.minimum(x, y)
    return x + y if kind == "add" else x * y


STEPS = {"sum": "add", "prod": "mul"}


def reduce(op: Op, inputs: Inputs) -> Tensor:
    """Over the last axis, by halves: the order of sums is free, and that of everything else does not matter."""
    (x,), dtype = inputs, op.inputs[0].dtype
    kind: str = op.attrs["kind"]
    if kind in ("argmax", "argmin"):
        values = ordered(x, dtype)
        return (values.argmax(-1) if kind == "argmax" else values.argmin(-1)).to(torch.int32)
    if dtype == "float32" and kind in ("sum", "prod"):
        return x.sum(-1) if kind == "sum" else x.prod(-1)
    while x.shape[-1] > 1:
        half = x.shape[-1] // 2
        rest = x[..., 2 * half :]
        both = combined(STEPS.get(kind, kind), dtype, x[..., :half], x[..., half : 2 * half])
        x = torch.cat([both, rest], -1)
    return x[..., 0]


def cumulate(op: Op, inputs: Inputs) -> Tensor:
    """Over the last axis, element by element."""
    (x,) = inputs
    kind: str = op.attrs["kind"]
    name = STEPS.get(kind, kind)
    columns = [x[..., 0]]
    for k in range(1, x.shape[-1]):
        columns.append(combined(name, op.out.dtype, columns[-1], x[..., k]))
    return torch.stack(columns, -1)


def sort(op: Op, inputs: Inputs) -> list[Tensor]:
    """All inputs by the first few, stable: by the last of these first."""
    shape = np.broadcast_shapes(*(tuple(x.shape) for x in inputs))
    columns = [x.expand(shape) for x in inputs]
    order = torch.arange(shape[-1]).expand(shape)
    for k in reversed(range(op.attrs["num_keys"])):
        keys = ordered(columns[k].gather(-1, order), op.inputs[k].dtype)
        order = order.gather(-1, torch.sort(keys, dim=-1, stable=True)[1])
    return [x.gather(-1, order) for x in columns]


def dot(op: Op, inputs: Inputs) -> Tensor:
    """A vector of each environment times a matrix."""
    x, y = inputs
    return (x[:, None] @ y)[:, 0]


MOVEMENT: dict[str, Callable[[Op, Inputs], Tensor]] = {
    "view": view, "concat": concat, "stack": stack, "take": take, "pick": pick, "put": put, "reduce": reduce,
    "cumulate": cumulate, "dot": dot,
}  # fmt: skip
