"""Faults planted in passes are caught by comparing what programs give before and after the passes."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from mutants import MUTANTS, planted
from small_programs import assert_same_meaning, imported, random_program

from drivetrain.sim.ir.passes import pipeline

rng = np.random.default_rng(0)
N = 24
X, Y = (rng.integers(-9, 10, N, dtype=np.int32) for _ in range(2))
P = rng.random(N) < 0.5
SMALL = rng.integers(-5, 6, (N, 4, 5), dtype=np.int32)
LARGE = rng.integers(-5, 6, (N, 9, 9), dtype=np.int32)
WORDS = rng.integers(0, 2**32, (N, 2), dtype=np.uint32)
TABLE = jnp.arange(10) ** 2


def arithmetic(x, y, p):
    q = x < y
    return [x - 0, 0 + y, x - y * 1, y // 1, x * 2 + 0, ~q, ~(x < 3), (p * 1) == 1, (p * 1) != 1, x * p,
            jnp.where(p, x, jnp.where(p, y, x + 1)), jnp.where(~p, x, y), jnp.where(True, x, y)]  # fmt: skip


def positions(x, s):
    return [TABLE[x % 10], TABLE[jnp.clip(x, 0, 9)], s.T[1:, ::2][1], s[::-1, 2], s.reshape(-1)[jnp.array([3, 7, 11])],
            s[x % 4, 1], TABLE[jnp.argmax(s.reshape(-1)[:10])], jnp.abs(x % 5) < 5, jnp.maximum(x, -20),
            jnp.minimum(x + 3, 3), (x & 7) % 9, (x & 7) % 5, jnp.where(x < 5, x, 0) > 3,
            jnp.argmax(s.reshape(-1)[:10]) > 2, s[1, :4][s.at[0, 0].set(2)[0, 0]],
            jnp.int32(2**31 - 1) + (x & 7) > 0, (x % 7) < 6]  # fmt: skip


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
    return total, steps, grown, either, inside, jax.lax.cond(jnp.bool_(True), lambda: x, lambda: y)


FUNCTIONS = [(arithmetic, (X, Y, P)), (positions, (X, SMALL)), (rows, (X, SMALL, LARGE)),
             (changed_and_read, (X, LARGE)), (resets, (P, X, WORDS)), (loops, (P, X, Y))]  # fmt: skip


@functools.cache
def every_program():
    """Programs and arguments: of the functions above, and at random."""
    written = [(imported(function, *(x[0] for x in batches)), batches) for function, batches in FUNCTIONS]
    return written + [random_program(seed, size=40) for seed in range(4)]


def is_caught():
    """Whether a program changes its meaning, or cannot be rewritten at all."""
    for block, arguments in every_program():
        try:
            assert_same_meaning(block, pipeline.vectorizable(pipeline.simplified(block)), *arguments)
        except Exception:
            return True
    return False


def test_every_fault_of_a_pass_is_caught():
    assert not is_caught()
    survivors: list[str] = []
    for mutant in MUTANTS:
        with planted(mutant):
            if not is_caught():
                survivors.append(mutant.name)
    assert not survivors
