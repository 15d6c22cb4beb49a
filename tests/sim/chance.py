"""An environment with everything that tiles in groups have to keep apart."""

import jax
import jax.numpy as jnp

from drivetrain.sim.spaces import Discrete


class Chance:
    """Ends by chance, passes values of both sides of the branch on, and keeps a large state if asked to.

    What is shown last is drawn in every step and at every start, and no step reads it; the state has it twice.
    """

    name = "Chance"
    default_params = None

    def __init__(self, size=2, draws=4):
        self.size, self.draws = size, draws

    def reset(self, key, params):
        x = jax.random.uniform(key, (self.draws,)).sum()
        shown = jax.random.uniform(jax.random.fold_in(key, 1)) if self.draws else x
        return jnp.full(2, x), (jnp.full(self.size, x), jnp.int32(0), x > 2, shown, shown)

    def step(self, key, state, action, params):
        x, time, flag, *_ = state
        x = x * 0.9 + action * jax.random.uniform(key)
        ended = (x[0] > 2.2) | flag & (time > 3)
        obs, shown = jnp.stack([x[-1], time.astype(jnp.float32)]), x[0] * jax.random.uniform(jax.random.fold_in(key, 1))
        return obs, (x, time + 1, x[0] > 2, shown, shown), x[0] + time, ended, time >= 20, {"flag": flag}

    def action_space(self, params):
        return Discrete(3)


class Jumping(Chance):
    """Jumps where it is far, at random and at the cost of more draws than a start takes, before it may end."""

    name = "Jumping"

    def step(self, key, state, action, params):
        obs, (x, *rest), reward, *more = super().step(key, state, action, params)
        jump = jax.random.uniform(jax.random.fold_in(key, 2), (4 * self.draws,)).sum() * 0.01
        after = jnp.where(x[0] > 1, x * 0.9 + jump, x)
        return obs, (after, *rest), reward + after[0] * after[1], *more
