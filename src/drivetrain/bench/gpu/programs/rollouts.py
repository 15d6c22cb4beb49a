"""Steps per second of our engines on the GPU, in turn: ROLLOUTS.py ENVIRONMENT N K ROUNDS SAID.json.

Actions lie on the device and results stay there; each turn ends when the device is done. XLA's turn is that of the
engine `xla` on JAX's default device. With one step per call there is a turn of a CUDA graph of such calls, too.
"""

# JAX is typed in part, and the engines' runners differ.
# pyright: basic, reportAttributeAccessIssue=false

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # or it would leave no memory for ours

import jax
import numpy as np
from cuda.core import Device

from drivetrain import sim
from drivetrain.bench.gpu.graphs import replayed
from drivetrain.bench.gpu.simulators import GRAPH, NUM_LAUNCHES
from drivetrain.bench.sim.peers.ours import random_actions

LEAST_S = 0.3


def main(env_name: str, num_envs: int, num_steps: int, num_rounds: int, file: Path) -> None:
    """Write {"engine, what is recorded": [steps per second, ...]}, and where XLA ran."""
    turns: dict[str, Callable[[int], None]] = {}
    for recorded, record in (("nothing", ()), ("everything", ("obs", "reward", "terminated", "truncated"))):
        for engine in ("cuda", "xla"):
            turns[f"{engine}, {recorded}"] = turn(engine, env_name, num_envs, num_steps, record)
        if num_steps == 1:
            turns[f"{GRAPH}, {recorded}"] = turn_of_graph(env_name, num_envs, record)
    found: dict[str, list[float]] = {name: [] for name in turns}
    for _ in range(num_rounds):
        for name, take in turns.items():
            per_call = NUM_LAUNCHES if name.startswith(GRAPH) else num_steps
            found[name].append(rate(take, num_envs * per_call))
    file.write_text(json.dumps({"rates": found, "xla on": jax.default_backend()}))


def turn(engine, env_name: str, num_envs: int, num_steps: int, record) -> Callable[[int], None]:
    """So many calls, waited for."""
    rollout = sim.compile(sim.make(env_name), num_envs, num_steps, engine, record=record)
    actions = random_actions(rollout.env, rollout.params, num_steps, num_envs)
    if engine == "cuda":
        actions = jax.tree.map(lambda x: rollout.runner.gpu.copied(np.asarray(x)), actions)
    state = rollout.reset(seed=0)

    def take(num_calls: int) -> None:
        nonlocal state
        for _ in range(num_calls):
            state, trajectory = rollout(state, actions)
        rollout.runner.gpu.stream.sync() if engine == "cuda" else jax.block_until_ready((state, trajectory))

    take(1)
    return take


def turn_of_graph(env_name: str, num_envs: int, record) -> Callable[[int], None]:
    """So many replays of a graph of single steps, waited for."""
    device = Device()
    device.set_current()
    rollout = sim.compile(sim.make(env_name), num_envs, 1, "cuda", record=record, stream=device.create_stream())
    gpu = rollout.runner.gpu
    actions = random_actions(rollout.env, rollout.params, 1, num_envs)
    actions = jax.tree.map(lambda x: gpu.copied(np.asarray(x)), actions)
    replay, _ = replayed(rollout, rollout.reset(seed=0), actions, NUM_LAUNCHES)

    def take(num_calls: int) -> None:
        for _ in range(num_calls):
            replay()
        gpu.stream.sync()

    take(1)
    return take


def rate(take: Callable[[int], None], num_per_call: int) -> float:
    """Steps per second over enough calls."""
    num_calls = 1
    while True:
        start_s = time.perf_counter()
        take(num_calls)
        passed_s = time.perf_counter() - start_s
        if passed_s >= LEAST_S:
            return num_calls * num_per_call / passed_s
        num_calls *= 2


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))
