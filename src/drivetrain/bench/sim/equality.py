"""Whether an engine takes XLA's steps: one by one from XLA's state, and on its own for all of them.

A process of its own:   {"env", "engine", "num_envs", "num_steps"} -> Equality

Step by step, integers, Booleans and keys have to be the same and floats within 1e-5 (relative, or 1e-6 absolute).
On their own, simulators of floats leave each other in time, because roundings grow; those of integers must not.
"""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, cast

import jax
import numpy as np
import numpy.typing as npt

from drivetrain import sim
from drivetrain.bench.serving import NotOffered, serve
from drivetrain.bench.sim.key_words import KeyWords
from drivetrain.core.errors import CompileError
from drivetrain.sim.api import RECORDABLE, Engine
from drivetrain.sim.random import Generator

RELATIVE, ABSOLUTE = 1e-5, 1e-6
WORDS = "random words"
"""In place of an environment: words under a generator, as "random words, philox"."""

Array = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Equality:
    """What a comparison found.

    Attributes:
        num_wrong: Numbers that differ by more than they may, step by step.
        num_compared: All of them.
        largest_error: Of floats, relative to the larger of 1 and XLA's.
        num_ended: Episodes that ended.
        share_equal: Environments that were the same at every step of their own.
    """

    num_wrong: int
    num_compared: int
    largest_error: float
    num_ended: int
    share_equal: float


def compare(name: str, engine: Engine, num_envs: int, num_steps: int) -> Equality:
    """Compare an engine with XLA.

    Raises:
        NotOffered: The engine cannot compile the environment.
    """
    of_words, _, generator = name.partition(", ")
    env = KeyWords() if of_words == WORDS else sim.make(name)
    options: Any = {"record": RECORDABLE, "generator": cast("Generator", generator or "threefry")}
    try:
        engines = [[sim.compile(env, num_envs, k, each, **options) for k in (1, num_steps)] for each in ("xla", engine)]
    except CompileError as error:
        raise NotOffered(str(error)) from error
    (oracle, oracle_all), (tested, tested_all) = engines
    start = oracle.reset(seed=3)
    keys = jax.random.split(jax.random.key(0), num_steps * num_envs)
    drawn = jax.jit(jax.vmap(oracle.env.action_space(oracle.params).sample))(keys)
    actions = jax.tree.map(lambda x: np.asarray(x).reshape(num_steps, num_envs, *x.shape[1:]), drawn)
    tally, state, num_ended = Tally(), start, 0
    for number in range(num_steps):
        here = jax.tree.map(lambda x, number=number: x[number : number + 1], actions)
        expected, got = oracle(state, here), tested(state, here)
        tally.add(expected, got)
        state = expected[0]
        num_ended += int(np.sum(np.asarray(state.done)))
    same = same_environments(oracle_all(start, actions)[1], tested_all(start, actions)[1])
    return Equality(
        num_wrong=tally.num_wrong,
        num_compared=tally.num_compared,
        largest_error=tally.largest_error,
        num_ended=num_ended,
        share_equal=float(np.mean(same)),
    )


class Tally:
    """Counts over many comparisons."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.num_wrong, self.num_compared, self.largest_error = 0, 0, 0.0

    def add(self, expected: Any, got: Any) -> None:
        """Compare two pytrees, number by number."""
        for x, y in zip(jax.tree.leaves(expected), jax.tree.leaves(got), strict=True):
            x, y = np.asarray(x), np.asarray(y)
            self.num_compared += x.size
            self.num_wrong += int(np.sum(differs(x, y)))
            if x.dtype.kind == "f" and x.size:
                error = np.abs(np.subtract(y, x, dtype=np.float64)) / np.maximum(1, np.abs(x))
                self.largest_error = max(self.largest_error, float(np.nanmax(np.nan_to_num(error, posinf=0))))


def differs(x: Array, y: Array) -> Array:
    """Which numbers of XLA's, x, and an engine's, y, are not as good as the same."""
    if (x.shape, x.dtype) != (y.shape, y.dtype):
        return np.ones(x.shape, bool)
    return ~np.isclose(y, x, rtol=RELATIVE, atol=ABSOLUTE, equal_nan=True) if x.dtype.kind == "f" else x != y


def same_environments(expected: Any, got: Any) -> Array:
    """bool[num_envs]: whose trajectories, leading axes [num_steps, num_envs], are the same throughout."""
    same = []
    for x, y in zip(jax.tree.leaves(expected), jax.tree.leaves(got), strict=True):
        wrong = differs(np.asarray(x), np.asarray(y))
        same.append(~np.any(wrong.reshape(*wrong.shape[:2], -1), axis=(0, 2)))
    return np.all(same, axis=0)


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """Carry out a request."""
    return asdict(compare(request["env"], request["engine"], request["num_envs"], request["num_steps"]))


if __name__ == "__main__":
    serve(answer)
