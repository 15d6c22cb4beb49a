"""Random keys and numbers: the cipher Threefry on counters, to the bit as JAX does it.

jax.random with jax_threefry_partitionable, the default since 0.5: element k of a draw is the cipher of the
counter k. https://docs.jax.dev/en/latest/jax.random.html
"""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false, reportPrivateImportUsage=false

from collections.abc import Sequence
from math import prod
from typing import Any

import jax
import numpy as np

from drivetrain.core.errors import CompileError
from drivetrain.sim.ir.build import Builder
from drivetrain.sim.ir.importer.importer import Importer, Parts, handles
from drivetrain.sim.ir.importer.indexing import components
from drivetrain.sim.ir.program import Value


def counters(b: Builder, keys: Parts, shape: Sequence[int]) -> tuple[Parts, Parts]:
    """Keys and 64-bit counters for a draw of a shape under each of an array of keys."""
    if not getattr(jax.config, "jax_threefry_partitionable", True):
        raise CompileError('jax_threefry_partitionable is off: turn it on, or compile with engine="xla"')
    whole = (*keys[0].shape, *shape)
    low = np.broadcast_to(np.arange(prod(shape), dtype=np.uint32).reshape(shape), whole)
    k0, k1 = (b.broadcast(k, whole, range(len(k.shape))) for k in keys)
    return (k0, k1), (b.full(whole, 0, "uint32"), b.const(low))


@handles("random_split")
def _random_split(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    keys, counts = counters(at.builder, inputs[0], eqn.params["shape"])
    return [at.builder.threefry(*keys, *counts)]


@handles("random_bits")
def _random_bits(at: Importer, eqn: Any, inputs: list[Parts]) -> Value:
    width = eqn.params["bit_width"]
    if width > 32:
        raise at.unsupported(f"{width} random bits", "draw 32")
    keys, counts = counters(at.builder, inputs[0], eqn.params["shape"])
    bits = at.builder.elementwise("xor", *at.builder.threefry(*keys, *counts))
    return at.builder.convert(bits, f"uint{width}")


@handles("random_fold_in")
def _random_fold_in(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    (k0, k1), (data,) = inputs
    word = at.builder.convert(data, "uint32")
    return [at.builder.threefry(k0, k1, at.builder.full(word.shape, 0, "uint32"), word)]


@handles("random_seed")
def _random_seed(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    word = at.builder.convert(inputs[0][0], "uint32")
    return [(at.builder.full(word.shape, 0, "uint32"), word)]


@handles("random_wrap")
def _random_wrap(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    return [tuple(value for _, value in components(at.builder, inputs[0][0], (0, 1)))]


@handles("random_unwrap")
def _random_unwrap(at: Importer, eqn: Any, inputs: list[Parts]) -> Value:
    return at.builder.stack_last(inputs[0])


@handles("threefry2x32")
def _threefry2x32(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    return [(word,) for word in at.builder.threefry(*(value for (value,) in inputs))]
