"""A process with two CPU devices: calls of updates by one learner and by two, in float64 and in float32.

    python learning_process.py ALGO... -> JSON on standard output

JAX takes its number of devices once per process, and the tests' own process has one.
"""

import importlib
import json
import sys

import jax
import numpy as np

from drivetrain.train.config import TrainConfig
from drivetrain.train.experience.rollout import Rollout
from drivetrain.train.interface import BoxActions, DiscreteActions, Interface, Vector
from drivetrain.train.learner.on_policy.algorithm import compile_learning
from drivetrain.train.learner.sharing import Learners, for_everyone
from drivetrain.train.learner.updates import Batch, compile_updates, means_of

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


def rollout(seed, dtype):
    """Four minibatches."""
    rng = np.random.default_rng(seed)
    lead = (2 * ROWS, 2)
    obs, last_obs = (rng.normal(size=(*lead, INPUTS)).astype(dtype) for _ in range(2))
    action = rng.normal(size=(*lead, ACTIONS)).astype(dtype)
    ends = (rng.random(lead) < 0.1 for _ in range(2))
    return Rollout(obs, action, rng.normal(size=lead).astype(dtype), *ends, last_obs)


def off_policy(algo, learners, dtype, settings):
    """The state before, and call(index, state) -> (state, TD errors, metrics), with fewer updates each time."""
    config = TrainConfig.default(algo, "E").override(hidden=(8,), warmup_steps=5_000, batch_size=ROWS, **settings)
    algorithm = importlib.import_module(f"drivetrain.train.algos.{algo}").make(config, interface_of(algo))
    updates = COMPILED_UPDATES.setdefault((config, learners), compile_updates(algorithm, learners))

    def call(index, state):
        count = UPDATES_PER_CALL - index
        state, errors, metrics, _ = updates(state, batches(index, algo, dtype), np.int32(count))
        return state, np.asarray(errors)[:count], means_of(metrics)

    return algorithm.init(np.random.default_rng(0)), call


def on_policy(algo, learners, dtype, settings):
    """Likewise; without TD errors, the metrics of each call are compared in their place."""
    config = TrainConfig.default(algo, "E").override(
        hidden=(8,), batch_size=ROWS, rollout_length=2 * ROWS, num_envs=2, num_actors=1, num_epochs=2, **settings
    )
    algorithm = importlib.import_module(f"drivetrain.train.algos.{algo}").make(config, interface_of(algo))
    learn = COMPILED_UPDATES.setdefault((config, learners), compile_learning(algorithm, learners))

    def call(index, state):
        state, metrics, _ = learn(state, rollout(index, dtype), dtype(0.5))
        metrics = means_of(metrics)
        return state, np.array([[metrics[name] for name in sorted(metrics)]]), metrics

    return algorithm.init(np.random.default_rng(0)), call


def learn(algo, num_learners, dtype, settings):
    """The numbers of the last state, all TD errors, the metrics, updates, late compilations, last epochs."""
    learners = Learners(num_learners)
    state, call = (on_policy if algo == "ppo" else off_policy)(algo, learners, dtype, settings)
    floats = (np.float32, np.float64)
    state = jax.tree.map(lambda x: np.asarray(x, dtype) if x.dtype in floats else np.asarray(x), state)
    state = for_everyone(jax.tree.map(jax.numpy.array, state), learners)
    told, compiled = [], COMPILED[0]
    for index in range(CALLS):
        if index == 1:
            compiled = COMPILED[0]
        state, errors, metrics = call(index, state)
        told.append(errors)
    leaves = np.concatenate([np.ravel(leaf).astype(np.float64) for leaf in jax.tree.leaves(state)])
    num_epochs = metrics.get("num_epochs", 0)
    metrics = np.array([metrics[name] for name in sorted(metrics)])
    return leaves, np.concatenate(told), metrics, int(state.num_updates), COMPILED[0] - compiled, num_epochs


def compare(algo, settings):
    one = learn(algo, 1, np.float64, settings)
    two = learn(algo, 2, np.float64, settings)
    largest = [float(np.max(np.abs(a - b) / (1 + np.abs(a)))) for a, b in zip(one[:3], two[:3], strict=True)]
    first, again = (learn(algo, 2, np.float32, settings) for _ in range(2))
    rounded = np.abs(first[0] - two[0]) / (1 + np.abs(two[0]))
    return {
        "num_updates": one[3],
        "state": largest[0],
        "td_errors": largest[1],
        "metrics": largest[2],
        "in_float32": float(rounded.max()),
        "moved": float(np.max(np.abs(two[1][-1] - two[1][0]))),
        "late_compilations": two[4],
        "num_epochs": float(two[5]),
        "same_bits": all(a.tobytes() == b.tobytes() for a, b in zip(first[:3], again[:3], strict=True)),
    }


if __name__ == "__main__":
    jax.config.update("jax_num_cpu_devices", 2)
    jax.config.update("jax_enable_x64", True)
    jax.monitoring.register_event_duration_secs_listener(count_compilation)
    cases = json.loads(sys.argv[1])
    json.dump({name: compare(algo, settings) for name, (algo, settings) in cases.items()}, sys.stdout)
