"""A policy with layers of many forms, and its weights."""

import jax
import jax.numpy as jnp
import numpy as np

EXTRAS = ("also", "drawn", "five", "four", "last", "other", "own", "plain", "raised", "three", "total", "wide")


def gated(params, obs, key):
    """Two products in one sum, one that others and scalars read, by a matrix of its own, without activation, heads.

    One layer is read by heads alone, and its units never lie in memory; what is drawn needs hashes beside the layers.
    """
    first = jnp.tanh(obs @ params["in"] + params["bias"])
    gate = jax.nn.sigmoid(first @ params["gate"] + obs @ params["skip"])
    plain = (first * gate) @ params["plain"]
    deep = plain
    for k in range(3):
        deep = jnp.maximum(deep @ params["deep"][k] + plain, 0.1 * plain)
    own = jnp.outer(first[:8], plain) @ deep  # read across its rows: by a view
    other, three, also = gate @ params["other"], first @ params["three"], first @ params["also"]
    wide = first @ params["wide"]
    last = jnp.tanh(gate @ params["gate"] + 0.25) @ params["three"]
    five, four = deep @ params["five"], deep @ params["four"]
    action = (five[0] > four[1]).astype(jnp.int32)
    beside = {"five": five, "four": four, "own": own, "three": three, "also": also, "other": other, "wide": wide,
              "last": last, "drawn": jax.random.bits(key)}  # fmt: skip
    return action, {**beside, "raised": jnp.exp(wide), "plain": plain, "total": jnp.sum(deep)}


def weights():
    """Of `gated`: layers of 24 and 17."""
    rng = np.random.default_rng(3)
    shapes = {"in": (4, 24), "bias": (24,), "gate": (24, 24), "skip": (4, 24), "plain": (24, 17), "deep": (3, 17, 17),
              "five": (17, 5), "four": (17, 4), "three": (24, 3), "also": (24, 3), "other": (24, 3),
              "wide": (24, 66)}  # fmt: skip
    return {name: rng.normal(0, 0.4, shape).astype(np.float32) for name, shape in shapes.items()}
