"""A process with two CPU devices: U updates by one learner and by two, in float64 and in float32.

    python learning_process.py ALGO... -> JSON on standard output

JAX takes its number of devices once per process, and the tests' own process has one.
"""

import importlib
import json
import sys

import jax
import numpy as np

from drivetrain.train.config import TrainConfig
from drivetrain.train.interface import BoxActions, DiscreteActions, Interface, Vector
from drivetrain.train.updates import Batch, Learners, compile_updates, for_everyone

ROWS, INPUTS, ACTIONS, UPDATES_PER_CALL, CALLS = 12, 3, 2, 8, 3
BOX = BoxActions(low=(-1.0,) * ACTIONS, high=(1.0,) * ACTIONS, shape=(ACTIONS,), dtype="float32")
COMPILED = [0]
COMPILED_UPDATES = {}


def count_compilation(event, _duration, **_):
    COMPILED[0] += event == "/jax/core/compile/backend_compile_duration"


def interface_of(algo):
    actions = DiscreteActions(count=ACTIONS, start=0) if algo == "dqn" else BOX
    return Interface(observations=Vector(shape=(INPUTS,)), actions=actions)


def batches(seed, algo, dtype):
    rng = np.random.default_rng(seed)
    lead = (UPDATES_PER_CALL, ROWS)
    obs, next_obs = (rng.normal(size=(*lead, INPUTS)).astype(dtype) for _ in range(2))
    box = np.tanh(rng.normal(size=(*lead, ACTIONS))).astype(dtype)
    action = rng.integers(0, ACTIONS, lead).astype(np.int32) if algo == "dqn" else box
    reward, discount = rng.normal(size=lead).astype(dtype), rng.choice([0.0, 0.97], lead).astype(dtype)
    return Batch(obs, action, reward, next_obs, discount, rng.uniform(0.2, 1.0, lead).astype(dtype))


def learn(algo, num_learners, dtype, settings):
    """The numbers of the last state, all TD errors, the metrics, and compilations after the first call."""
    config = TrainConfig.default(algo, "E").override(hidden=(8,), warmup_steps=5_000, batch_size=ROWS, **settings)
    algorithm = importlib.import_module(f"drivetrain.train.algos.{algo}").make(config, interface_of(algo))
    updates = COMPILED_UPDATES.setdefault((config, num_learners), compile_updates(algorithm, Learners(num_learners)))
    state = algorithm.init(np.random.default_rng(0))
    floats = (np.float32, np.float64)
    state = jax.tree.map(lambda x: np.asarray(x, dtype) if x.dtype in floats else np.asarray(x), state)
    state = for_everyone(jax.tree.map(jax.numpy.array, state), Learners(num_learners))
    td_errors, compiled = [], COMPILED[0]
    for call in range(CALLS):
        if call == 1:
            compiled = COMPILED[0]
        state, errors, metrics = updates(state, batches(call, algo, dtype), np.int32(UPDATES_PER_CALL - call))
        td_errors.append(np.asarray(errors)[: UPDATES_PER_CALL - call])
    leaves = np.concatenate([np.ravel(leaf).astype(np.float64) for leaf in jax.tree.leaves(state)])
    metrics = np.array([float(metrics[name]) for name in sorted(metrics)])
    return leaves, np.concatenate(td_errors), metrics, COMPILED[0] - compiled


def compare(algo, settings):
    one = learn(algo, 1, np.float64, settings)
    two = learn(algo, 2, np.float64, settings)
    largest = [float(np.max(np.abs(a - b) / (1 + np.abs(a)))) for a, b in zip(one[:3], two[:3], strict=True)]
    first, again = (learn(algo, 2, np.float32, settings) for _ in range(2))
    return {
        "num_updates": len(one[1]),
        "state": largest[0],
        "td_errors": largest[1],
        "metrics": largest[2],
        "moved": float(np.max(np.abs(two[1][-1] - two[1][0]))),
        "late_compilations": two[3],
        "same_bits": all(a.tobytes() == b.tobytes() for a, b in zip(first[:3], again[:3], strict=True)),
    }


if __name__ == "__main__":
    jax.config.update("jax_num_cpu_devices", 2)
    jax.config.update("jax_enable_x64", True)
    jax.monitoring.register_event_duration_secs_listener(count_compilation)
    cases = json.loads(sys.argv[1])
    json.dump({name: compare(algo, settings) for name, (algo, settings) in cases.items()}, sys.stdout)
