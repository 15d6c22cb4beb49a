"""The rollout in memory: every actor writes the columns of its environments, the learner reads all of it.

In a deterministic off-policy run it has one row, which the learner puts into the replay.

    row = step 0..T-1, column = environment 0..N-1;  actor i has columns i*E .. (i+1)*E - 1

There are no locks: the ledger lets actors write only while the learner does not read, and the other way
round. An actor that dies leaves columns half written; its successor begins them anew.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from drivetrain.core.segments import Segment, SegmentHandle
from drivetrain.train.config import TrainConfig
from drivetrain.train.interface import Interface, StoredSpec, rows_of, set_row

_KIND = "rollout"
_ALIGNMENT = 64  # a cache line; and JAX takes memory aligned like this without a copy


class Rollout(NamedTuple):
    """T steps of N environments, in order: [T, N, ...] each, NumPy's or JAX's."""

    obs: Any
    """What was acted on, as stored; a dict of arrays where the environment shows one."""
    action: Any
    """int[T, N], or float32[T, N, num_actions]."""
    reward: Any
    """float32[T, N]."""
    terminated: Any
    """bool[T, N]."""
    truncated: Any
    """bool[T, N]."""
    last_obs: Any
    """Like obs: what a step led to, where it was truncated, and in row T-1; anything elsewhere."""


class RolloutBuffer:
    """A run's rollout; each process holds a view.

    Args:
        memory: Of `nbytes_for` bytes.
        config: The run's, for the number of steps and environments.
        interface: What the environments look like.
        segment: Where the memory is shared: closed with this view.
    """

    def __init__(self, memory: Any, config: TrainConfig, interface: Interface, segment: Segment | None = None) -> None:
        self._segment = segment
        self._num_envs = config.envs_per_actor
        offset = 0

        def view(spec: StoredSpec) -> NDArray[Any]:
            nonlocal offset
            shape, dtype = spec
            array = np.frombuffer(memory, dtype, math.prod(shape), offset).reshape(shape)
            offset += _nbytes(spec)
            return array

        self.rollout = Rollout(**{name: _each(view, specs) for name, specs in _fields(config, interface).items()})
        """The arrays themselves, [T, N, ...] each."""

    @staticmethod
    def nbytes_for(config: TrainConfig, interface: Interface) -> int:
        """Bytes of a run's rollout."""
        return sum(_nbytes(specs) for specs in _fields(config, interface).values())

    @classmethod
    def create(cls, config: TrainConfig, interface: Interface, *, shared: bool) -> "RolloutBuffer":
        """A new one, everything zero: in a segment owned by this process, or for it alone.

        Raises:
            SegmentError: The machine does not have the memory.
        """
        nbytes = cls.nbytes_for(config, interface)
        if not shared:
            return cls(np.zeros(nbytes, np.uint8).data, config, interface)
        segment = Segment.create(_KIND, nbytes)
        return cls(segment.payload, config, interface, segment)

    @classmethod
    def attach(cls, handle: SegmentHandle, config: TrainConfig, interface: Interface) -> "RolloutBuffer":
        """A view of another process's rollout."""
        segment = Segment.attach(handle, _KIND)
        return cls(segment.payload, config, interface, segment)

    def handle(self) -> SegmentHandle:
        """What another process attaches by."""
        assert self._segment is not None, "the memory of a sequential run is not shared"
        return self._segment.handle()

    def writer(self, actor: int, num_envs: int) -> "RolloutWriter":
        """A writer of one actor's columns, from the first step of a rollout on."""
        assert num_envs == self._num_envs, "rollouts are whole"
        first = actor * self._num_envs
        columns = slice(first, first + self._num_envs)

        def mine(array: Any) -> Any:
            return array[:, columns]

        return RolloutWriter(Rollout(*(_each(mine, field) for field in self.rollout)))

    def close(self) -> None:
        """Let go of the memory; this view cannot be used afterwards."""
        del self.rollout
        if self._segment is not None:
            self._segment.close()


class RolloutWriter:
    """Writes the steps of one actor, row by row; after the last row comes the first of the next rollout.

    Args:
        rollout: Views of the actor's columns, [T, E, ...] each.
    """

    def __init__(self, rollout: Rollout) -> None:
        self._rollout = rollout
        self._length = len(rollout.reward)
        self._row = 0

    def add(self, *, obs: Any, action: Any, reward: Any, next_obs: Any, terminated: Any, truncated: Any) -> None:
        """Write one step of all environments, [E, ...] each.

        `next_obs` is kept where it cannot be found in the next row: in the last one, and after truncation.
        """
        row, rollout = self._row, self._rollout
        set_row(rollout.obs, row, obs)
        rollout.action[row] = action
        rollout.reward[row] = reward
        rollout.terminated[row] = terminated
        rollout.truncated[row] = truncated
        if row == self._length - 1 or truncated.any():
            set_row(rollout.last_obs, row, next_obs)
        self._row = (row + 1) % self._length

    def add_rollout(self, obs: Any, action: Any, reward: Any, next_obs: Any, terminated: Any, truncated: Any) -> None:
        """Write all steps of a rollout, [T, E, ...] each: what T calls of `add` would leave, but in one."""
        assert self._row == 0, "a rollout has begun step by step"
        rollout, every = self._rollout, slice(None)
        set_row(rollout.obs, every, obs)
        rollout.action[:], rollout.reward[:] = action, reward
        rollout.terminated[:], rollout.truncated[:] = terminated, truncated
        is_kept = np.array(truncated)
        is_kept[-1] = True
        kept = np.nonzero(is_kept)
        set_row(rollout.last_obs, kept, rows_of(next_obs, kept))


_Specs = StoredSpec | dict[str, StoredSpec]


def _fields(config: TrainConfig, interface: Interface) -> dict[str, _Specs]:
    """Shape and dtype of every array, by the names of `Rollout`."""
    lead = (config.grant_length, config.num_envs)
    action_dtype = interface.learned_action_dtype if config.on_policy else interface.stored_action[1]
    obs = interface.observations.stored
    stored: dict[str, _Specs] = {
        "obs": obs,
        "action": (interface.stored_action[0], action_dtype),
        "reward": ((), "float32"),
        "terminated": ((), "bool"),
        "truncated": ((), "bool"),
        "last_obs": obs,
    }

    def with_lead(spec: StoredSpec) -> StoredSpec:
        return (*lead, *spec[0]), spec[1]

    return {name: _each(with_lead, specs) for name, specs in stored.items()}


def _nbytes(specs: _Specs) -> int:
    """Bytes of a field, each array rounded up to the alignment."""
    if isinstance(specs, dict):
        return sum(map(_nbytes, specs.values()))
    shape, dtype = specs
    return -(-math.prod(shape) * np.dtype(dtype).itemsize // _ALIGNMENT) * _ALIGNMENT


def _each(function: Callable[[Any], Any], field: Any) -> Any:
    """A function of one array or spec, of each where there are several by name."""
    if isinstance(field, dict):
        named = cast(dict[str, Any], field)
        return {name: function(one) for name, one in named.items()}
    return function(field)
