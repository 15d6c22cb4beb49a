"""Replay: prioritized or uniform experience replay for many processes at once.

    Writer.add ──▶ n-step windows ──▶ reserve, copy, commit ─┐
                                                             ▼
    update_priorities ──▶ sum tree ◀── rows in one segment ──▶ sample

Everything that counts happens in native code (cpp/include/drivetrain/replay_table.hpp); this file
is its public face. `reference.py` is the same thing in readable NumPy.
"""

# Over 400 lines: all that is public of a replay in one place, more than half of it docstrings.

import contextlib
import functools
import inspect
import math
import mmap
import os
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
import numpy.typing as npt

from drivetrain.core.errors import InvalidInput, NotEnoughData, SegmentError
from drivetrain.core.paths import given_path
from drivetrain.core.segments import Segment, SegmentHandle, refused_memory, require_memory, require_space
from drivetrain.replay import _native, arguments, checks, conversion, files, frames, queries
from drivetrain.replay.hindsight import HindsightWriter, Judge, Relabelling, Strategy, require_goals
from drivetrain.replay.memory import MemoryReport
from drivetrain.replay.prefetch import Prefetcher
from drivetrain.replay.queries import PriorityStats
from drivetrain.replay.sample import Sample
from drivetrain.replay.schedules import Schedule
from drivetrain.replay.schema import PRIORITY, Field, Spec
from drivetrain.replay.sequences import Sequences
from drivetrain.replay.settings import ALPHA_MEANING, InitialPriority, Settings
from drivetrain.replay.slab import arrays_in_slab
from drivetrain.replay.spaces import spec_of
from drivetrain.replay.writer import Writer

_KIND = "replay"
_MUCH_NBYTES = 2**28  # filling them takes far longer than asking how much memory there is


@dataclass(frozen=True, kw_only=True)
class ReplayHandle:
    """Names a live shared replay; picklable, for any process of this user on this machine."""

    segment: SegmentHandle


def _private_memory(nbytes: int) -> mmap.mmap:
    """Zeroed memory of this process, in huge pages where there are any: rows are read at random."""
    with refused_memory("the replay", nbytes):
        memory = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a kernel without them
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def _num_envs(value: Any) -> int:
    return arguments.require_int("num_envs", value, least=1, most=2**20)


def _nbytes_of(arrays: Sequence[tuple[np.dtype[Any], tuple[int, ...]]]) -> int:
    """Bytes of arrays of these dtypes and shapes."""
    return sum(math.prod(shape) * dtype.itemsize for dtype, shape in arrays)


def memory_report(capacity: int, spec: Spec, **settings: Any) -> MemoryReport:
    """How much memory `Replay(capacity, spec, **settings)` would take, and for what; takes none.

    Args:
        capacity: As of Replay.
        spec: As of Replay.
        settings: Further arguments of Replay.

    Raises:
        InvalidInput: An argument does not fit.
        TypeError: Replay has no such argument.
    """
    bound = inspect.signature(Replay).bind(capacity, spec, **settings)
    bound.apply_defaults()
    return Settings.of(**bound.arguments).memory()


class Replay:
    """Experience replay in one block of memory, shared between processes if asked for.

    Safe for any number of threads and processes that insert, sample and update at once: rows come
    out whole or not at all, an update for a row that was overwritten since is skipped and counted,
    and a process killed at any point costs at most the rows it was writing. A forked process goes on with
    a shared replay as any other, and with a copy of its own of one that is not shared.

    Args:
        capacity: Rows held; the oldest are overwritten. Fewer than 2^32.
        spec: The fields of a step: a nested dict with leaves `(shape, dtype)`; a list of specs in it
            stands for a tuple of arrays. `reward`, `terminated` and `truncated` exist besides, and
            `next_obs` iff `obs` is declared. Of a window a row has its first step's fields, and its last step's of
            those whose names begin with `next_`.
        prioritized: Draw in proportion to priority (a K-ary sum tree); otherwise uniformly.
        alpha: How much priorities matter, in [0, 1]: leaf = (priority + 1e-6)^alpha.
        num_step: Length n of the windows whose return is a row's reward.
        gamma: Discount per step, in [0, 1].
        shared: Put it where other processes can attach (`handle`); else it is this process's own.
        scratch_dir: Folder on a local disk that is to hold it, for more rows than there is memory: in a file without a
            name, which goes with the last process that has it open. The system keeps what is used in memory as long
            as there is some to spare. Such a replay is `shared`.
        seed: Of the random stream of draws; the counter of the stream lives with the rows.
        initial_priority: The priority of a new row. "running_max": the largest that `update_priorities`
            was ever given, 1 at first. "buffer_max": the largest in the buffer now, 1 while it is empty.
            "given": `add` takes one more array, `priority`. A number: that one.
        weights_by: Importance weights are divided by the largest of their "batch", or by the largest
            that any row of the "buffer" could have: (N P_min)^-beta. All are 1 in a uniform replay.
        share_next_obs: Store an observation once that is `next_obs` of one step and `obs` of the
            next. Found by comparing bytes: samples are the same as without, whatever is added.
        frame_stack: k > 1: observations are stacks of k frames (the leading axis of every obs
            field, newest last), and each frame is stored once; shares next_obs too.
        sequence: Make each row a window of several steps, see `Sequences`; `num_step` must be 1.

    Raises:
        InvalidInput: An argument does not fit.
        SegmentError: There is not enough memory, or not enough room in `scratch_dir`.

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
        scratch_dir: str | os.PathLike[str] | None = None,
        seed: int = 0,
        initial_priority: InitialPriority = "running_max",
        weights_by: Literal["batch", "buffer"] = "batch",
        share_next_obs: bool = False,
        frame_stack: int = 1,
        sequence: Sequences | None = None,
    ) -> None:
        self._open(
            Settings.of(
                spec=spec,
                capacity=capacity,
                prioritized=prioritized,
                alpha=alpha,
                num_step=num_step,
                gamma=gamma,
                seed=seed,
                initial_priority=initial_priority,
                weights_by=weights_by,
                share_next_obs=share_next_obs,
                frame_stack=frame_stack,
                sequence=sequence,
            ),
            shared=arguments.require_bool("shared", shared),
            scratch_dir=arguments.require_folder("scratch_dir", scratch_dir),
        )

    def _open(
        self,
        settings: Settings,
        *,
        shared: bool,
        scratch_dir: Path | None = None,
        segment: Segment | None = None,
        file: Path | None = None,
    ) -> None:
        nbytes = _native.table_nbytes(settings.native())
        initialize = segment is None
        if segment is None:
            what = f"{f'{file}: ' if file else ''}a replay of capacity {settings.capacity}"
            ways = ["load it with a smaller capacity"] if file else settings.ways_to_take_less()
            ways += ["put it on a disk by scratch_dir"] if scratch_dir is None else []
            largest = settings.memory().largest()
            require_space(nbytes, scratch_dir, what=what, largest=largest, remedy=", or ".join(ways))
            if shared or scratch_dir is not None:
                segment = Segment.create(_KIND, nbytes, settings.to_json(), scratch_dir=scratch_dir)
        self._settings = settings
        self._schema = settings.schema
        self._segment = segment
        self._private = None if segment else _private_memory(nbytes)
        self._known: files.Known | None = None
        self._writers = weakref.WeakSet[_native.Writer]()
        payload = segment.payload if segment else self._private
        fields = self._schema.native_fields()
        self._table = _native.Table(payload, settings.native(), fields, Sample, initialize, segment is not None)

    @classmethod
    def for_env(cls, env: Any, capacity: int = 2**20, **settings: Any) -> "Replay":
        """A replay for the observations and actions of a Gymnasium environment, single or vector.

        How steps of a vector environment are added depends on its autoreset mode: see `Writer.add_some`.

        Args:
            env: Its spaces are Box, Discrete, MultiDiscrete, MultiBinary, Dict or Tuple, nested at will.
                Tuples go into `add` as tuples or lists, and come out of `sample` as tuples.
            capacity: Rows held.
            settings: The other arguments of Replay.

        Raises:
            InvalidInput: A space of another kind, whose items have no fixed size; or a setting does not fit.
            SegmentError: There is not enough memory.
        """
        return cls(capacity, spec_of(env), **settings)

    @classmethod
    def attach(cls, handle: ReplayHandle) -> "Replay":
        """The replay that `handle` names, in this process.

        Args:
            handle: What `handle()` has returned in the process that created it.

        Raises:
            OwnerDead: The process that created it has exited.
            ForeignSegment: It is not a replay, or of another version of drivetrain.
        """
        if not isinstance(handle, ReplayHandle):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"attach: expected what replay.handle() returned, got {type(handle).__name__}")
        segment = Segment.attach(handle.segment, _KIND)
        replay = cls.__new__(cls)
        replay._open(Settings.from_json(segment.meta), shared=True, segment=segment)
        return replay

    def handle(self) -> ReplayHandle:
        """What another process needs to `attach`; valid while this process holds the replay.

        Raises:
            SegmentError: The replay was not created with `shared=True`, or is closed.
        """
        if self._segment is None:
            raise SegmentError("this replay is private to its process; create it with shared=True to hand it out")
        return ReplayHandle(segment=self._segment.handle())

    def writer(self, num_envs: int = 1, *, check_obs: bool = True) -> "Writer":
        """A producer's way in: owns the n-step windows of `num_envs` environments stepped together.

        Args:
            num_envs: Environments of each step.
            check_obs: Where observations are shared, find out by comparing bytes what of a step is there already.
                False believes that within an episode `obs` is the `next_obs` before it, and `next_obs` is `obs`
                moved on by one frame, so that only new frames are read and stored: quicker for images, and samples
                hold other observations than were added where it is not so. An episode's first `obs` is stored as
                it is, and so is one whose frames were overwritten meanwhile. Nothing changes where none are shared.

        Returns:
            What adds their steps; it keeps their open windows, so each environment needs one and the same.

        Raises:
            InvalidInput: `num_envs` is out of range, or shared observations leave no room for its windows.
            SegmentError: There is not enough memory for them.
            Closed: The replay was closed.
        """
        num_envs = _num_envs(num_envs)
        native = self._native_writer(num_envs, check_obs=arguments.require_bool("check_obs", check_obs))
        return Writer(self._schema, self._inputs, num_envs, native)

    def hindsight_writer(
        self,
        num_envs: int = 1,
        *,
        reward: Judge,
        terminated: Judge | None = None,
        num_goals: int = 4,
        strategy: Strategy = "future",
        seed: int = 0,
    ) -> HindsightWriter:
        """A producer's way in for environments with goals, of which failures teach something, too: each step is added
        as it is and, once its episode has ended, again with other goals, which the episode has reached.

        Observations are those of Gymnasium's goal environments: dicts with `achieved_goal` and `desired_goal`. A
        relabelled step has another `desired_goal` in obs and next_obs, and the reward for it. Goals are chosen when an
        episode is over, so that its rows are ordinary ones, prioritized and all.

        Args:
            num_envs: Environments of each step.
            reward: `reward(achieved, desired)`, `[N, ...]` each, gives the N rewards of steps that have led there. With
                Gymnasium-Robotics: `lambda achieved, desired: env.unwrapped.compute_reward(achieved, desired, {})`.
                One with a parameter `steps` is also given the fields of these steps, `[N, ...]`, nested as in the
                spec: `steps["action"]` for what actions cost, fields of your own for what stands in an info.
            terminated: As `reward`, N Booleans: whether that ends an episode. None: each step keeps its own.
            num_goals: Other goals of each step, a row for each.
            strategy: Where they are from. "future": what the episode has reached at this step or a later one, drawn
                evenly; "episode": at any step; "final": at its last, one goal for all steps. Rows of several steps
                (`num_step` > 1, sequences) have one goal, so that they need "final".
            seed: Of the draws of goals.

        Returns:
            What adds their steps, by `add`, `add_some`, `extend` and `drop_windows`, as a Writer. It holds episodes
            until they end, in this process's memory.

        Raises:
            InvalidInput: An argument does not fit, observations have no goals, or shared observations leave no room.
            SegmentError: There is not enough memory.
            Closed: The replay was closed.

        Reference: Andrychowicz et al. 2017, arXiv 1707.01495, section 4.5 ("future" with 4 goals did best).
        """
        require_goals(self._inputs)
        how = Relabelling.checked(
            window=self._settings.window,
            reward=reward,
            terminated=terminated,
            num_goals=num_goals,
            strategy=strategy,
            seed=seed,
        )
        num_envs = _num_envs(num_envs)
        as_they_are, relabelled = (self._native_writer(num, check_obs=True) for num in (num_envs, how.num_goals))
        return HindsightWriter(self._schema, self._inputs, num_envs, as_they_are, relabelled, how)

    @property
    def _inputs(self) -> tuple[Field, ...]:
        """The fields of a step that is added."""
        return self._schema.inputs + ((PRIORITY,) if self._settings.initial_priority == "given" else ())

    def _native_writer(self, num_envs: int, *, check_obs: bool) -> _native.Writer:
        settings, stack = self._settings, self._schema.frame_stack
        frames.require_room(num_envs, stack, settings.window, self._table.num_frames)
        period = settings.sequence.num_new_steps if settings.sequence else 0
        nbytes, what = num_envs * settings.window_nbytes, f"a writer with the open windows of {num_envs:,} environments"
        remedy = "have fewer environments, or shorter windows"
        if nbytes >= _MUCH_NBYTES:
            require_memory(nbytes, what=what, remedy=remedy)
        try:
            native = _native.Writer(self._table, num_envs, settings.num_step, settings.gamma, period, check_obs)
        except MemoryError as error:
            raise SegmentError(f"there is not enough memory for {what}; {remedy}") from error
        self._writers.add(native)
        return native

    def sample(
        self,
        batch_size: int,
        *,
        beta: float = 0.4,
        mode: Literal["stratified", "iid"] = "stratified",
        num_batches: int | None = None,
        out: Sample | None = None,
        num_threads: int = 1,
        join_stacks: bool = False,
    ) -> Sample:
        """Draw transitions with probability p_i / sum(p).

        Safe against concurrent `add` and `update_priorities`; never returns a half-written row. Two
        samplers of one replay never use the same random numbers.

        Args:
            batch_size: Rows per batch, B.
            beta: Exponent of the importance correction in [0, 1]; 1 corrects fully.
            mode: "stratified" draws one row from each of B equal parts of the total priority (less
                variance), beginning with any of them; "iid" draws each row independently.
            num_batches: Draw U batches in one call; the leading axes are then `[U, B]`.
            out: A Sample of this replay and these sizes to write into and return.
            num_threads: Threads that copy the rows of a large sample (a MiB and more in 1,024 rows), this one
                included; the same sample comes out. Worth it where cores have nothing else to do.
            join_stacks: With `frame_stack` > `num_step`, write the frames that obs and next_obs share once: both
                are then read-only views of one array, see `joined_frames`. Their values are the same as without;
                and so is their memory, two arrays, where a row of the sample has no such next_obs (a window cut
                by an episode's end, a step across a reset), and of sequences. Not with `out`.

        Returns:
            `data`, nested as the spec is, each field `[B, ...]`; `weights`, float32[B], the importance correction; and
            `keys`, uint64[B], for `update_priorities`. In new memory that nothing else writes to, or in `out`.

        Raises:
            NotEnoughData: Fewer than batch_size transitions are committed.
            InvalidInput: An argument does not fit.
            SegmentError: There is not enough memory.
            Closed: The replay was closed.

        Reference: Schaul et al. 2016, arXiv 1511.05952, section 3.3 and 3.4.
        """
        if join_stacks is not False:
            join_stacks = arguments.require_bool("join_stacks", join_stacks)
        if join_stacks and out is not None:
            raise InvalidInput("out: joined stacks come in memory of their own; give out, or join_stacks, not both")
        try:
            sample = self._table.sample(batch_size, beta, mode, num_batches, out, num_threads, join_stacks)
            if sample is None:
                given = checks.fitting_draws(batch_size, beta, mode, num_batches)
                num_threads = arguments.require_int("num_threads", num_threads, least=1, most=_native.MAX_THREADS)
                fitting = None if out is None else self._fitting_out(out, given[0], given[3])
                sample = self._table.sample(*given, fitting, num_threads, join_stacks)
                if sample is None:
                    raise self._not_enough(given[0])
        except NotEnoughData:
            raise self._not_enough(batch_size) from None
        except MemoryError as error:
            num_rows = batch_size * (num_batches or 1)
            raise SegmentError(f"sample: there is not enough memory for {num_rows:,} rows; draw fewer") from error
        if out is not None:
            return out
        return Sample(self._schema.as_declared(sample.data), *sample[1:]) if self._schema.is_respelled else sample

    def new_batch(self, batch_size: int, *, num_batches: int | None = None, pinned: bool = False) -> Sample:
        """A Sample for `sample(..., out=)`, in one piece of memory; what is in it means nothing yet.

        Args:
            batch_size: As for `sample`, and so is num_batches.
            pinned: In page-locked memory, from which a GPU copies fast and beside other work
                (`tensor.to(device, non_blocking=True)`). It comes from PyTorch.

        Returns:
            As `sample` gives them: fields `[B, ...]`, or `[U, B, ...]` with num_batches; weights and keys.

        Raises:
            MissingExtra: `pinned`, and PyTorch is not installed.
            InvalidInput: An argument does not fit; `pinned`, and PyTorch finds no CUDA device.
            SegmentError: There is not enough memory.
        """
        batch_size = arguments.require_int("batch_size", batch_size, least=1, most=checks.MAX_DRAWS)
        num_batches = checks.require_num_batches(num_batches, batch_size)
        pinned = arguments.require_bool("pinned", pinned)
        wanted = [w[1:] for w in self._wanted(batch_size, num_batches)]
        what = f"a batch of {batch_size * (num_batches or 1):,} rows"
        require_memory(_nbytes_of(wanted), what=what, remedy="take fewer")
        *arrays, weights, keys = arrays_in_slab(wanted, pinned=pinned)
        return Sample(self._schema.nest(arrays), weights, keys)

    def prefetch(
        self,
        batch_size: int,
        *,
        beta: float | Schedule = 0.4,
        mode: Literal["stratified", "iid"] = "stratified",
        num_batches: int | None = None,
        num_threads: int = 1,
        join_stacks: bool = False,
        pinned: bool = False,
        depth: int = 2,
        timeout_s: float = 60.0,
    ) -> Prefetcher[Sample]:
        """An iterator over samples that a thread draws ahead; close it, or use `with`.

        A sample is drawn when the one `depth` before it is handed out: it knows neither the rows added nor
        the priorities updated since, and its keys are as much more likely to be stale.

        Args:
            batch_size: As for `sample`, and so are mode, num_batches, num_threads and join_stacks.
            beta: A number, or a schedule called with 0, 1, 2, ... for one sample after the other.
            pinned: Draw into page-locked memory, as of `new_batch`, by turns: a sample is written over once the second
                one after it is asked for, so that copies to a GPU have until then. Not with `join_stacks`.
            depth: Samples drawn ahead at most; each takes its memory.
            timeout_s: How long to wait, at the start or later, while too few rows are committed.

        Returns:
            The iterator, whose thread draws from here on. Each sample is the caller's own, unless `pinned`. What the
            thread raises, `next` raises in its turn; TimedOut after `timeout_s`.

        Raises:
            InvalidInput: An argument does not fit; `pinned`, and PyTorch finds no CUDA device.
            MissingExtra: `pinned`, and PyTorch is not installed.
            SegmentError: There is not enough memory for what is pinned.
            NotEnoughData: The batch is larger than the replay.
        """
        num_threads = arguments.require_int("num_threads", num_threads, least=1, most=_native.MAX_THREADS)
        join_stacks = arguments.require_bool("join_stacks", join_stacks)
        depth = arguments.require_int("depth", depth, least=1, most=1024)
        timeout_s = arguments.require_seconds("timeout_s", timeout_s)
        if arguments.require_int("batch_size", batch_size, least=1) > self.capacity:
            raise self._not_enough(batch_size)  # waiting would not help
        checks.fitting_draws(batch_size, 0.0 if callable(beta) else beta, mode, num_batches)
        turns: list[Sample | None] = [None]
        if arguments.require_bool("pinned", pinned):
            if join_stacks:
                raise InvalidInput(
                    "pinned: joined stacks come in memory of their own; leave out pinned, or join_stacks"
                )
            # Those drawn ahead, the caller's, and the one before, of which a copy may be under way.
            turns = [self.new_batch(batch_size, num_batches=num_batches, pinned=True) for _ in range(depth + 2)]

        def drawing(step: int) -> Callable[[], Sample]:
            return functools.partial(
                self.sample,
                batch_size,
                beta=beta(step) if callable(beta) else beta,
                mode=mode,
                num_batches=num_batches,
                out=turns[step % len(turns)],
                num_threads=num_threads,
                join_stacks=join_stacks,
            )

        return Prefetcher(drawing, depth=depth, timeout_s=timeout_s)

    def _not_enough(self, batch_size: int) -> NotEnoughData:
        num_rows, expected = len(self), f"sample: expected at least {batch_size} committed transitions"
        if num_rows >= batch_size:
            return NotEnoughData(f"{expected}, got fewer, and {num_rows} now that others have added some; sample again")
        remedy = "add more before sampling"
        if batch_size > self.capacity:
            remedy = f"this replay holds at most {self.capacity}: draw several batches with num_batches"
        elif self._settings.sequence:
            remedy += f" (a sequence appears when its {self._schema.steps} steps are there or its episode ends)"
        elif self._settings.num_step > 1:
            remedy += f" (with num_step={self._settings.num_step}, a row appears when its window is full)"
        stats = self._table.stats()
        if dropped := stats["num_dropped"]:
            remedy += f"; {dropped:,} rows were dropped, whose frames were gone: use a larger capacity"
        elif self._table.num_frames and batch_size <= stats["num_used"]:
            overwritten = "frames that they share are overwritten, as by many short episodes"
            remedy = f"rows end early where {overwritten}: use a larger capacity"
        return NotEnoughData(f"{expected}, got {num_rows}; {remedy}")

    def _fitting_out(self, out: Sample, batch_size: int, num_batches: int | None) -> Sample:
        if not isinstance(out, Sample):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"out: expected a Sample that an earlier call returned, got {type(out).__name__}")
        arrays = checks.fitting_out(self._schema, self._wanted(batch_size, num_batches), out)
        return Sample(self._schema.nest_dicts(arrays[:-2]), arrays[-2], arrays[-1])

    def _wanted(self, batch_size: int, num_batches: int | None) -> list[tuple[str, np.dtype[Any], tuple[int, ...]]]:
        """Name, dtype and shape of every array of a sample, weights and keys last."""
        leading = (batch_size,) if num_batches is None else (num_batches, batch_size)
        wanted = [(f.name, f.dtype, (*leading, *f.sampled_shape)) for f in self._schema.fields]
        return [*wanted, ("weights", np.dtype(np.float32), leading), ("keys", np.dtype(np.uint64), leading)]

    def update_priorities(self, keys: npt.NDArray[np.uint64], priorities: npt.NDArray[np.floating[Any]]) -> int:
        """Give sampled rows new priorities, |TD error| as a rule; finite and >= 0.

        The leaf becomes (priority + 1e-6)^alpha; where a key occurs twice, the last one counts.

        Args:
            keys: `sample.keys`, or any selection of them, any shape.
            priorities: As many, same shape.

        Returns:
            How many keys were stale: their rows were overwritten since, and nothing was changed there.

        Raises:
            InvalidInput: Shapes differ, NaN or negative priorities, keys that no row can have, or a uniform replay;
                nothing was changed. Keys of another replay, or of one before it was saved and loaded, are not told
                from its own.
            Closed: The replay was closed.
        """
        result = self._table.update(keys, priorities)
        if result < 0:
            self._require_prioritized("update_priorities")
            fitting = checks.fitting_update(keys, priorities, self.capacity)
            result = self._table.update(*fitting)
            if result < 0:
                raise SegmentError("the lock of this replay segment is broken")
        return result

    def update_fields(self, keys: npt.NDArray[np.uint64], /, **fields: Any) -> npt.NDArray[np.uint64]:
        """Write stored fields of rows anew: recurrent states or targets that were computed again, rewards that a
        model has learned to judge otherwise.

            states = network(sample.data["obs"])
            keys = replay.update_fields(sample.keys, state=states)
            replay.update_priorities(keys, td_errors)

        A row keeps its place, its priority and its other fields, and is another one to those who have its key from
        before. Samplers get it as it was or as it is, whole. Where a key occurs twice, the last one counts. A process
        killed meanwhile costs one row.

        Args:
            keys: From `sample.keys` or `all_keys()`, any shape.
            fields: As `sample` gives them, nested alike, with the axes of `keys` first: the spec's own, `next_obs` and
                `reward` (the n-step return), some of them or all. Not observations that rows share (`share_next_obs`,
                `frame_stack`, sequences), nor terminated, truncated, discount and mask.

        Returns:
            The keys of these rows from now on, same shape; a stale key, whose row was overwritten since, as it was,
            and nothing was changed there.

        Raises:
            InvalidInput: Foreign keys, fields that do not fit, no such ones, or rewards that are not finite; nothing
                was changed.
            SegmentError: The lock of this replay is broken.
            Closed: The replay was closed.
        """
        keys = checks.fitting_keys(keys, self.capacity)
        fitting = checks.fitting_fields(self._schema, self._schema.flatten(fields), keys.shape)
        flat = keys.ravel()
        # Each row once: the last of those with its key, which are the first ones backwards.
        renewed, last, of_all = np.unique(flat[::-1], return_index=True, return_inverse=True)
        arrays = [array.reshape(flat.size, *array.shape[keys.ndim :])[flat.size - 1 - last] for _, array in fitting]
        self._table.rewrite_rows(renewed, [place for place, _ in fitting], arrays)
        return renewed[of_all][::-1].reshape(keys.shape)

    @property
    def alpha(self) -> float:
        """How much priorities matter now; the same in every process attached."""
        return self._table.alpha()

    def set_alpha(self, alpha: float, *, rescale: bool = True) -> None:
        """Change alpha for every process attached, at once for all priorities given from now on.

        Args:
            alpha: In [0, 1].
            rescale: Also turn the leaves there are into leaf^(new / old), which is what they would be
                had alpha always been the new one. It takes O(capacity) and many short holds of the
                lock; samples drawn meanwhile mix both. If this process dies half way, those who add
                and update complete it. False: rows keep their leaves until their next update.

        Raises:
            InvalidInput: Not in [0, 1]; a uniform replay; `rescale` to a larger alpha from one below 1e-4, where
                priorities are lost in the rounding of leaves, or from 0, where every leaf is 1. Nothing was changed.
            Closed: The replay was closed.
        """
        self._require_prioritized("set_alpha")
        alpha = arguments.require_fraction("alpha", alpha, meaning=ALPHA_MEANING)
        rescale = arguments.require_bool("rescale", rescale)
        try:
            self._table.set_alpha(alpha, rescale)
        except InvalidInput:
            raise InvalidInput(
                f"set_alpha: with alpha 0 every leaf is 1 and no priority is kept, and with one below 1e-4 none that "
                f"could be told from its neighbours, so that leaves cannot be rescaled from alpha {self.alpha} to "
                f"{alpha}; use rescale=False, and update_priorities(replay.all_keys(), ...)"
            ) from None

    def priorities(self, keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
        """The priorities of rows, leaf^(1/alpha) - 1e-6: what was given for them, up to rounding of leaves (to
        float32, which is 6e-8 / alpha of a priority, and to the unit that leaves are multiples of, which one beyond
        8,192 makes coarser). After `set_alpha(..., rescale=False)` rows not updated since are read by the new alpha.
        None is above the largest float32, so that all of them can be given again.

        Args:
            keys: From `sample.keys` or `all_keys()`, any shape.

        Returns:
            float64 of the same shape; NaN where a key is stale, and everywhere when alpha is 0, since
            leaves are then 1 whatever the priorities were.

        Raises:
            InvalidInput: Foreign keys, or a uniform replay.
            Closed: The replay was closed.
        """
        self._require_prioritized("priorities")
        return queries.priorities(self._table, keys, self.capacity)

    def all_keys(self) -> npt.NDArray[np.uint64]:
        """The keys of all rows, oldest first: uint64 `[len(self)]` when nobody else writes.

        With `update_priorities(replay.all_keys(), values)` all rows get new priorities at once. Rows
        that others insert meanwhile may be missing, and keys of rows they overwrite are stale.

        Raises:
            Closed: The replay was closed.
        """
        return self._table.all_keys()

    def read(self, keys: npt.NDArray[np.uint64]) -> Sample:
        """The rows of some keys, in the order of these, as `sample` gives them.

        With `all_keys()`, some at a time, it reads everything: to work out all priorities anew, or to take
        the rows elsewhere. Safe against concurrent `add`: a row comes out whole or as a stale one.

        Args:
            keys: uint64 `[B]` or `[U, B]`, from `sample.keys` or `all_keys()`.

        Returns:
            A Sample with these leading axes. Its weights are 1; where a key is stale, since the row was
            overwritten, the weight and all of the row are 0.

        Raises:
            InvalidInput: Foreign keys, or of more than two axes.
            SegmentError: There is not enough memory for all of them at once.
            Closed: The replay was closed.
        """
        keys = checks.fitting_keys(keys, self.capacity)
        if keys.ndim not in (1, 2):
            raise InvalidInput(f"keys: expected one or two axes, [B] or [U, B], got shape {list(keys.shape)}")
        leading: tuple[int, ...] = keys.shape
        wanted = [w[1:] for w in self._wanted(leading[-1], leading[0] if keys.ndim == 2 else None)]
        nbytes = _nbytes_of(wanted)
        if nbytes >= _MUCH_NBYTES:
            require_memory(nbytes, what=f"reading {keys.size:,} rows", remedy="read some keys at a time")
        *arrays, weights, copied = arrays_in_slab(wanted, pinned=False)
        if not self._table.read(keys, Sample(self._schema.nest_dicts(arrays), weights, copied)):
            raise AssertionError("keys that fit were turned down")
        return Sample(self._schema.nest(arrays), weights, copied)

    def priority_stats(self) -> PriorityStats:
        """Count, smallest, largest, sum and mean of what draws are proportional to.

        Raises:
            InvalidInput: A uniform replay.
            Closed: The replay was closed.
        """
        self._require_prioritized("priority_stats")
        return queries.priority_stats(self._table)

    def _require_prioritized(self, call: str) -> None:
        if not self._settings.prioritized:
            raise InvalidInput(f"{call}: this replay is uniform; create it with prioritized=True")

    def __len__(self) -> int:
        """Transitions that can be sampled now."""
        return self._table.size()

    def clear(self) -> None:
        """Forget all rows, as for another task; the running maximum of priorities begins at 1 again.

        Keys of these rows are stale from now on. Steps in open windows are their writers', and become rows as ever:
        `Writer.drop_windows` forgets those, too. What others add meanwhile may stay. It takes O(capacity) and many
        short holds of the lock. Alpha, the random stream and `num_inserted` go on.

        Raises:
            Closed: The replay was closed.
        """
        self._table.clear()

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

    def save(self, path: str | os.PathLike[str], *, incremental: bool = False) -> int:
        """Write all committed rows, priorities and the random counter to one file.

        Others may go on inserting and updating meanwhile: each row saved is whole, with the priority
        it had then. Open n-step windows belong to writers and are not saved.

        The file is written aside and renamed, so that it is the old one or the new one whenever this
        process is killed. With `incremental`, what has changed is added to it, and it loads as of the
        save before until this one is complete.

        Args:
            path: Of the file; `~` and `~user` are the folders of users.
            incremental: Write only what has changed since this object last saved to this file, or was
                loaded from it. All is written if the file is not as it was left then, or if more than
                half of it would be of no use any more.

        Returns:
            How many bytes were written.

        Raises:
            OSError: The file cannot be written; it is what it was, and nothing else is left behind.
            InvalidInput: `path` is none; nothing was written.
            Closed: The replay was closed.
        """
        file = given_path("path", path, "the path of a file")
        settings = {**self._settings.to_json(), "alpha": self.alpha}
        known = self._known if arguments.require_bool("incremental", incremental) else None
        self._known, nbytes = files.save(file, self._table, settings, self._schema, known)
        return nbytes

    @property
    def save_number(self) -> int:
        """Number of this replay's latest save in its file, counted from 1 when the file was last written
        whole; 0 before any. `load` can go back by one, for those who keep other files in step with this.
        """
        return self._known.commit.number if self._known else 0

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        capacity: int | None = None,
        shared: bool = False,
        scratch_dir: str | os.PathLike[str] | None = None,
        save_number: int | None = None,
    ) -> "Replay":
        """A new replay with what `save` wrote.

        It draws the same rows as the one that was saved, where that was full or never so. Where observations are
        shared, rows may have left that early, because their frames were overwritten; then it draws others.

        Args:
            path: Of the file, as for `save`.
            capacity: Rows held, instead of as many as the saved one; when there are more rows in the
                file, the newest are kept.
            shared: Put it where other processes can attach.
            scratch_dir: Folder on whose disk it lies, as for Replay.
            save_number: Which of the file's last two saves (see the property), from 1; None: the last.

        Warns:
            UserWarning: The last part of an incremental save was not finished, or is cut short; it is
                left out, and the replay is that of the save before. Not with `save_number`.

        Raises:
            FileFormatError: The file is truncated, damaged, foreign, from a newer version, or without
                the save that was asked for.
            OSError: It is not there, or cannot be read.
            SegmentError: There is not enough memory; nothing but the file's head was read.
            InvalidInput: `path` is none, or `capacity` or `save_number` is out of range.
        """
        if save_number is not None:
            save_number = arguments.require_int("save_number", save_number, least=1)
        shared = arguments.require_bool("shared", shared)
        folder = arguments.require_folder("scratch_dir", scratch_dir)
        file = given_path("path", path, "the path of a file")
        with files.opened(file, save_number) as saved:
            settings = Settings.of_file(file, saved.settings)
            as_loaded = settings if capacity is None else settings.with_capacity(capacity)
            replay = cls.__new__(cls)
            replay._open(as_loaded, shared=shared, scratch_dir=folder, file=file)
            try:
                index = saved.index(settings.schema, settings.capacity)
                replay._known = saved.restore(replay._table, replay._schema, index, replay.capacity)
            except BaseException:
                replay.close()
                raise
        return replay

    def take_over(self, source: "Replay", change: Callable[[Any], Any]) -> None:
        """Fill this replay, which is empty, with the rows of another whose observations were other ones.

        Rows, their order, their priorities and alpha stay, and draws go on from the same random numbers: the same rows
        are drawn, unless some have left early because their frames were overwritten. Keys of the other's rows mean
        nothing here. Nobody may use either of them meanwhile.

        Args:
            source: Of the same capacity, settings and fields but for `obs`, with `share_next_obs` or
                `frame_stack`, and without sequences; stays as it is.
            change: From its observations `[N, ...]` to ours, nested as the specs; called with some of them at a
                time, with each as often as it is stored: once along an episode.

        Raises:
            InvalidInput: They do not fit each other; this one needs `share_next_obs` and no stack.
        """
        if not isinstance(source, Replay):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"take_over: expected a Replay as source, got {type(source).__name__}")
        for name in ("num_step", "gamma", "prioritized", "seed", "initial_priority", "weights_by"):
            mine, other = getattr(self._settings, name), getattr(source._settings, name)
            if mine != other:
                raise InvalidInput(f"take_over: expected a source with {name}={mine}, as this one, got {other}")
        ours = conversion.Side(self._table, self._schema, self.capacity)
        conversion.convert(conversion.Side(source._table, source._schema, source.capacity), ours, change)

    def __reduce__(self) -> NoReturn:
        raise InvalidInput(
            "a Replay cannot be pickled or copied; make it with shared=True and send replay.handle(), which "
            "Replay.attach takes, or save and load it"
        )

    def close(self) -> None:
        """Let go of the memory; calls in progress end first, later ones raise Closed."""
        self._table.close()
        for writer in list(self._writers):
            writer.close()
        if self._segment is not None:
            self._segment.close()
        elif self._private is not None:
            with contextlib.suppress(BufferError):  # a call in progress still holds it
                self._private.close()
            self._private = None

    def __repr__(self) -> str:
        kind = "prioritized" if self._settings.prioritized else "uniform"
        rows = "closed" if self._table.closed else f"{len(self):,} of {self.capacity:,} rows"
        return f"<Replay: {kind}, {rows}>"

    def __enter__(self) -> "Replay":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
