"""Typed random keys that an environment hands out, as in its state: rollouts hold their words, on every engine.

An environment is given back the keys that it gave. What leaves a step is numbers, which NumPy has and kernels write:
jax.random.key_data(key), uint32[..., 2] of threefry's. jax.random.wrap_key_data(words) makes a key of them.
"""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from collections.abc import Sequence
from typing import Any

import jax

from drivetrain.sim.api import Tree
from drivetrain.sim.ir.importer import is_key

Kinds = Sequence[Any]
"""For each leaf of a tree the generator whose key it is; None of numbers."""


def is_one(leaf: Any) -> bool:
    """Whether a leaf, which may be a number of Python's, is an array of keys."""
    return hasattr(leaf, "dtype") and is_key(leaf)


def as_words(tree: Tree) -> Tree:
    """The tree with keys as their words."""
    return jax.tree.map(lambda x: jax.random.key_data(x) if is_one(x) else x, tree)


def kinds_of(tree: Tree) -> Kinds:
    """What `as_words` takes off."""
    return [jax.random.key_impl(x) if is_one(x) else None for x in jax.tree.leaves(tree)]


def as_keys(words: Tree, kinds: Kinds) -> Tree:
    """The tree before `as_words`."""
    leaves, structure = jax.tree.flatten(words)
    pairs = zip(leaves, kinds, strict=True)
    return jax.tree.unflatten(structure, [x if k is None else jax.random.wrap_key_data(x, impl=k) for x, k in pairs])
