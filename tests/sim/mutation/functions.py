"""Functions that between them use what faults are planted in, each with a batch to try it on."""

import jax
import jax.numpy as jnp
import numpy as np

rng = np.random.default_rng(0)
N = 24
X, Y = (rng.integers(-9, 10, N, dtype=np.int32) for _ in range(2))
P = rng.random(N) < 0.5
SMALL = rng.integers(-5, 6, (N, 4, 5), dtype=np.int32)
LARGE = rng.integers(-5, 6, (N, 9, 9), dtype=np.int32)
PLACES = rng.integers(0, 6, (N, 70, 2), dtype=np.int32)
WORDS = rng.integers(0, 2**32, (N, 2), dtype=np.uint32)
NARROW = rng.integers(0, 256, N)
SQUARES = jnp.arange(100) ** 2
TABLE = jnp.arange(10) ** 2
SHIFTS = jnp.array([1, -1, 8, -8, 7, -7, 9, -9])
MASKS = jnp.asarray(rng.random((8, 81)) < 0.5)


def arithmetic(x, y, p):
    q = x < y
    return [x - 0, 0 + y, x - y * 1, y // 1, x * 2 + 0, ~q, ~(x < 3), (p * 1) == 1, (p * 1) != 1, x * p,
            jnp.where(p, x, jnp.where(p, y, x + 1)), jnp.where(~p, x, y), jnp.where(True, x, y)]  # fmt: skip


def positions(x, s):
    return [TABLE[x % 10], TABLE[jnp.clip(x, 0, 9)], s.T[1:, ::2][1], s[::-1, 2], s.reshape(-1)[jnp.array([3, 7, 11])],
            s[x % 4, 1], TABLE[jnp.argmax(s.reshape(-1)[:10])], jnp.abs(x % 5) < 5, jnp.maximum(x, -20),
            jnp.minimum(x + 3, 3), (x & 7) % 9, (x & 7) % 5, jnp.where(x < 5, x, 0) > 3,
            jnp.argmax(s.reshape(-1)[:10]) > 2, s[1, :4][s.at[0, 0].set(2)[0, 0]],
            jnp.int32(2**31 - 1) + (x & 7) > 0, (x % 7) < 6, s.at[x % 4].set(jnp.arange(5) + x), x * 2**30 == 0,
            (x & 7) * 3 + 1 != 7]  # fmt: skip


def rows(x, s, big):
    return [jnp.sort(s, 1), jnp.argsort(s[0] // 2), jnp.argmax(s // 2, 1), jnp.cumsum(s, 1),
            s.at[x % 4, 1].set(9), s.at[x, 1].set(8),
            s[0].at[jnp.array([4, 2, 0, 1, 3])].set(s[1]),
            jnp.where(x > 0, big.at[x % 9, 3].set(99), big), jnp.where(x > 0, big, big.at[0, x % 9].add(5)),
            big.sum(1), big[2:4, 5:7], jnp.pad(s[:2], 1)]  # fmt: skip


def changed_and_read(x, big):
    changed = big.at[x % 9, x % 9].set(50)
    return jnp.where(x > 0, changed, big), changed.sum()


def resets(p, x, words):
    key, other = jax.random.split(jax.random.wrap_key_data(words))
    fresh, late = (jax.random.bits(k).astype(jnp.int32) for k in (key, other))
    chosen = jnp.where(p, fresh, x)
    return chosen, jnp.where(p, x, late), jnp.where(p, late, x * 2), jnp.where(p, chosen * 3 + fresh, x + 1)


def loops(p, x, y):
    total, steps, _ = jax.lax.fori_loop(0, 6, lambda i, c: (c[0] + i * c[1], c[1] + x, c[2] * 2), (y, x, x))
    grown = jax.lax.while_loop(lambda c: c[0] < 50, lambda c: (c[0] + abs(c[1]) + 1, c[1] + 1), (x, y))
    either = jax.lax.cond(p, lambda: (x * 7, x - y), lambda: (y * 5, x * 7))
    product = x * 9 - y
    inside = jax.lax.cond(p, lambda: product * 2, lambda: x)
    goes_on = jax.lax.while_loop(lambda c: c[0], lambda c: (c[1] < x % 5, c[1] + 1), (jnp.bool_(True), 0))
    taken = jax.lax.cond(jnp.bool_(True), lambda: x, lambda: y)
    return total, steps, grown, either, inside, goes_on, taken


def by_tables(x, big):
    row = big.reshape(-1)

    def turn(i, carried):
        board, total, odd = carried
        rolled = jnp.roll((row > x) & MASKS[i], SHIFTS[i])
        beyond = jnp.where((SHIFTS[i] > 0) & ~(i % 3 == 1), jnp.maximum(i, 2), jnp.minimum(SHIFTS[i] // 3, 5))
        signs = jnp.sign(SHIFTS[i]) * 3 + i
        chosen = jnp.where((odd == (i > 3)) & MASKS[i, 6], i, 100 * i)  # lanes' Booleans beside those of all lanes
        return (
            board ^ rolled,
            total + row[beyond % 81] * ~i - row[signs % 81] + chosen,
            odd ^ (i > 3) ^ (~MASKS[i, 5] & MASKS[i, 6]),
        )

    return jax.lax.fori_loop(0, 8, turn, (row > 0, x, x > 0))


def meetings(x, places):
    same = jnp.all(places[:, None] == places[None] + x % 2, axis=-1)
    return jnp.argmax(same, 1), same.any(1), same.sum(0), (places * 2 - x).max(-1)


def orders(small):
    x = jnp.where(small == 0, jnp.nan, small * 1.0)
    return [jnp.sort(x, 1), jnp.argsort(x[0]), jnp.argmax(x, 1), jnp.argmin(x, 1),
            jax.lax.sort((x[0], x[1], small[0]), num_keys=2)]  # fmt: skip


def orders_of_many(small, places, p):
    signs = p ^ (jnp.arange(20).reshape(4, 5) % 3 == 0)
    x = jnp.where(
        small == 0,
        jax.lax.bitcast_convert_type(jnp.where(signs, 0x7FC00000, -0x400000), jnp.float32),
        (small + 1) // 2 * jnp.where(p, 1.0, -1.0),
    )
    bits = jax.lax.bitcast_convert_type(jnp.sort(x.reshape(-1)[:9]), jnp.int32)
    row, key, narrow = x[:2].reshape(-1), places[:, 0], small[:2].reshape(-1).astype(jnp.int8)
    return [bits, jnp.argsort(row), jnp.sort(row[:3]), jax.lax.sort((small[0].astype(jnp.uint32), row[5:]), num_keys=1),
            jnp.argsort(narrow), jnp.argsort(key), jnp.sort(narrow > 2), jnp.sort(key > 2), jnp.sort(key),
            jax.lax.sort((key.astype(jnp.uint8), places[:, 1]), num_keys=1)]  # fmt: skip


def large_arrays(x, p, big, places):
    own = big + 1
    doubled = own * 2
    changed = own.at[x % 9, 4].set(50)
    odd = jnp.where(places[:, 0] == x % 6, jnp.nan, places[:, 1] * 1.0)
    ordered = jax.lax.sort((places[:, 0], places[:, 1], jnp.arange(70)), num_keys=2)
    strided = [
        jnp.concatenate([places, places + x])[60:90, ::-1],
        (places * 3 - x)[::2] + 1,
        (places * 2)[::-2] - x,
        big.T + own,
        own[:8].sum(1),
    ]
    return [changed, doubled.sum(0), own.sum(0), jnp.where(p, big.at[3, 4].set(7), big), jnp.argmax(odd),
            jnp.argmin(odd), ordered, strided, SQUARES[(x * 11) % 100], own > x]  # fmt: skip


def branches(x, y, p, big):
    own = big * 2 - y
    either = jax.lax.cond(p, lambda: own, lambda: own.at[x % 9, 4].set(1))
    both = jax.lax.cond(p, lambda: (own, own), lambda: (own.at[0, 0].set(1), own.at[1, 1].set(2)))
    twin = big - x
    twins = jax.lax.cond(p, lambda: (twin, twin), lambda: (twin.at[0, 0].set(1), twin.at[1, 1].set(2)))
    again = jax.lax.fori_loop(0, 3, lambda i, c: c + jax.lax.cond(p, lambda: own, lambda: own.at[i, i].set(c))[1, 1], x)
    swapped = jax.lax.fori_loop(0, 3, lambda i, c: (c[1], c[0]), (own, big))
    counted = jax.lax.cond(x > 0, lambda: jax.lax.while_loop(lambda n: n < 50, lambda n: n + 7, y), lambda: y)
    return either, both, twins, again, swapped, counted, own.sum(1)


def starts(x, p, big, words):
    drawn = (jax.random.bits(jax.random.wrap_key_data(words)) % 9).astype(jnp.int32)
    numbers = jnp.zeros((9, 9), jnp.int32).at[drawn, 4].set(7).at[x % 9, 1].set(x).at[:, 8].set(jnp.arange(9))
    numbers = jnp.where(x > 2, numbers.at[drawn, drawn].add(50), numbers)
    flags = jnp.zeros((9, 9), bool).at[drawn, x % 9].set(True).at[x % 9, x % 9].set(x > 0)
    added = jnp.zeros((9, 9), jnp.int32).at[x % 9, 2].max(300).at[x % 9].max(200).astype(jnp.uint8)
    other = jnp.zeros((9, 9), bool).at[x + 4, 2].set(True).at[3].set(big[3] > x)
    own = big + x
    read = jnp.ones((9, 9), jnp.int32).at[drawn].set(big[x % 9])
    shifted, doubled = jnp.zeros((19, 9), jnp.int32).at[jnp.arange(9) + drawn].set(own), (own * 2).at[drawn, 1].set(4)
    seen = jnp.where(p, numbers, own), jnp.where(p, flags.astype(jnp.float32), other.astype(jnp.float32))
    filled = jnp.full((9, 9), x).at[drawn, 5].set(60).at[jnp.arange(9), x % 9].set(jnp.arange(9) * x)
    seen = *seen, jnp.where(p, filled, big)
    return seen, added, jnp.where(p, read, big), jnp.where(p, shifted, x), jnp.where(p, doubled, big * 3)


def some_of_many(x, big):
    row = big.reshape(-1)
    few, least, least_number = row == x, row > -6, jnp.int32(-(2**31))
    counts = few.sum() == 0, (few.sum() != 0) & (few.sum() > 0), few.astype(jnp.int8).sum() > 0
    each = jnp.where(row == x, 0, jnp.arange(81))
    bits = jax.lax.reduce_or(each | least_number, (0,)), jax.lax.reduce_and(127 - each, (0,))
    wrapped = (jnp.arange(256) >= x - 99).astype(jnp.uint8).sum(dtype=jnp.uint8) == 0
    counts = *counts, few.sum() > 7, few.astype(jnp.int32).max() == 0, few.astype(jnp.int32).min() == 0, wrapped
    return few.any(), (row != x).all(), least.all(), (big == x).any(1), counts, (big > x).sum() == 0, bits


def limits(x, p, words):
    far = jnp.where(p, jnp.nan, x * 1e10)
    arithmetic = jax.lax.shift_right_arithmetic(words, (words >> 3) & 63)
    first_bits = jax.lax.clz(jnp.uint32(1) << (words & 31))
    largest = jnp.maximum(far, 1.0), jnp.minimum(far, 1.0), jnp.maximum(1.0, far)
    whole = jnp.floor(x * 1.0), jax.lax.round(x * 0.5, jax.lax.RoundingMethod.AWAY_FROM_ZERO)
    return (
        largest,
        whole,
        far.astype(jnp.int32),
        far.astype(jnp.uint32),
        jax.lax.shift_left(x, x & 63),
        arithmetic,
        first_bits,
    )


def narrow_integers(x, small, narrow, p):
    wide, least = small.astype(jnp.int16) * 300, jnp.int32(-(2**31))
    wrapped = [small + small, small * small, narrow + narrow, narrow * 3, ~narrow, -small, wide]
    return [*wrapped, *(each.astype(jnp.int32) for each in wrapped), jax.lax.clz(narrow).astype(jnp.int32), x ^ least,
            jnp.maximum(p, x > 0), jnp.minimum(p, x > 0), jax.lax.clz(small).astype(jnp.int32),
            jax.lax.population_count(small)]  # fmt: skip


FUNCTIONS = [(arithmetic, (X, Y, P)), (positions, (X, SMALL)), (rows, (X, SMALL, LARGE)),
             (changed_and_read, (X, LARGE)), (resets, (P, X, WORDS)), (loops, (P, X, Y)),
             (by_tables, (X, LARGE)), (meetings, (X, PLACES)), (orders, (SMALL,)),
             (orders_of_many, (SMALL, PLACES, P)),
             (large_arrays, (X, P, LARGE, PLACES)), (branches, (X, Y, P, LARGE)),
             (starts, (X, P, LARGE, WORDS)), (some_of_many, (X, LARGE)), (limits, (X, P, WORDS)),
             (narrow_integers, (X, NARROW.astype(np.int8), NARROW.astype(np.uint8), P))]  # fmt: skip
