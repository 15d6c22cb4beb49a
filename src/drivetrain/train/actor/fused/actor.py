"""The actor whose environments and policy are one kernel.

weights -> kernel -> a block of steps [num_steps, num_envs, ...] -> replay, rollout; one grant of the ledger at a time
"""

# JAX annotates parts of its interface only:
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from drivetrain.core.seeding import episode_seeds, stream
from drivetrain.train.actor.fused.acting import CHOICE
from drivetrain.train.actor.fused.episodes import Counting
from drivetrain.train.actor.fused.kernel import Kernel, compiled
from drivetrain.train.actor.fused.layout import stored
from drivetrain.train.config import TrainConfig
from drivetrain.train.environments.faults import refuse, require_finite
from drivetrain.train.episode import Episode
from drivetrain.train.experience.experience import WriterMaker, add_first
from drivetrain.train.experience.rollout import RolloutWriter
from drivetrain.train.interface import Arrays, Interface, rows_of
from drivetrain.train.normalization import Moments, Normalization
from drivetrain.train.telemetry.recording import REPLAY, SIMULATION


class Block(NamedTuple):
    """Steps of all environments, as they are written: [num_steps, num_envs, ...] each."""

    obs: Arrays
    """What was acted on."""
    action: NDArray[Any]
    """The agent's."""
    reward: NDArray[np.float32]
    """As the environment gives it."""
    next_obs: Arrays
    """What the action led to; an episode's last observation where it ended."""
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]


class FusedActor:
    """E simulators that take K steps in one call of a kernel, exploring; a `Stepper`.

    Step t of environment i draws from (the actor's seed, i, t) and nothing else.

    Args:
        config: The run's; it has a `fused_engine`.
        interface: What the environments look like.
        vector: float32[num_published] that somebody else overwrites between calls.
        make_writer: Gives a writer for so many environments.
        path: Tells its random streams from those of others, and of its predecessors.
        beat: Called before each call of the kernel.
        rest: Called before what that has done is written, which may wait for a disk.
    """

    def __init__(
        self,
        config: TrainConfig,
        interface: Interface,
        vector: NDArray[np.float32],
        make_writer: WriterMaker,
        path: tuple[int, ...],
        beat: Callable[[], None] = lambda: None,
        rest: Callable[[], None] = lambda: None,
    ) -> None:
        self._beat, self._rest = beat, rest
        self._env_id, self._num_envs = config.env, config.envs_per_actor
        self._clip_rewards = config.environment.clip_rewards
        self._interface, self._make_writer = interface, make_writer
        self._seed, self._path, self._num_starts = config.run.seed, path, 0
        rng = stream(config.run.seed, "exploration", *path)
        self._kernel: Kernel = compiled(config, interface, vector, rng, stream(config.run.seed, "domain", *path))
        self.steps_per_call = config.steps_per_grant
        """Of all environments together."""
        normalization = Normalization.of(config, interface)
        self.moments = Moments(normalization, self._num_envs) if normalization.num_columns else None
        """What was seen so far, for normalisation."""
        self._begin()

    def step(self, num_steps: int, start: int, /) -> list[Episode]:
        """See `Stepper`. The kernel takes all its steps; of the last grant of a run, only those granted are kept."""
        rows, rest = divmod(num_steps, self._num_envs)
        self._beat()
        block = _part(self._taken(start), slice(rows + (rest > 0)))
        self._rest()
        ended = block.terminated | block.truncated
        self._require_numbers(block, ended)
        self._write(_part(block, slice(rows)))
        if rest:  # a step of the first environments
            self._write(_part(block, (slice(rows, rows + 1), slice(rest))))
            ended[rows, rest:] = False
        episodes = self._counting.add(block.reward, ended)
        if num_steps < self.steps_per_call:
            self._begin()  # what was taken beyond the grant is no step of the run, nor is what would follow
        return episodes

    def close(self) -> None:
        """Nothing is held beyond memory."""

    def _begin(self) -> None:
        (seed,) = episode_seeds(self._seed, "training", 1, *self._path, self._num_starts)
        self._num_starts += 1
        self._state = self._kernel.rollout.reset(seed)
        self._counting = Counting(self._num_envs)
        self._writer = self._make_writer(self._num_envs)

    @SIMULATION
    @jax.transfer_guard("allow")  # weights are NumPy's, and engine xla takes them, too
    def _taken(self, start: int) -> Block:
        self._state, steps = self._kernel.rollout(self._state, policy=self._kernel.acting.parameters(start))
        steps = jax.tree.map(np.asarray, steps)
        lead, (_, dtype) = steps["reward"].shape, self._interface.stored_action
        before, after = (
            stored(self._interface.observations, steps[name], lead, np) for name in ("obs_before", "final_obs")
        )
        return Block(
            obs=before,
            action=steps[CHOICE].astype(dtype, copy=False),
            reward=steps["reward"].astype(np.float32, copy=False),
            next_obs=after,
            terminated=steps["terminated"],
            truncated=steps["truncated"],
        )

    def _require_numbers(self, block: Block, ended: NDArray[np.bool_]) -> None:
        begins = np.ones_like(ended)  # where they do, nobody has looked at it as a next observation
        begins[1:] = ended[:-1]
        require_finite(self._env_id, rows_of(block.obs, begins), [0] * int(begins.sum()))
        bad = ~np.isfinite(block.reward)
        entries = block.next_obs.values() if isinstance(block.next_obs, dict) else (block.next_obs,)
        for entry in entries:
            if entry.dtype.kind == "f" and not np.isfinite(entry).all():
                bad |= ~np.isfinite(entry).reshape(*bad.shape, -1).all(-1)
        if not bad.any():
            return
        step, env = (int(index[0]) for index in np.nonzero(bad))
        length = self._counting.length_at(step, env, ended)
        require_finite(self._env_id, rows_of(rows_of(block.next_obs, step), slice(env, env + 1)), [length])
        refuse(self._env_id, length, f"expected a finite number as reward, got {block.reward[step, env]}")

    @REPLAY
    def _write(self, block: Block) -> None:
        if self._clip_rewards:
            block = block._replace(reward=np.sign(block.reward))
        if isinstance(self._writer, RolloutWriter):
            self._writer.add_rollout(*block)
            if self.moments is None:
                return
        for step in range(len(block.reward)):
            one = _part(block, step)
            if not isinstance(self._writer, RolloutWriter):
                add_first(self._writer, self._num_envs, one._asdict())
            if self.moments is not None:
                self.moments.add(one.obs, one.reward, one.terminated | one.truncated)


def _part(block: Block, which: Any) -> Block:
    """Views of some steps, of some environments."""
    return Block(*(rows_of(field, which) for field in block))
