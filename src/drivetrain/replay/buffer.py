"""Replay: prioritized or uniform experience replay for many processes at once.

    Writer.add ──▶ n-step windows ──▶ reserve, copy, commit ─┐
                                                             ▼
    update_priorities ──▶ sum tree ◀── rows in one segment ──▶ sample

Everything that counts happens in native code (cpp/include/drivetrain/replay_table.hpp); this file
is its public face. `reference.py` is the same thing in readable NumPy.
"""

# Over 400 lines: all that is public of a replay in one place, more than half of it docstrings.

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
from drivetrain.replay import _native, checks, files, frames
from drivetrain.replay.schema import Schema, Spec
from drivetrain.replay.sequences import Sequences, require_sequences

_KIND = "replay"
_MAX_DRAWS = 2**31  # per call to sample, all batches together


class Sample(NamedTuple):
    """Transitions drawn from a replay; leading axes `[B]`, or `[U, B]` with `num_batches=U`.

    The arrays are copies of the caller's own: later inserts do not change them.
    """

    data: dict[str, Any]
    """The fields of the spec, `next_obs` if there is `obs`, `reward` (n-step return), `terminated` and
    `truncated` of the window's last step, and `discount`: gamma^n, 0 after termination. Of sequences
    all of these per step, `[B, T, ...]`, and `mask`: where there is a step."""
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
    share_next_obs: bool
    frame_stack: int
    sequence: Sequences | None
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
            share_next_obs=bool(values["share_next_obs"]),
            frame_stack=values["frame_stack"],
            sequence=values["sequence"],
            schema=values["schema"],
        )

    @property
    def window(self) -> int:
        """Steps that an environment's open window has at most."""
        return self.schema.steps if self.sequence else self.num_step

    def native(self) -> dict[str, Any]:
        stack, sequence = self.schema.frame_stack, self.sequence
        num_steps = self.capacity * (sequence.num_new_steps if sequence else 1)
        return {
            "capacity": self.capacity,
            "row_stride": self.schema.row_stride,
            "prioritized": self.prioritized,
            "alpha": self.alpha,
            "seed": self.seed,
            "num_frames": frames.num_frames(num_steps, stack, self.window) if stack else 0,
            "frame_stride": self.schema.frame_stride,
            "num_refs": self.schema.num_refs,
            "frame_stack": stack,
            "steps": self.schema.steps,
        }

    def to_json(self) -> dict[str, Any]:
        sequence = self.sequence.to_json() if self.sequence else None
        return {**self.__dict__, "sequence": sequence, "schema": self.schema.to_json()}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "_Settings":
        values = {"share_next_obs": False, "frame_stack": 1, "sequence": None, **values}  # new in format 2
        stack = frames.stack_of(values["share_next_obs"], values["frame_stack"])
        sequence = Sequences.from_json(values["sequence"])
        schema = Schema.from_json(values["schema"], stack, sequence)
        return cls.checked(**{**values, "sequence": sequence, "schema": schema})


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
        share_next_obs: Store an observation once that is `next_obs` of one step and `obs` of the
            next. Found by comparing bytes: samples are the same as without, whatever is added.
        frame_stack: k > 1: observations are stacks of k frames (the leading axis of every obs
            field, newest last), and each frame is stored once; shares next_obs too.
        sequence: Make each row a window of several steps, see `Sequences`; `num_step` must be 1.

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
        share_next_obs: bool = False,
        frame_stack: int = 1,
        sequence: Sequences | None = None,
    ) -> None:
        if not isinstance(spec, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f'spec: expected a dict such as {{"obs": ((4,), "float32")}}, got {spec!r}')
        if sequence is not None:
            require_sequences(sequence, num_step)
        self._open(
            _Settings.checked(
                capacity=capacity,
                prioritized=prioritized,
                alpha=alpha,
                num_step=num_step,
                gamma=gamma,
                seed=seed,
                share_next_obs=share_next_obs,
                frame_stack=frame_stack,
                sequence=sequence,
                schema=Schema.from_spec(spec, frames.stack_of(share_next_obs, frame_stack), sequence),
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
        self._private = None if segment else mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        payload = segment.payload if segment else self._private
        self._table = _native.Table(payload, settings.native(), self._schema.native_fields(), initialize)

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
        """A producer's way in: owns the n-step windows of `num_envs` environments stepped together.

        Raises:
            InvalidInput: `num_envs` is out of range, or shared observations leave no room for its windows.
        """
        num_envs = checks.require_int("num_envs", num_envs, least=1, most=2**20)
        settings, stack = self._settings, self._schema.frame_stack
        frames.require_room(num_envs, stack, settings.window, self._table.num_frames)
        period = settings.sequence.num_new_steps if settings.sequence else 0
        native = _native.Writer(self._table, num_envs, settings.num_step, settings.gamma, period)
        return Writer(self._schema, num_envs, native)

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
        if type(batch_size) is not int or batch_size < 1:
            batch_size = checks.require_int("batch_size", batch_size, least=1)
        if type(beta) is not float or not 0.0 <= beta <= 1.0:
            beta = checks.require_fraction("beta", beta, meaning="0: no correction, 1: full correction")
        if mode != "stratified" and mode != "iid":
            raise InvalidInput(f'mode: expected "stratified" or "iid", got {mode!r}')
        if num_batches is not None:
            num_batches = checks.require_int("num_batches", num_batches, least=1, most=max(1, _MAX_DRAWS // batch_size))
        given = None if out is None else self._given(out, batch_size, num_batches)
        if batch_size > self._settings.capacity:
            raise self._not_enough(batch_size)  # before arrays of that size are made
        try:
            arrays, weights, keys = self._table.sample(batch_size, beta, mode == "stratified", num_batches or 0, given)
        except NotEnoughData:
            raise self._not_enough(batch_size) from None
        return out or Sample(self._schema.nest(arrays), weights, keys)

    def _not_enough(self, batch_size: int) -> NotEnoughData:
        remedy = "add more before sampling"
        if batch_size > self.capacity:
            remedy = f"this replay holds at most {self.capacity}: draw several batches with num_batches"
        elif self._settings.sequence:
            remedy += f" (a sequence appears when its {self._schema.steps} steps are there or its episode ends)"
        elif self._settings.num_step > 1:
            remedy += f" (with num_step={self._settings.num_step}, a row appears when its window is full)"
        return NotEnoughData(f"sample: expected at least {batch_size} committed transitions, got {len(self)}; {remedy}")

    def _given(self, out: Sample, batch_size: int, num_batches: int | None) -> tuple[list[Any], Any, Any]:
        """The arrays of `out` in field order, checked."""
        if not isinstance(out, Sample):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"out: expected a Sample that an earlier call returned, got {type(out).__name__}")
        leading = (batch_size,) if num_batches is None else (num_batches, batch_size)
        flat = self._schema.flatten(out.data)
        wanted = [(f.name, f.dtype, (*leading, *f.sampled_shape)) for f in self._schema.fields]
        arrays = [flat.get(name) for name, _, _ in wanted] + [out.weights, out.keys]
        wanted += [("weights", np.dtype(np.float32), leading), ("keys", np.dtype(np.uint64), leading)]
        for array, (name, dtype, shape) in zip(arrays, wanted, strict=True):
            if not checks.is_writable_array(array, dtype, shape):
                raise InvalidInput(
                    f"out: expected {name} to be a writable contiguous {dtype}{list(shape)}; "
                    "pass a Sample that an earlier call with the same sizes returned"
                )
        return arrays[:-2], arrays[-2], arrays[-1]

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
        if not self._settings.prioritized:
            raise InvalidInput("update_priorities: this replay is uniform; create it with prioritized=True")
        result = self._table.update(keys, priorities)
        if result < 0:
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
    def num_dropped(self) -> int:
        """Transitions lost because their frames were overwritten before they were whole (see
        `share_next_obs`): n-step windows of more environments than the replay has room for.
        """
        return self._table.stats()["num_dropped"]

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

    def __init__(self, schema: Schema, num_envs: int, native: _native.Writer) -> None:
        self._schema = schema
        self._nested = schema.is_nested
        self._num_envs = num_envs
        self._native = native

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
        if not self._native.add(step):
            fitting = checks.fitting_step(self._schema, step, self._num_envs)
            if not self._native.add(fitting):
                raise AssertionError("a step that fits was turned down; nothing was added")
