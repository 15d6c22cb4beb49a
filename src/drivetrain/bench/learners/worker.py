"""One form in a process of its own: a compiled call of updates, timed when asked.

{"job"}         -> {}       compiles the call
{"num_calls"}   -> {"us"}   microseconds per update, of each of so many calls
"""

# JAX annotates parts of its interface only:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import importlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from drivetrain.bench.serving import serve
from drivetrain.core.threads import one_thread_environment, prepare_computation
from drivetrain.train.config import Precision, TrainConfig
from drivetrain.train.interface import BoxActions, DiscreteActions, Interface, Vector

_INPUTS, _ACTIONS = 17, 6  # HalfCheetah's
_EPOCHS, _ENVS = 4, 8  # of PPO


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
    """Batches of one call; of PPO in four epochs."""
    precision: Precision = "float32"
    """Of the products."""


def interface_of(job: Job) -> Interface:
    """HalfCheetah's shapes."""
    low, high = (-1.0,) * _ACTIONS, (1.0,) * _ACTIONS
    box = BoxActions(low=low, high=high, shape=(_ACTIONS,), dtype="float32")
    actions = DiscreteActions(count=_ACTIONS, start=0) if job.algo == "dqn" else box
    return Interface(observations=Vector(shape=(_INPUTS,)), actions=actions)


def make_call(job: Job) -> Callable[[], None]:
    """One compiled call on fixed batches, with its results waited for; compiled when this returns."""
    import jax

    from drivetrain.train.learner.devices import prepare_devices

    config = config_of(job)
    prepare_devices(config)
    algorithm: Any = importlib.import_module(f"drivetrain.train.algos.{job.algo}").make(config, interface_of(job))
    step, state = (_on_policy if config.on_policy else _off_policy)(job, algorithm)
    states = [state]

    def call() -> None:
        states[0] = step(states[0])
        jax.block_until_ready(states[0])

    call()
    return call


def config_of(job: Job) -> TrainConfig:
    """The settings that the job changes; of PPO a rollout that gives all updates of a call in four epochs."""
    settings: dict[str, Any] = {"warmup_steps": 10**5}
    if job.algo == "ppo":
        num_steps = job.batch_size * job.updates_per_call // _EPOCHS
        settings = {"num_epochs": _EPOCHS, "num_envs": _ENVS, "rollout_length": num_steps // _ENVS, "num_actors": 1}
    return TrainConfig.default(job.algo, "made up").override(
        hidden=(job.width, job.width),
        batch_size=job.batch_size,
        num_learners=job.num_learners,
        precision=job.precision,
        **settings,
    )


def _off_policy(job: Job, algorithm: Any) -> tuple[Callable[[Any], Any], Any]:
    """What goes from state to state, and the first one."""
    from drivetrain.train.learner.sharing import Learners, for_everyone
    from drivetrain.train.learner.updates import Batch, compile_updates

    rng, lead = np.random.default_rng(0), (job.updates_per_call, job.batch_size)
    learners = Learners(job.num_learners)
    state = for_everyone(algorithm.init(rng), learners)
    obs, next_obs = (rng.normal(size=(*lead, _INPUTS)).astype(np.float32) for _ in range(2))
    rows, action = np.ones(lead, np.float32), interface_of(job).zero_actions(*lead)
    batches = Batch(obs, action, rng.normal(size=lead).astype(np.float32), next_obs, rows, rows)
    updates = compile_updates(algorithm, learners)

    def step(state: Any) -> Any:
        new, td_errors, *_ = updates(state, batches, np.int32(job.updates_per_call))
        np.asarray(td_errors)
        return new

    return step, state


def _on_policy(job: Job, algorithm: Any) -> tuple[Callable[[Any], Any], Any]:
    """Likewise."""
    from drivetrain.train.experience.rollout import Rollout
    from drivetrain.train.learner.on_policy.algorithm import compile_learning
    from drivetrain.train.learner.sharing import Learners, for_everyone

    rng, lead = np.random.default_rng(0), (config_of(job).rollout.rollout_length, _ENVS)
    learners = Learners(job.num_learners)
    state = for_everyone(algorithm.init(rng), learners)
    obs, last_obs = (rng.normal(size=(*lead, _INPUTS)).astype(np.float32) for _ in range(2))
    ends, action = np.zeros(lead, np.bool_), rng.normal(size=(*lead, _ACTIONS)).astype(np.float32)
    rollout = Rollout(obs, action, rng.normal(size=lead).astype(np.float32), ends, ends, last_obs)
    learn = compile_learning(algorithm, learners)
    return lambda state: learn(state, rollout, np.float32(0))[0], state


class Session:
    """The call that is open in this process."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.call: Callable[[], float] | None = None

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out one request."""
        if "job" in request:
            self.call = timed(Job(**request["job"]))
            return {}
        assert self.call is not None, "open a job first"
        return {"us": [self.call() for _ in range(request["num_calls"])]}


def timed(job: Job) -> Callable[[], float]:
    """A job's call, compiled, with as many devices as learners; it returns its microseconds per update."""
    os.environ.update(one_thread_environment(os.environ, num_devices=job.num_learners))
    prepare_computation()
    call = make_call(job)

    def measured() -> float:
        start_s = time.perf_counter()
        call()
        return (time.perf_counter() - start_s) / job.updates_per_call * 1e6

    return measured


if __name__ == "__main__":
    serve(Session().answer)
