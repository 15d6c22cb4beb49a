"""Flashbax's prioritised item buffer, compiled by JAX, its state donated.

Settings: `make_prioritised_item_buffer(add_batches=True)` holds whole transitions; for shared
frames `make_prioritised_flat_buffer`, which stores each observation once and pairs neighbours.
Every call is compiled for its size before it is timed, with the state donated where it changes, and
is over when its arrays are ready. Importance weights, which the library leaves to its user, are
computed inside the compiled sampling.

Left out: its samples have one flag `done`; no check that an updated row is still the one sampled;
a pair of the flat buffer crosses the end of an episode. Sums are float32.
"""

# The peer may be absent where types are checked.
# pyright: basic, reportMissingImports=false

from collections.abc import Callable
from typing import Any

import flashbax
import jax
import jax.numpy as jnp

from drivetrain.bench.replay.layouts import Layout, Step, make_steps
from drivetrain.bench.replay.operations import ALPHA, BETA
from drivetrain.bench.replay.peers.entry import FILL_ENVS, Offer, serve
from drivetrain.bench.replay.store import Inserter, Updater
from drivetrain.bench.serving import NotOffered


class FlashbaxStore:
    """A state that all compiled calls share, whatever their batch."""

    def __init__(self, layout: Layout, capacity: int) -> None:
        self.layout, self.capacity = layout, capacity
        first = jax.tree.map(lambda field: field[0], as_arrays(make_steps(layout, 1, seed=0, num_steps=1)[0], layout))
        self.state = jax.jit(self.buffer(1).init)(first)
        self.key = jax.random.key(0)

    def buffer(self, batch_size: int) -> Any:
        """The functions for one batch size; states of all sizes are alike."""
        settings: dict[str, Any] = {
            "max_length": self.capacity,
            "min_length": 1,
            "sample_batch_size": batch_size,
            "priority_exponent": ALPHA,
            "device": "cpu",
        }
        if self.layout.shared:
            return flashbax.make_prioritised_flat_buffer(**settings, add_batch_size=FILL_ENVS)
        return flashbax.make_prioritised_item_buffer(**settings, add_batches=True)

    def inserter(self, num_envs: int) -> Inserter:
        """Steps as device arrays; the flat buffer has a fixed number of environments."""
        if self.layout.shared and num_envs != FILL_ENVS:
            raise NotOffered(f"this flat buffer has {FILL_ENVS} environments")
        add = jax.jit(self.buffer(1).add, donate_argnums=0)

        def insert(step: Any) -> None:
            self.state = jax.block_until_ready(add(self.state, step))

        return Inserter(lambda step: as_arrays(step, self.layout), insert)

    def sampler(self, batch_size: int) -> Callable[[], Any]:
        """Experience, indices and probabilities, and the weights."""
        draw = self.buffer(batch_size).sample

        @jax.jit
        def sample(state: Any, key: Any) -> tuple[Any, Any, Any]:
            key, drawing = jax.random.split(key)
            batch = draw(state, drawing)
            weights = (batch.probabilities / batch.probabilities.min()) ** -BETA
            return batch, weights, key

        def call() -> Any:
            batch, weights, self.key = jax.block_until_ready(sample(self.state, self.key))
            return batch, weights

        return call

    def updater(self, batch_size: int) -> Updater:
        """By index; the exponent is taken inside."""
        set_priorities = jax.jit(self.buffer(batch_size).set_priorities, donate_argnums=0)

        def update(sample: Any, priorities: Any) -> None:
            self.state = jax.block_until_ready(set_priorities(self.state, sample[0].indices, priorities))

        return Updater(jnp.asarray, update)


def as_arrays(step: Step, layout: Layout) -> dict[str, Any]:
    """A step as device arrays; the flat buffer finds the next observation in the step after."""
    names = ("obs", "action", "reward") if layout.shared else ("obs", "action", "reward", "next_obs")
    done = step["terminated"] | step["truncated"]
    return {name: jnp.asarray(step[name]) for name in names} | {"done": jnp.asarray(done)}


if __name__ == "__main__":
    serve(Offer(FlashbaxStore))
