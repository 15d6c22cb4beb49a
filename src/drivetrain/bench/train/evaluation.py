"""The evaluator that all rivals share: greedy episodes on fixed seeds, by NumPy alone.

One implementation for everybody, so that nobody's evaluation is better, luckier or dearer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import gymnasium
import numpy as np
from numpy.typing import NDArray

Layers = Sequence[tuple[NDArray[np.float32], NDArray[np.float32]]]  # (kernel [in, out], bias [out])
Activation = Literal["relu", "tanh"]

FIRST_SEED = 1_000_000  # far from the seeds anybody trains or selects with


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Mean return over the episodes; only an upper bound of it when `exact` is False."""

    mean: float
    exact: bool


def outputs(layers: Layers, obs: NDArray[np.float32], activation: Activation = "relu") -> NDArray[np.float32]:
    """Outputs [batch, actions] of a multilayer perceptron."""
    hidden = obs
    for kernel, bias in layers[:-1]:
        inputs = hidden @ kernel + bias
        hidden = np.maximum(inputs, 0.0) if activation == "relu" else np.tanh(inputs)
    kernel, bias = layers[-1]
    return hidden @ kernel + bias


def evaluate(
    layers: Layers,
    env: str,
    *,
    num_episodes: int,
    target: float | None = None,
    activation: Activation = "relu",
    squashed: bool = False,
) -> Evaluation:
    """Play greedy episodes side by side, one per seed.

    Args:
        layers: The network: a number for each discrete action, or for each real-valued one.
        env: Gymnasium id. With a target, its reward per step must be at most 1.
        num_episodes: One per seed from `FIRST_SEED` on.
        target: Give up as soon as the mean can no longer reach it; None plays to the end.
        activation: Between its layers.
        squashed: Real-valued actions are the outputs through tanh, -1..1 being the bounds; otherwise the
            outputs are in the environment's units.
    """
    envs: list[gymnasium.Env[Any, Any]] = [cast(Any, gymnasium).make(env) for _ in range(num_episodes)]
    limit = envs[0].spec.max_episode_steps if envs[0].spec else None
    choose = chooser(layers, envs[0].action_space, activation, squashed=squashed)
    try:
        return play(choose, envs, target if limit else None, limit or 0)
    finally:
        for each in envs:
            each.close()


def chooser(
    layers: Layers, space: Any, activation: Activation, *, squashed: bool = False
) -> Callable[[NDArray[np.float32]], list[Any]]:
    """The greedy actions of a batch of observations: of largest output, or the outputs within bounds."""

    def choose(obs: NDArray[np.float32]) -> list[Any]:
        numbers = outputs(layers, obs, activation)
        if isinstance(space, gymnasium.spaces.Discrete):
            return numbers.argmax(axis=1).tolist()
        if squashed:
            return list(space.low + (np.tanh(numbers) + 1) / 2 * (space.high - space.low))
        return list(np.clip(numbers, space.low, space.high))

    return choose


def play(
    choose: Callable[[NDArray[np.float32]], list[Any]],
    envs: Sequence[gymnasium.Env[Any, Any]],
    target: float | None,
    limit: int,
) -> Evaluation:
    """Step all unfinished episodes together until none is left, or the target is out of reach."""
    returns = np.zeros(len(envs))
    obs = np.stack([env.reset(seed=FIRST_SEED + i)[0] for i, env in enumerate(envs)])
    alive = list(range(len(envs)))
    num_steps = 0
    while alive:
        actions = choose(obs[alive].astype(np.float32))
        still: list[int] = []
        for index, action in zip(alive, actions, strict=True):
            obs[index], reward, terminated, truncated, _ = envs[index].step(action)
            returns[index] += float(reward)
            if not (terminated or truncated):
                still.append(index)
        alive, num_steps = still, num_steps + 1
        bound = (returns.sum() + len(alive) * (limit - num_steps)) / len(envs)
        if target is not None and alive and bound < target:
            return Evaluation(mean=float(bound), exact=False)
    return Evaluation(mean=float(returns.mean()), exact=True)
