"""A process that learns from four made-up batches on what JAX finds, and says what came of it: UPDATES_PROCESS ALGO."""

import json
import sys

import jax
import numpy as np

from drivetrain.train.config import TrainConfig
from drivetrain.train.interface import BoxActions, DiscreteActions, Interface, Vector
from drivetrain.train.learner.learner import Learner
from drivetrain.train.learner.updates import Batch

ROWS = (4, 64)


def main(algo):
    box = BoxActions(low=(-1.0,) * 2, high=(1.0,) * 2, shape=(2,), dtype="float32")
    actions = DiscreteActions(count=3, start=0) if algo == "dqn" else box
    settings = {"hidden": (64, 64), "batch_size": ROWS[1], "warmup_steps": 100, "updates_per_call": ROWS[0]}
    config = TrainConfig.default(algo, "made up").override(**settings)
    learner = Learner(config, Interface(observations=Vector(shape=(5,)), actions=actions))
    rng = np.random.default_rng(0)
    obs, next_obs = (rng.normal(size=(*ROWS, 5)).astype(np.float32) for _ in range(2))
    numbers = rng.integers(3, size=ROWS, dtype=np.int32), rng.uniform(-1, 1, (*ROWS, 2)).astype(np.float32)
    discount = np.full(ROWS, 0.9, np.float32)
    batches = Batch(obs, numbers[algo != "dqn"], discount, next_obs, discount, np.ones(ROWS, np.float32))
    _, errors, _, policy = learner._updates(learner.learned.state, batches, np.int32(ROWS[0]))
    found = {"errors": np.asarray(errors).tolist(), "policy": np.asarray(policy).tolist()}
    sys.stdout.write(json.dumps({"on": jax.default_backend(), **found}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
