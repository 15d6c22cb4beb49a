"""A process that acts, or updates, for a moment, and says what it took.

python -m drivetrain.train.sizing.worker    a pickled Question on standard input, JSON on standard output
"""

# JAX annotates parts of its interface only:
# pyright: reportUnknownMemberType=false

import json
import math
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from drivetrain.core.errors import DrivetrainError
from drivetrain.core.processes import die_with, told
from drivetrain.core.seeding import stream
from drivetrain.core.threads import prepare_computation
from drivetrain.train.actor.actor import Actor
from drivetrain.train.config import TrainConfig
from drivetrain.train.experience.experience import Experience, make_experience, writers
from drivetrain.train.interface import Interface
from drivetrain.train.policies.policy import first_published, make_policy
from drivetrain.train.sizing.beats import Beats
from drivetrain.train.sizing.measure import Question

_STEPPING_S, _ACTING_S, _UPDATING_S = 1.5, 0.6, 1.0  # how long each is measured; acting: over all sizes
_CHUNK_S = 0.02  # calls timed together, so that reading clocks is no part of them
_MIN_SAMPLES = 3
_NUM_ROWS = 4_096  # of the replay that is measured with


class Times(NamedTuple):
    """What a call takes, in seconds."""

    wall_s: float
    """By the clock."""
    cpu_s: float
    """Computing, in all threads."""
    queued_s: float
    """For which this thread was ready, and somebody else had the core; 0 where the kernel does not tell."""

    @property
    def alone_s(self) -> float:
        """By the clock, had this thread been alone on its core; for calls that compute in this thread."""
        return max(self.wall_s - self.queued_s, self.cpu_s)


def measure(call: Callable[[], object], budget_s: float) -> list[Times]:
    """Call something over and over, and time it; at least once, and rather more often than the budget is kept."""
    start_s = time.monotonic()
    first = _time(call, 1)
    if first.wall_s > budget_s / _MIN_SAMPLES:  # too slow to be called for warming up
        return [first]
    per_chunk = max(1, int(_CHUNK_S / max(_time(call, 1).wall_s, 1e-7)))
    most_s = budget_s / _MIN_SAMPLES  # of a chunk, some of whose calls may take much longer, as where episodes end
    samples = [_time(call, per_chunk, most_s)]
    while len(samples) < _MIN_SAMPLES or time.monotonic() - start_s < budget_s:
        samples.append(_time(call, per_chunk, most_s))
    return samples


def _time(call: Callable[[], object], count: int, most_s: float = math.inf) -> Times:
    """Of so many calls, or of as many as fit into the seconds."""
    start = (time.perf_counter(), time.process_time(), _queued_s())
    num_called = 0
    while num_called < count and (num_called == 0 or time.perf_counter() - start[0] < most_s):
        call()
        num_called += 1
    end = (time.perf_counter(), time.process_time(), _queued_s())
    return Times(*((after - before) / num_called for before, after in zip(start, end, strict=True)))


def _queued_s() -> float:
    """Seconds for which this thread has waited for a core so far."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) * 1e-9
    except (OSError, IndexError, ValueError):
        return 0.0


def acting(config: TrainConfig, interface: Interface, sizes: tuple[int, ...], turns: Beats) -> dict[str, Any]:
    """Seconds of a step of one environment, of these computing, and of choosing actions for so many."""
    policy = make_policy(config, interface, first_published(config, interface, _rng(config)))
    experience = make_experience(_small(config, interface), interface, shared=False)
    actor = Actor(config, interface, policy, writers(experience, 0), beat=turns)
    start = 0 if config.on_policy else config.updates.warmup_steps  # from where on the network acts
    try:
        count = config.envs_per_actor
        if not config.on_policy:  # of slow environments some will do
            slow_s = _time(lambda: actor.step(1, start), 1).wall_s
            count = max(1, min(count, int(_STEPPING_S / _MIN_SAMPLES / max(slow_s, 1e-7))))
        samples = measure(lambda: actor.step(count, start), _STEPPING_S)
    finally:
        turns()  # environments may hang when they are closed, too
        actor.close()
        turns.end()
    rng = _rng(config)

    def act_s(size: int) -> float:
        obs = interface.zero_observations(size)
        calls = measure(lambda: policy.explore(obs, start, rng), _ACTING_S / len(sizes))
        return statistics.median(call.alone_s for call in calls)

    choosing_s = act_s(count)
    alone_s = statistics.median(sample.alone_s for sample in samples)
    cpu_s = statistics.median(sample.cpu_s for sample in samples)
    return {
        "step_s": max(alone_s - choosing_s, 0.0) / count,
        "step_cpu_s": max(cpu_s - choosing_s, 0.0) / count,
        "act_s": {size: act_s(size) for size in sizes},
    }


def updating(config: TrainConfig, interface: Interface) -> dict[str, Any]:
    """Seconds of an update and of its cores, the least seen; and how many GPUs there are."""
    from drivetrain.train.learner.compilation import use_compilation_cache
    from drivetrain.train.learner.devices import prepare_devices
    from drivetrain.train.networks.broadcasting import broadcasting

    use_compilation_cache()
    prepare_devices(config)
    with broadcasting():
        return _updating(config, interface)


def _updating(config: TrainConfig, interface: Interface) -> dict[str, Any]:
    import jax

    from drivetrain.train.learner.learner import make_learner

    learner = make_learner(config, interface)
    learner.compile()
    experience = _filled(config, interface)
    per_call = config.updates_per_rollout if config.on_policy else 1

    def learn(count: int) -> None:
        learner.learn(experience, count, 0.0)
        _ = learner.learned.vector  # as it is published

    if not config.on_policy:  # as many at once as in the run, unless they take too long
        learn(1)
        one_s = _time(lambda: learn(1), 1).wall_s
        per_call = max(1, min(config.updates.updates_per_call, int(_UPDATING_S / _MIN_SAMPLES / one_s)))
    samples = measure(lambda: learn(per_call), _UPDATING_S)
    devices = cast("list[Any]", jax.devices())
    return {
        "wall_s": min(sample.wall_s for sample in samples) / per_call,
        "cpu_s": min(sample.cpu_s for sample in samples) / per_call,
        "num_gpus": sum(device.platform == "gpu" for device in devices),
    }


def _filled(config: TrainConfig, interface: Interface) -> Experience:
    """Rows of zeros to learn from: what they hold does not change what an update takes."""
    config = _small(config, interface)
    experience = make_experience(config, interface, shared=False)
    if config.on_policy:
        return experience
    envs = config.envs_per_actor
    writer = writers(experience, 0)(envs)
    obs, no = interface.zero_observations(envs), np.zeros(envs, np.bool_)
    shape, dtype = interface.stored_action
    action, reward = np.zeros((envs, *shape), dtype), np.zeros(envs, np.float32)
    for _ in range(-(-config.num_rows_before_learning // envs) + 1):
        writer.add(obs=obs, action=action, reward=reward, next_obs=obs, terminated=no, truncated=no)
    return experience


def _small(config: TrainConfig, interface: Interface) -> TrainConfig:
    """With a replay of a few rows, and room for the frames of open windows."""
    if config.on_policy:
        return config
    windows = config.envs_per_actor * (config.replay.num_step + interface.frame_stack)
    needed = config.num_rows_before_learning + windows
    return config.override(capacity=max(needed, min(config.replay.capacity, _NUM_ROWS)))


def _rng(config: TrainConfig) -> np.random.Generator:
    return stream(config.run.seed, "network")


def main() -> None:
    """Be a worker."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what environments print is no answer
    question: Question = told()
    die_with(question.asked_by)
    prepare_computation()
    try:
        if question.what == "acting":
            answer = acting(question.config, question.interface, question.sizes, Beats(question.turns_fd))
        else:
            answer = updating(question.config, question.interface)
    except DrivetrainError as error:
        answer = {"error": " ".join(str(error).split())}
    json.dump(answer, answers)
    answers.close()


if __name__ == "__main__":
    main()
