"""Random numbers for authors of environments, under JAX's keys or under a stateless counter.

An environment that draws with these functions runs under both generators of `sim.compile`:

threefry   JAX's own keys: every split and draw hashes, and equals what `jax.random` gives
philox     a counter: a step's key is (environment's two words, step, purpose), made without hashing, and one call
           of Philox4x32-10 gives four words

Nothing is kept between draws: word j of a draw depends on the key and j alone, whatever ran before, on every
engine. Two draws under one key are related; split it, as with JAX's.

Reference: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", section 3.3.
"""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from collections.abc import Sequence
from math import prod
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np

from drivetrain.core.errors import InvalidInput

__all__ = ["bernoulli", "bits", "categorical", "fold_in", "normal", "randint", "split", "uniform"]
# For authors of environments and policies; the rest of this file is for engines.

Generator = Literal["threefry", "philox"]
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
NUM_ROUNDS = 10
# What the last word of a Philox counter says that its output is for.
DRAW, FOLD_IN, SPLIT = 0, 1, 2
# What a step's or an episode's key is for.
STEP, RESET, FIRST, POLICY = 0, 1, 2, 3
_BEFORE = 2**32 - 1  # in the place of a step's number


class Counter(NamedTuple):
    """A key of the generator "philox": four words uint32[]."""

    k0: Any
    k1: Any
    step: Any
    purpose: Any


Key = jax.Array | Counter


def check_generator(generator: str) -> None:
    """Refuse a generator that there is not."""
    if generator not in get_args(Generator):
        raise InvalidInput(f"generator: expected one of {', '.join(get_args(Generator))}, got {generator!r}")


def keys_of_step(words: jax.Array, number: jax.Array, generator: Generator) -> tuple[Key, Key]:
    """Keys of the step's own draws and of the next episode's start.

    Args:
        words: uint32[2], the environment's.
        number: uint32, steps since the rollout's reset.
        generator: With "threefry" the keys are those of gymnax: `split(fold_in(key, number))`.
    """
    if generator == "philox":
        step, reset = (Counter(words[0], words[1], number, jnp.uint32(purpose)) for purpose in (STEP, RESET))
        return step, reset
    step, reset = jax.random.split(jax.random.fold_in(jax.random.wrap_key_data(words), number))
    return step, reset


def first_key(words: jax.Array, generator: Generator) -> Key:
    """The key of the first episode's start, from the environment's words uint32[2].

    With "threefry" it is that of a step which no rollout comes to: the words themselves, split twice, would be the keys
    of the first steps.
    """
    if generator == "philox":
        return Counter(words[0], words[1], jnp.uint32(0), jnp.uint32(FIRST))
    return jax.random.fold_in(jax.random.wrap_key_data(words), _BEFORE)


def policy_key(words: jax.Array, number: jax.Array, generator: Generator) -> Key:
    """The key of a policy's draws in a step: `fold_in(fold_in(key, number), 3)`, which no other key of the step is.

    Args:
        words: See `keys_of_step`, as for the others.
    """
    if generator == "philox":
        return Counter(words[0], words[1], number, jnp.uint32(POLICY))
    return jax.random.fold_in(jax.random.fold_in(jax.random.wrap_key_data(words), number), POLICY)


def jax_key(key: Key) -> jax.Array:
    """A key for functions that know JAX's alone; of a counter, from two words of it."""
    return jax.random.wrap_key_data(bits(key, (2,))) if isinstance(key, Counter) else key


def split(key: Key, num: int = 2) -> Any:
    """Keys of streams of their own: one array of JAX's, or a tuple of counters."""
    if not isinstance(key, Counter):
        return jax.random.split(key, num)
    return tuple(Counter(*hashed(key, jnp.uint32(k), SPLIT)) for k in range(num))


def fold_in(key: Key, data: Any) -> Any:
    """The key of a stream for each number `data`."""
    if not isinstance(key, Counter):
        return jax.random.fold_in(key, data)
    return Counter(*hashed(key, jnp.asarray(data, jnp.uint32), FOLD_IN))


def bits(key: Key, shape: Sequence[int] = ()) -> jax.Array:
    """Uniform uint32 words."""
    if not isinstance(key, Counter):
        return jax.random.bits(key, tuple(shape), jnp.uint32)
    size = prod(shape)
    blocks = jnp.arange(-(-size // 4), dtype=jnp.uint32)
    words = jnp.stack(hashed(key, blocks, DRAW), axis=-1)
    return words.reshape(-1)[:size].reshape(tuple(shape))


def uniform(key: Key, shape: Sequence[int] = (), minval: Any = 0.0, maxval: Any = 1.0) -> jax.Array:
    """float32 in [minval, maxval), from 23 bits."""
    if not isinstance(key, Counter):
        return jax.random.uniform(key, tuple(shape), jnp.float32, minval, maxval)
    require_room(shape, minval, maxval)
    low, high = jnp.float32(minval), jnp.float32(maxval)
    mantissa = (bits(key, shape) >> 9) | jnp.uint32(0x3F800000)
    unit = jax.lax.bitcast_convert_type(mantissa, jnp.float32) - jnp.float32(1.0)
    return jnp.maximum(low, unit * (high - low) + low)


def randint(key: Key, shape: Sequence[int], minval: Any, maxval: Any) -> jax.Array:
    """int32 in [minval, maxval), minval if there is none; under a counter biased by less than span / 2^32."""
    if not isinstance(key, Counter):
        return jax.random.randint(key, tuple(shape), minval, maxval, jnp.int32)
    require_room(shape, minval, maxval)
    low, high = jnp.asarray(minval, jnp.int32), jnp.asarray(maxval, jnp.int32)
    span = jnp.where(low < high, (high - low).astype(jnp.uint32), jnp.uint32(0))
    return low + product(bits(key, shape), span)[0].astype(jnp.int32)


def bernoulli(key: Key, p: Any = 0.5, shape: Sequence[int] = ()) -> jax.Array:
    """True with probability p."""
    if not isinstance(key, Counter):
        return jax.random.bernoulli(key, p, tuple(shape))
    require_room(shape, p)
    return uniform(key, shape) < p


def normal(key: Key, shape: Sequence[int] = ()) -> jax.Array:
    """float32 of mean 0 and deviation 1."""
    if not isinstance(key, Counter):
        return jax.random.normal(key, tuple(shape), jnp.float32)
    above_minus_one = -1.0 + 2.0**-24
    return jnp.float32(2.0**0.5) * jax.lax.erf_inv(uniform(key, shape, above_minus_one, 1.0))


def categorical(key: Key, logits: jax.Array) -> jax.Array:
    """int32: k of the last axis with probability softmax(logits)[k], where logits with Gumbel noise are largest."""
    if not isinstance(key, Counter):
        return jax.random.categorical(key, logits)
    smallest = float(jnp.finfo(jnp.float32).tiny)
    noise = -jnp.log(-jnp.log(uniform(key, logits.shape, smallest, 1.0)))
    return jnp.argmax(logits + noise, axis=-1)


def require_room(shape: Sequence[int], *values: Any) -> None:
    """Refuse what would share one draw, as `jax.random` does: of numbers in an array, each is drawn for by itself."""
    wanted = np.broadcast_shapes(tuple(shape), *map(np.shape, values))
    if wanted != tuple(shape):
        raise ValueError(f"expected the shape of as many draws as there are numbers, {wanted}, got {tuple(shape)}")


def hashed(key: Counter, index: jax.Array, use: int) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Four words for every index under a key."""
    shape = jnp.shape(index)
    counter = (jnp.broadcast_to(x, shape) for x in (key.step, key.purpose, index, jnp.uint32(use)))
    return philox(key.k0, key.k1, *counter)


def philox(k0: Any, k1: Any, c0: Any, c1: Any, c2: Any, c3: Any) -> tuple[Any, Any, Any, Any]:
    """Philox4x32 with 10 rounds: the four words of a counter under a key, all uint32 and elementwise.

    A loop, because XLA fuses written-out rounds into one expression and computes what is used twice twice: 2^10
    times in the end.
    """
    shape = jnp.shape(c2)

    def one(_: Any, words: tuple[Any, ...]) -> tuple[Any, ...]:
        c0, c1, c2, c3, r0, r1 = words
        high0, low0 = product(c0, jnp.uint32(MULTIPLIERS[0]))
        high1, low1 = product(c2, jnp.uint32(MULTIPLIERS[1]))
        return high1 ^ c1 ^ r0, low1, high0 ^ c3 ^ r1, low0, r0 + jnp.uint32(WEYL[0]), r1 + jnp.uint32(WEYL[1])

    start = tuple(jnp.broadcast_to(jnp.asarray(x, jnp.uint32), shape) for x in (c0, c1, c2, c3, k0, k1))
    c0, c1, c2, c3, *_ = jax.lax.fori_loop(0, NUM_ROUNDS, one, start)
    return c0, c1, c2, c3


def product(x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Upper and lower word of a product of uint32, in halves: JAX has no 64-bit integers unless asked."""
    mask = jnp.uint32(0xFFFF)
    x0, x1, y0, y1 = x & mask, x >> 16, y & mask, y >> 16
    middle = x1 * y0 + (x0 * y0 >> 16)  # neither sum exceeds a word
    other = x0 * y1 + (middle & mask)
    return x1 * y1 + (middle >> 16) + (other >> 16), x * y
