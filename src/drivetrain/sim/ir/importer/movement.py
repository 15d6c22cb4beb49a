"""Primitives that move elements to places known beforehand: reshapes, slices, transposes, pads and the like."""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false, reportPrivateImportUsage=false

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from drivetrain.sim.ir.build import Builder, row_major
from drivetrain.sim.ir.importer.importer import HANDLERS, Importer, Parts, handles, zeros
from drivetrain.sim.ir.program import Value


def movement(name: str, move: Callable[[Builder, Value, dict[str, Any]], Value]) -> None:
    """A primitive that moves the elements of one array: done to each word of a key."""

    def handler(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
        params = {**eqn.params, "out": eqn.outvars[0].aval.shape}
        return [tuple(move(at.builder, x, params) for x in inputs[0])]

    HANDLERS[name] = handler


def in_order(b: Builder, x: Value, dimensions: Sequence[int] | None) -> Value:
    """What a reshape reads: the elements in the order of these dimensions, where it names them, as `vmap` does."""
    return x if dimensions is None else b.transpose(x, dimensions)


movement("reshape", lambda b, x, p: b.reshape(in_order(b, x, p["dimensions"]), p["out"]))
movement("squeeze", lambda b, x, p: b.reshape(x, p["out"]))
movement("expand_dims", lambda b, x, p: b.reshape(x, p["out"]))
movement("broadcast_in_dim", lambda b, x, p: b.broadcast(x, p["shape"], p["broadcast_dimensions"]))
movement("transpose", lambda b, x, p: b.transpose(x, p["permutation"]))
movement("rev", lambda b, x, p: b.reverse(x, p["dimensions"]))
movement(
    "slice",
    lambda b, x, p: b.slice(x, p["start_indices"], p["limit_indices"], p["strides"] or (1,) * len(x.shape)),
)


@handles("concatenate")
def _concatenate(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    return [tuple(at.builder.concat(words, eqn.params["dimension"]) for words in zip(*inputs, strict=True))]


@handles("stack")
def _stack(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    axis, shape = eqn.params["axis"], list(inputs[0][0].shape)
    thin = [tuple(at.builder.reshape(x, [*shape[:axis], 1, *shape[axis:]]) for x in parts) for parts in inputs]
    return [tuple(at.builder.concat(words, axis) for words in zip(*thin, strict=True))]


@handles("unstack")
def _unstack(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    axis, shape = eqn.params["axis"], inputs[0][0].shape
    rest, strides = [n for k, n in enumerate(shape) if k != axis], row_major(shape)
    kept = [s for k, s in enumerate(strides) if k != axis]
    every = range(shape[axis])
    return [tuple(at.builder.view(x, rest, row * strides[axis], kept) for x in inputs[0]) for row in every]


@handles("tile")
def _tile(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    """Repeats become dimensions before each dimension, then are merged."""
    reps, shape, b = eqn.params["reps"], inputs[0][0].shape, at.builder
    wide = [size for pair in zip(reps, shape, strict=True) for size in pair]
    merged = [rep * size for rep, size in zip(reps, shape, strict=True)]
    dims = range(1, len(wide), 2)
    return [tuple(b.reshape(b.broadcast(x, wide, dims), merged) for x in inputs[0])]


@handles("split")
def _split(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    axis, start, results = eqn.params["axis"], 0, list[Parts]()
    for size in eqn.params["sizes"]:
        shape = inputs[0][0].shape
        low = [start if k == axis else 0 for k in range(len(shape))]
        high = [start + size if k == axis else n for k, n in enumerate(shape)]
        results.append(tuple(at.builder.slice(x, low, high, [1] * len(shape)) for x in inputs[0]))
        start += size
    return results


@handles("pad")
def _pad(at: Importer, eqn: Any, inputs: list[Parts]) -> Value:
    """The padding with the array put into it at constant positions; negative padding cuts."""
    (x,), (padding,) = inputs
    config = [tuple(map(int, entry)) for entry in eqn.params["padding_config"]]
    shape = tuple(eqn.outvars[0].aval.shape)
    where = [low + np.arange(size) * (inner + 1) for size, (low, _, inner) in zip(x.shape, config, strict=True)]
    grids = np.meshgrid(*where, indexing="ij")
    inside = np.all([(g >= 0) & (g < n) for g, n in zip(grids, shape, strict=True)], axis=0)
    index = np.sum([np.clip(g, 0, n - 1) * s for g, n, s in zip(grids, shape, row_major(shape), strict=True)], axis=0)
    base = at.builder.broadcast(padding, shape, ())
    b = at.builder
    return b.put(base, b.const(index.astype(np.int32)), x, b.const(inside), "set")


@handles("iota")
def _iota(at: Importer, eqn: Any, inputs: list[Parts]) -> Value:
    return at.builder.iota(eqn.params["shape"], eqn.params["dimension"], np.dtype(eqn.params["dtype"]).name)


@handles("empty", "empty2")
def _empty(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    """Whatever is there, as a derivative leaves it of a branch that is not taken: zeros, as XLA has on CPUs."""
    return [zeros(at.builder, eqn.outvars[0])]
