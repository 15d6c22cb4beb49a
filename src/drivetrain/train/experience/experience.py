"""What actors write and the learner learns from: a replay, or on-policy a rollout.

actors -> writers(experience) -> experience -> learner
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from drivetrain.core.seeding import stream
from drivetrain.core.segments import require_memory, require_space
from drivetrain.replay import Replay, memory_report
from drivetrain.replay.arguments import require_folder
from drivetrain.replay.frames import num_frames, stack_of
from drivetrain.replay.frames import require_room as require_room_for_windows
from drivetrain.replay.hindsight import Strategy
from drivetrain.train.config import TrainConfig
from drivetrain.train.environments.goals import Goals
from drivetrain.train.experience.rollout import RolloutBuffer
from drivetrain.train.interface import Interface
from drivetrain.train.ledger.rules import Origin
from drivetrain.train.policies.embeddings import embedded

Experience = Replay | RolloutBuffer
"""What actors write and the learner learns from."""


class StepWriter(Protocol):
    """Takes the steps of an actor's environments: a replay's writer, or a rollout's."""

    def add(self, *, obs: Any, action: Any, reward: Any, next_obs: Any, terminated: Any, truncated: Any) -> object:
        """Write one step of all of them, [num_envs, ...] each."""
        ...


class Hindsight(NamedTuple):
    """How steps are written again with other goals, which their episode has reached."""

    goals: Goals
    """What the environment says of goals."""
    num_goals: int
    """Other goals of each step."""
    strategy: Strategy
    """Which of an episode's."""
    seed: int
    """Of their choice."""


class WriterMaker(Protocol):
    """Gives an actor a writer."""

    def __call__(self, num_envs: int, hindsight: Hindsight | None = None, /) -> StepWriter:
        """For so many of its environments; off-policy also in hindsight."""
        ...


class PartWriter(StepWriter, Protocol):
    """A replay's, which also takes a step of some of them."""

    def add_some(self, where: NDArray[np.bool_], /, **step: Any) -> object:
        """Write one step of those that are marked; the windows of the others stay as they are."""
        ...


def add_first(writer: StepWriter, num_envs: int, step: Mapping[str, Any]) -> None:
    """Write one step of the first of a writer's `num_envs` environments: of fewer than all where a run ends."""
    count = len(step["reward"])
    if count == num_envs:
        writer.add(**step)
        return
    all_of_them = {name: _filled_up(rows, num_envs) for name, rows in step.items()}
    cast(PartWriter, writer).add_some(np.arange(num_envs) < count, **all_of_them)  # rollouts are whole


def _filled_up(rows: Any, count: int) -> Any:
    """So many rows, of any nesting; those that are missing are 0."""
    if isinstance(rows, dict):
        return {name: _filled_up(entry, count) for name, entry in cast(dict[str, Any], rows).items()}
    return np.concatenate([rows, np.zeros((count - len(rows), *rows.shape[1:]), rows.dtype)])


def stored_interface(config: TrainConfig, interface: Interface, origin: Origin) -> Interface:
    """What is stored of an environment: what it shows, or what frozen encoders make of that."""
    return embedded(config, interface) if origin.encoder_frozen else interface


def make_experience(config: TrainConfig, interface: Interface, *, shared: bool) -> Experience:
    """What a run learns from, empty."""
    if config.on_policy:
        return RolloutBuffer.create(config, interface, shared=shared)
    return make_replay(config, interface, shared=shared)


def writers(experience: Experience, actor: int) -> WriterMaker:
    """How an actor gets writers."""

    def writer(num_envs: int, hindsight: Hindsight | None = None, /) -> StepWriter:
        if isinstance(experience, RolloutBuffer):
            return experience.writer(actor, num_envs)
        if hindsight is None:
            return experience.writer(num_envs=num_envs)
        return experience.hindsight_writer(
            num_envs,
            reward=hindsight.goals.reward,
            terminated=hindsight.goals.terminated,
            num_goals=hindsight.num_goals,
            strategy=hindsight.strategy,
            seed=hindsight.seed,
        )

    return writer


def require_experience(config: TrainConfig, interface: Interface) -> None:
    """Refuse a replay or a rollout, batches or environments that this machine cannot hold, before anything starts.

    Raises:
        SegmentError: They need more memory than is available, or more of the disk.
        InvalidInput: `scratch_dir` is no folder, or open windows would have all frames of so small a replay.
    """
    obs = _observation_nbytes(interface)
    what, remedy = f"a step of {config.num_envs:,} environments", "use fewer actors, or fewer envs_per_actor"
    require_memory(2 * config.num_envs * obs, what=what, remedy=remedy)
    if config.on_policy:
        what, remedy = f"a rollout of {config.steps_per_rollout:,} steps", "use fewer environments or a shorter rollout"
        require_memory(RolloutBuffer.nbytes_for(config, interface), what=what, remedy=remedy)
        return
    settings = _replay_settings(config, interface)
    if stack := stack_of(settings["share_next_obs"], settings["frame_stack"]):
        count = num_frames(config.replay.capacity, stack, config.replay.num_step)
        require_room_for_windows(config.num_envs, stack, config.replay.num_step, count)
    report = memory_report(**settings)
    what = f"a replay of capacity {report.capacity}"
    scratch_dir = require_folder("scratch_dir", config.replay.scratch_dir)
    require_space(report.nbytes, scratch_dir, what=what, largest=report.largest())
    rows = config.updates.updates_per_call * config.updates.batch_size
    what = f"a sample of {config.updates.updates_per_call} batches of {config.updates.batch_size} rows"
    require_memory(2 * rows * obs, what=what, remedy="use a smaller batch_size or fewer updates_per_call")


def _observation_nbytes(interface: Interface) -> int:
    """Bytes of one observation, as it is stored."""
    obs = interface.zero_observations(1)
    return sum(array.nbytes for array in (obs.values() if isinstance(obs, dict) else [obs]))


def make_replay(config: TrainConfig, interface: Interface, *, shared: bool) -> Replay:
    """What an off-policy run learns from, empty."""
    seed = stream(config.run.seed, "replay").integers(0, 2**31)
    return Replay(
        **_replay_settings(config, interface), shared=shared, seed=int(seed), scratch_dir=config.replay.scratch_dir
    )


def _replay_settings(config: TrainConfig, interface: Interface) -> dict[str, Any]:
    # Steps with goals of their own share no observation with the next, and would have two frames each; a goal that is a
    # stack does not move on with the steps that it is given to.
    goals_differ = config.in_hindsight and config.replay.hindsight_strategy != "final"
    return {
        "capacity": config.replay.capacity,
        "spec": {"obs": interface.observations.stored, "action": interface.stored_action},
        "prioritized": config.replay.prioritized,
        "alpha": config.replay.alpha,
        "num_step": config.replay.num_step,
        "gamma": config.updates.gamma,
        "share_next_obs": interface.shares_next_obs and not goals_differ,
        "frame_stack": 1 if config.in_hindsight else interface.frame_stack,
    }
