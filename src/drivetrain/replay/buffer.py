"""Replay: prioritized or uniform experience replay for many processes at once.

    Writer.add ──▶ n-step windows ──▶ reserve, copy, commit ─┐
                                                             ▼
    update_priorities ──▶ sum tree ◀── rows in one segment ──▶ sample

Everything that counts happens in native code (cpp/include/drivetrain/replay_table.hpp); this file
is its public face. `reference.py` is the same thing in readable NumPy.
"""

import contextlib
import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from drivetrain.core.errors import FileFormatError, InvalidInput, NotEnoughData, SegmentError
from drivetrain.core.segments import Segment, SegmentHandle, require_memory
from drivetrain.replay import _native, checks, files
from drivetrain.replay.schema import Schema, Spec

_KIND = "replay"


class Sample(NamedTuple):
    """Transitions drawn from a replay; leading axes `[B]`, or `[U, B]` with `num_batches=U`.

    The arrays are copies of the caller's own: neither inserts nor other samples change them. They
    begin at multiples of 64 bytes of one block of memory, which is used for another sample only
    after the caller has let go of all of them, and of every view of them.
    """

    data: dict[str, Any]
    """The fields of the spec, `next_obs` if there is `obs`, `reward` (n-step return), `terminated` and
    `truncated` of the window's last step, and `discount`: gamma^n, 0 after termination."""
    weights: npt.NDArray[np.float32]
    """Importance weights, divided by their maximum over each batch; all 1 in a uniform replay."""
    keys: npt.NDArray[np.uint64]
    """Opaque names of the rows, for `update_priorities`."""


@dataclass(frozen=True, kw_only=True)
class ReplayHandle:
    """Names a live shared replay; picklable, for any process of this user on this machine."""

    segment: SegmentHandle


@dataclass(frozen=True, kw_only=True)
class _Settings:
    """What a replay is made of; stored in its segment and its files."""

    capacity: int
    prioritized: bool
    alpha: float
    num_step: int
    gamma: float
    seed: int
    schema: Schema

    @classmethod
    def checked(cls, **values: Any) -> "_Settings":
        """Settings from a caller or a file.

        Raises:
            InvalidInput: A value does not fit.
        """
        fraction, integer = checks.require_fraction, checks.require_int
        return cls(
            capacity=integer("capacity", values["capacity"], least=1, most=2**32 - 1),
            prioritized=bool(values["prioritized"]),
            alpha=fraction("alpha", values["alpha"], meaning="0: uniform, 1: proportional to priority"),
            num_step=integer("num_step", values["num_step"], least=1, most=100_000),
            gamma=fraction("gamma", values["gamma"], meaning="the discount per step"),
            seed=integer("seed", values["seed"], least=0, most=2**64 - 1),
            schema=values["schema"],
        )

    def native(self) -> dict[str, Any]:
        return {
            "capacity": self.capacity,
            "row_stride": self.schema.row_stride,
            "prioritized": self.prioritized,
            "alpha": self.alpha,
            "seed": self.seed,
        }

    def to_json(self) -> dict[str, Any]:
        return {**self.__dict__, "schema": self.schema.to_json()}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "_Settings":
        return cls.checked(**{**values, "schema": Schema.from_json(values["schema"])})


def _private_memory(nbytes: int) -> mmap.mmap:
    """Zeroed memory of this process, in huge pages where there are any: rows are read at random."""
    memory = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a kernel without them
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


class Replay:
    """Experience replay in one block of memory, shared between processes if asked for.

    Safe for any number of threads and processes that insert, sample and update at once: rows come
    out whole or not at all, an update for a row that was overwritten since is skipped and counted,
    and a process killed at any point costs at most the rows it was writing.

    Args:
        capacity: Rows held; the oldest are overwritten. Fewer than 2^32.
        spec: The fields of a step: a nested dict with leaves `(shape, dtype)`. `reward`,
            `terminated` and `truncated` exist besides, and `next_obs` iff `obs` is declared.
        prioritized: Draw in proportion to priority (a K-ary sum tree); otherwise uniformly.
        alpha: How much priorities matter, in [0, 1]: leaf = (priority + 1e-6)^alpha.
        num_step: Length n of the windows whose return is a row's reward.
        gamma: Discount per step, in [0, 1].
        shared: Put it where other processes can attach (`handle`); else it is this process's own.
        seed: Of the random stream of draws; the counter of the stream lives with the rows.

    Raises:
        InvalidInput: An argument does not fit.
        SegmentError: There is not enough memory.

    Reference: arXiv 2110.01101 (K-ary sum tree, lazy writing); Schaul et al. 2016, arXiv 1511.05952.
    """

    def __init__(
        self,
        capacity: int,
        spec: Spec,
        *,
        prioritized: bool = True,
        alpha: float = 0.6,
        num_step: int = 1,
        gamma: float = 0.99,
        shared: bool = False,
        seed: int = 0,
    ) -> None:
        if not isinstance(spec, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f'spec: expected a dict such as {{"obs": ((4,), "float32")}}, got {spec!r}')
        self._open(
            _Settings.checked(
                capacity=capacity,
                prioritized=prioritized,
                alpha=alpha,
                num_step=num_step,
                gamma=gamma,
                seed=seed,
                schema=Schema.from_spec(spec),
            ),
            shared=shared,
            segment=None,
        )

    def _open(self, settings: _Settings, *, shared: bool, segment: Segment | None) -> None:
        nbytes = _native.table_nbytes(settings.native())
        initialize = segment is None
        if segment is None:
            require_memory(nbytes, what=f"a replay of capacity {settings.capacity}")
            if shared:
                segment = Segment.create(_KIND, nbytes, settings.to_json())
        self._settings = settings
        self._schema = settings.schema
        self._segment = segment
        self._private = None if segment else _private_memory(nbytes)
        payload = segment.payload if segment else self._private
        self._table = _native.Table(payload, settings.native(), self._schema.native_fields(), Sample, initialize)

    @classmethod
    def attach(cls, handle: ReplayHandle) -> "Replay":
        """The replay that `handle` names, in this process.

        Raises:
            OwnerDead: The process that created it has exited.
            ForeignSegment: It is not a replay, or of another version of drivetrain.
        """
        if not isinstance(handle, ReplayHandle):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"attach: expected what replay.handle() returned, got {type(handle).__name__}")
        segment = Segment.attach(handle.segment, _KIND)
        replay = cls.__new__(cls)
        replay._open(_Settings.from_json(segment.meta), shared=True, segment=segment)
        return replay

    def handle(self) -> ReplayHandle:
        """What another process needs to `attach`; valid while this process holds the replay.

        Raises:
            SegmentError: The replay was not created with `shared=True`, or is closed.
        """
        if self._segment is None:
            raise SegmentError("this replay is private to its process; create it with shared=True to hand it out")
        return ReplayHandle(segment=self._segment.handle())

    def writer(self, num_envs: int = 1) -> "Writer":
        """A producer's way in: owns the n-step windows of `num_envs` environments stepped together."""
        num_envs = checks.require_int("num_envs", num_envs, least=1, most=2**20)
        return Writer(self._table, self._schema, num_envs, self._settings.num_step, self._settings.gamma)

    def sample(
        self,
        batch_size: int,
        *,
        beta: float = 0.4,
        mode: Literal["stratified", "iid"] = "stratified",
        num_batches: int | None = None,
        out: Sample | None = None,
    ) -> Sample:
        """Draw transitions with probability p_i / sum(p).

        Safe against concurrent `add` and `update_priorities`; never returns a half-written row. Two
        samplers of one replay never use the same random numbers.

        Args:
            batch_size: Rows per batch, B.
            beta: Exponent of the importance correction in [0, 1]; 1 corrects fully.
            mode: "stratified" draws one row from each of B equal parts of the total priority (less
                variance); "iid" draws each row independently.
            num_batches: Draw U batches in one call; the leading axes are then `[U, B]`.
            out: A Sample of this replay and these sizes to write into and return.

        Raises:
            NotEnoughData: Fewer than batch_size transitions are committed.
            InvalidInput: An argument does not fit.

        Reference: Schaul et al. 2016, arXiv 1511.05952, section 3.3 and 3.4.
        """
        try:
            sample = self._table.sample(batch_size, beta, mode, num_batches, out)
            if sample is None:
                given = checks.fitting_draws(batch_size, beta, mode, num_batches)
                fitting = None if out is None else self._fitting_out(out, given[0], given[3])
                sample = self._table.sample(*given, fitting)
                if sample is None:
                    raise self._not_enough(given[0])
        except NotEnoughData:
            raise self._not_enough(batch_size) from None
        return sample if out is None else out

    def _not_enough(self, batch_size: int) -> NotEnoughData:
        remedy = "add more before sampling"
        if batch_size > self.capacity:
            remedy = f"this replay holds at most {self.capacity}: draw several batches with num_batches"
        elif self._settings.num_step > 1:
            remedy += f" (with num_step={self._settings.num_step}, a row appears when its window is full)"
        return NotEnoughData(f"sample: expected at least {batch_size} committed transitions, got {len(self)}; {remedy}")

    def _fitting_out(self, out: Sample, batch_size: int, num_batches: int | None) -> Sample:
        if not isinstance(out, Sample):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"out: expected a Sample that an earlier call returned, got {type(out).__name__}")
        leading = (batch_size,) if num_batches is None else (num_batches, batch_size)
        arrays = checks.fitting_out(self._schema, leading, out.data, out.weights, out.keys)
        return Sample(self._schema.nest(arrays[:-2]), arrays[-2], arrays[-1])

    def update_priorities(self, keys: npt.NDArray[np.uint64], priorities: npt.NDArray[np.floating[Any]]) -> int:
        """Give sampled rows new priorities, |TD error| as a rule; finite and >= 0.

        The leaf becomes (priority + 1e-6)^alpha; where a key occurs twice, the last one counts.

        Args:
            keys: `sample.keys`, or any selection of them, any shape.
            priorities: As many, same shape.

        Returns:
            How many keys were stale: their rows were overwritten since, and nothing was changed there.

        Raises:
            InvalidInput: Shapes differ, NaN or negative priorities, foreign keys; nothing was changed.
        """
        result = self._table.update(keys, priorities)
        if result < 0:
            if not self._settings.prioritized:
                raise InvalidInput("update_priorities: this replay is uniform; create it with prioritized=True")
            fitting = checks.fitting_update(keys, priorities, self.capacity)
            result = self._table.update(*fitting)
            if result < 0:
                raise SegmentError("the lock of this replay segment is broken")
        return result

    def __len__(self) -> int:
        """Transitions that can be sampled now."""
        return self._table.size()

    @property
    def capacity(self) -> int:
        """Rows held at most."""
        return self._settings.capacity

    @property
    def nbytes(self) -> int:
        """Bytes of memory of the whole replay, tree included."""
        return _native.table_nbytes(self._settings.native())

    @property
    def num_inserted(self) -> int:
        """Transitions ever committed."""
        return self._table.stats()["num_inserted"]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all committed rows, priorities and the random counter to one file, atomically.

        Others may go on inserting and updating meanwhile: each row saved is whole, with the priority
        it had then. Open n-step windows belong to writers and are not saved.

        Raises:
            OSError: The file cannot be written; nothing is left behind.
        """
        files.save(Path(path), self._table, self._settings.to_json(), self._schema)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, shared: bool = False) -> "Replay":
        """A new replay with what `save` wrote.

        Raises:
            FileFormatError: The file is truncated, damaged, foreign, or from a newer version.
        """
        with files.opened(Path(path)) as saved:
            try:
                settings = _Settings.from_json(saved.settings)
            except (KeyError, TypeError, ValueError) as error:
                raise FileFormatError(f"{path}: its settings make no sense ({error})") from error
            replay = cls.__new__(cls)
            replay._open(settings, shared=shared, segment=None)
            try:
                saved.restore(replay._table, replay._schema)
            except BaseException:
                replay.close()
                raise
        return replay

    def close(self) -> None:
        """Let go of the memory; calls in progress end first, later ones raise Closed."""
        self._table.close()
        if self._segment is not None:
            self._segment.close()
        elif self._private is not None:
            with contextlib.suppress(BufferError):  # a call in progress still holds it
                self._private.close()
            self._private = None

    def __enter__(self) -> "Replay":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class Writer:
    """One producer's way into a replay; one thread at a time.

    Owns the n-step windows of its environments: they end with the episode (terminated or truncated)
    and are lost with the writer.
    """

    def __init__(self, table: _native.Table, schema: Schema, num_envs: int, num_step: int, gamma: float) -> None:
        self._schema = schema
        self._nested = schema.is_nested
        self._num_envs = num_envs
        self._table = table
        self._add = _native.Writer(table, num_envs, num_step, gamma).add

    def add(self, /, **step: Any) -> None:
        """Add one step of every environment; every array has the leading axis `[num_envs]`.

        Takes exactly the fields of the spec, `reward`, `terminated`, `truncated`, and `next_obs` iff
        there is `obs`. `next_obs` is the true next observation, the final one where an episode ended,
        not the first of the next. Rows become visible when their window is full or the episode ends,
        with the largest priority seen so far.

        Args:
            step: Arrays of the declared dtypes; the reward may be any real dtype and is kept as float32.

        Raises:
            InvalidInput: A field is missing, too much, or of the wrong dtype or shape; nothing was added.
            Closed: The replay was closed.
        """
        if self._nested:
            step = self._schema.flatten(step)
        if not self._add(step):
            fitting = checks.fitting_step(self._schema, step, self._num_envs)
            if not self._add(fitting):
                raise AssertionError("a step that fits was turned down; nothing was added")
