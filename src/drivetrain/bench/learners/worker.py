"""One form in a process of its own: a compiled call of updates, timed when asked.

python -m drivetrain.bench.learners.worker JOB   a JSON object on the command line
"ready", then for each line "N" on standard input the microseconds per update of N calls, as JSON
"""

# JAX annotates parts of its interface only:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import importlib
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from drivetrain.core.threads import prepare_computation
from drivetrain.train.config import TrainConfig
from drivetrain.train.interface import BoxActions, DiscreteActions, Interface, Vector

_INPUTS, _ACTIONS = 17, 6  # HalfCheetah's


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is updated: an algorithm on made-up transitions of HalfCheetah's shapes."""

    algo: str
    """DQN with as many discrete actions, or an algorithm for continuous ones."""
    batch_size: int
    """Rows of the whole batch."""
    width: int
    """Units of each of the two hidden layers."""
    num_learners: int
    """Who share each batch."""
    updates_per_call: int = 8
    """Batches of one call."""

    def as_json(self) -> str:
        """For the worker's command line."""
        return json.dumps(asdict(self))


def interface_of(job: Job) -> Interface:
    """HalfCheetah's shapes."""
    low, high = (-1.0,) * _ACTIONS, (1.0,) * _ACTIONS
    box = BoxActions(low=low, high=high, shape=(_ACTIONS,), dtype="float32")
    actions = DiscreteActions(count=_ACTIONS, start=0) if job.algo == "dqn" else box
    return Interface(observations=Vector(shape=(_INPUTS,)), actions=actions)


def make_call(job: Job) -> Callable[[], None]:
    """One compiled call on fixed batches, with its results waited for; compiled when this returns."""
    import jax

    from drivetrain.train.devices import prepare_devices
    from drivetrain.train.updates import Batch, Learners, compile_updates, for_everyone

    config = TrainConfig.default(job.algo, "made up").override(
        hidden=(job.width, job.width), batch_size=job.batch_size, num_learners=job.num_learners, warmup_steps=10**5
    )
    prepare_devices(config)
    interface, learners = interface_of(job), Learners(job.num_learners)
    algorithm: Any = importlib.import_module(f"drivetrain.train.algos.{job.algo}").make(config, interface)
    rng, lead = np.random.default_rng(0), (job.updates_per_call, job.batch_size)
    state = [for_everyone(algorithm.init(rng), learners)]
    obs, next_obs = (rng.normal(size=(*lead, _INPUTS)).astype(np.float32) for _ in range(2))
    rows = np.ones(lead, np.float32)
    batches = Batch(obs, interface.zero_actions(*lead), rng.normal(size=lead).astype(np.float32), next_obs, rows, rows)
    updates = compile_updates(algorithm, learners)

    def call() -> None:
        state[0], td_errors, _ = updates(state[0], batches, np.int32(job.updates_per_call))
        np.asarray(td_errors)
        jax.block_until_ready(state[0])

    call()
    return call


def main() -> None:
    """Be a worker."""
    job = Job(**json.loads(sys.argv[1]))
    prepare_computation()
    call = make_call(job)
    print("ready", flush=True)
    for line in sys.stdin:
        samples: list[float] = []
        for _ in range(int(line)):
            start_s = time.perf_counter()
            call()
            samples.append((time.perf_counter() - start_s) / job.updates_per_call * 1e6)
        print(json.dumps(samples), flush=True)


if __name__ == "__main__":
    main()
