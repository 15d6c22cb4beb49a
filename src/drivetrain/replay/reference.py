"""Replay in readable NumPy: the oracle that the native one must equal, key by key.

    Writer.add ──▶ n-step windows ──▶ insert ──▶ rows, generations, leaves ──▶ sample
                                                              ▲                   │ keys
                                                    update_priorities ◀───────────┘

Same behaviour for one thread, none of the speed. Leaves are float32 multiples of a unit
2^unit_exponent, so that sums of them are integers and exact; a draw is a cumulative sum and a
search. Random words are NumPy's Philox, whose counter is the `block` the native replay keeps.
"""

import copy
import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from drivetrain.replay.frames import stack_of
from drivetrain.replay.reference_frames import Numbers, ReferenceChains, ReferenceFrames
from drivetrain.replay.sample import Sample
from drivetrain.replay.schema import DISCOUNT, FIRST, FRAMES, REWARD, Schema, Spec
from drivetrain.replay.sequences import Sequences
from drivetrain.replay.settings import InitialPriority

_MAX_BATCH = 1024  # rows per lock hold; random words come in whole blocks per batch
_WORDS_PER_BLOCK = 4
_FRACTION_BITS = 24
_MOST_TRIES = 4096
_EPSILON = float(np.float32(1e-6))


def power(x: npt.ArrayLike, y: float) -> Any:
    """x^y by the operations of power.hpp in the same order, and so to the same bits; x > 0."""
    return _two_to(y * _log2(x))


def _power_relative(x: npt.ArrayLike, one: npt.ArrayLike, y: float) -> Any:
    """(x / one)^y likewise."""
    return _two_to(y * (_log2(x) - _log2(one)))


def _log2(x: npt.ArrayLike) -> Any:
    m, e = np.frexp(np.asarray(x, np.float64))  # x = m * 2^e, m in [1/2, 1)
    low = m < math.sqrt(0.5)
    m, e = np.where(low, 2 * m, m), np.where(low, e - 1, e)
    s = (m - 1) / (m + 1)
    return e + s * _series([2 / ((2 * k + 1) * math.log(2)) for k in range(8)], s * s)


def _two_to(exponent: Any) -> Any:
    n = np.rint(exponent)
    terms = [1 / math.factorial(k) for k in range(11)]
    return np.ldexp(_series(terms, (exponent - n) * math.log(2)), n.astype(np.int64))


def _series(terms: list[float], z: Any) -> Any:
    """Sum of terms[k] z^k, even and odd powers apart."""
    even, odd = (reduce(lambda total, term: total * (z * z) + term, reversed(terms[k::2])) for k in (0, 1))
    return even + odd * z


class ReferenceReplay:
    """The public behaviour of `Replay` for one thread."""

    def __init__(
        self,
        capacity: int,
        spec: Spec,
        *,
        prioritized: bool = True,
        alpha: float = 0.6,
        num_step: int = 1,
        gamma: float = 0.99,
        seed: int = 0,
        initial_priority: InitialPriority = "running_max",
        weights_by: str = "batch",
        share_next_obs: bool = False,
        frame_stack: int = 1,
        sequence: Sequences | None = None,
    ) -> None:
        self.initial_priority, self.weights_by = initial_priority, weights_by
        self.prioritized, self.seed = prioritized, seed
        self.num_step, self.gamma, self.alpha = num_step, gamma, float(alpha)
        self.sequence = sequence
        self.schema = Schema.from_spec(spec, stack_of(share_next_obs, frame_stack), sequence)
        self.next_slot, self.num_inserted, self.block, self.max_priority = 0, 0, 1, 1.0
        self.num_dropped = 0
        self._size(capacity)
        self.unit_exponent = self._unit_exponent_for(4096.0)

    def _size(self, capacity: int) -> None:
        """Make room for so many rows; there are none yet."""
        self.capacity, sequence = capacity, self.sequence
        num_steps = capacity * (sequence.num_new_steps if sequence else 1)
        window = sequence.num_steps if sequence else self.num_step
        self.frames = ReferenceFrames(num_steps, self.schema, window) if self.schema.frame_stack else None
        self.row_frames: list[Sequence[int]] = [()] * capacity
        self.rows = {f.name: np.zeros((capacity, *f.sampled_shape), f.dtype) for f in self.schema.fields}
        self.num_used = 0  # slots that rows are looked for in, from 0 on
        self.generations = np.zeros(capacity, np.uint64)  # 0: no row yet; then 2, 4, ...; odd: ended early
        self.leaves = np.zeros(capacity, np.float32)
        padded = -(-capacity // 16) * 16
        order = np.arange(padded).reshape(-1, 4, 4).transpose(0, 2, 1).ravel()
        self.order = order[order < capacity]  # in which leaves are added up: 0, 4, 8, 12, 1, ... of each sixteen
        self.leaf_bits = min(48, 62 - math.ceil(math.log2(padded)))  # a leaf is at most 2^leaf_bits units

    def __len__(self) -> int:
        return int(np.count_nonzero(self.is_whole()))

    def is_whole(self) -> npt.NDArray[np.bool_]:
        """Which slots hold a row that can be drawn."""
        return (self.generations > 0) & (self.generations % np.uint64(2) == 0)

    def insert(self, rows: list[dict[str, Any]]) -> None:
        """Put rows where the oldest are, some at a time; those overwritten are gone before any is new.

        A row may bring its own "priority", and its "frames"; without them it is dropped, and leaves
        its slot empty.
        """
        step = min(self.frames.rows_per_hold if self.frames else _MAX_BATCH, self.capacity)
        for start in range(0, len(rows), step):
            batch = rows[start : start + step]
            slots = (self.next_slot + np.arange(len(batch))) % self.capacity
            self.leaves[slots] = 0
            self.num_used = max(self.num_used, min(self.next_slot + len(batch), self.capacity))
            self.next_slot = (self.next_slot + len(batch)) % self.capacity
            leaves = [self._initial_leaf(row.pop("priority", None)) for row in batch]
            for slot, row, leaf in zip(slots, batch, leaves, strict=True):
                self._put(int(slot), row, row.pop("frames", []), leaf)

    def _put(self, slot: int, row: dict[str, Any], frames: Sequence[int], leaf: float) -> None:
        for name, value in row.items():
            self.rows[name][slot] = value
        self.row_frames[slot] = frames
        self.generations[slot] += np.uint64(2) + self.generations[slot] % np.uint64(2)
        if self.frames and min(frames) < self.frames.oldest():
            self.generations[slot] -= np.uint64(1)
            self.num_dropped += 1
        else:
            self._set_leaves([slot], [leaf])
            self.num_inserted += 1

    def _initial_leaf(self, given: float | None) -> float:
        if self.initial_priority == "given":
            assert given is not None
            return self.leaf_of(given)
        if self.initial_priority == "buffer_max":
            return float(self.leaves.max()) or self.leaf_of(1.0)
        if isinstance(self.initial_priority, str):
            return self.leaf_of(self.max_priority)
        return self.leaf_of(np.float32(self.initial_priority))

    def end_rows(self) -> None:
        """Take out the rows whose frames are gone."""
        if self.frames:
            for slot in np.flatnonzero(self.is_whole()):
                if min(self.row_frames[slot]) < self.frames.oldest():
                    self.generations[slot] += np.uint64(1)
                    self._set_leaves([slot], [0.0])

    def clear(self) -> None:
        """Take out all rows, and begin anew in slot 0."""
        self.generations[self.is_whole()] += np.uint64(1)
        self.leaves[:] = 0
        self.next_slot, self.num_used, self.max_priority = 0, 0, 1.0
        self.unit_exponent = self._unit_exponent_for(4096.0)

    def sample(
        self, batch_size: int, *, beta: float = 0.4, mode: str = "stratified", num_batches: int | None = None
    ) -> Sample:
        """Draw rows as `Replay.sample` draws them."""
        whole = np.uint64(1 << _FRACTION_BITS)  # of a uniform replay: equal parts may end within a row
        units = self.units() if self.prioritized else (np.arange(self.capacity) < self.num_used) * whole
        order = self.order if self.prioritized else np.arange(self.capacity)
        sums = np.cumsum(units[order])
        total = int(sums[-1])
        slots: list[int] = []
        strata = self._shuffled_strata(batch_size) if mode == "stratified" else []
        for position, word in enumerate(self._random_words(batch_size * (num_batches or 1))):
            low, high = 0, total
            if strata:
                stratum = strata[position % batch_size]
                low, high = total * stratum // batch_size, total * (stratum + 1) // batch_size
            place = np.searchsorted(sums, low + (word * (high - low) >> 64), side="right")
            slots.append(int(order[place]) if self.prioritized else self._whole_slot(int(order[place]), word))
        drawn = np.array(slots).reshape(batch_size if num_batches is None else (num_batches, batch_size))
        probability = units[drawn] / total
        least = probability.min(axis=-1, keepdims=True)
        if self.weights_by == "buffer":
            least = units[units > 0].min() / total
        weights = np.minimum(_power_relative(probability, least, -beta), 1.0)
        keys = self.generations[drawn] << np.uint64(32) | drawn.astype(np.uint64)
        data = self.schema.nest([self.rows[field.name][drawn] for field in self.schema.fields])
        return Sample(data, weights.astype(np.float32), keys)

    def update_priorities(self, keys: npt.NDArray[np.uint64], priorities: npt.NDArray[np.floating[Any]]) -> int:
        """New leaves where the key is still that of the row; returns how many were not."""
        keys, values = keys.ravel(), priorities.ravel().astype(np.float32)
        num_stale = 0
        for start in range(0, len(keys), _MAX_BATCH):
            batch, raw = keys[start : start + _MAX_BATCH], values[start : start + _MAX_BATCH]
            slots = (batch & np.uint64(2**32 - 1)).astype(np.int64)
            current = self.generations[slots] == batch >> np.uint64(32)
            num_stale += int(np.count_nonzero(~current))
            if current.any():
                self._set_leaves(slots[current], self.leaf_of(raw[current]))
                self.max_priority = max(self.max_priority, float(raw[current].max()))
        return num_stale

    def update_fields(self, keys: npt.NDArray[np.uint64], **fields: Any) -> npt.NDArray[np.uint64]:
        """New contents of fields where the key is still that of the row, which has another one then."""
        flat, renewed = keys.ravel(), keys.copy().ravel()
        values = {name: np.reshape(value, (flat.size, -1)) for name, value in self.schema.flatten(fields).items()}
        for key, at in {int(key): at for at, key in enumerate(flat)}.items():  # the last of each
            slot = key & 2**32 - 1
            if self.generations[slot] != key >> 32:
                continue
            for name, rows in values.items():
                self.rows[name][slot] = rows[at].reshape(self.rows[name].shape[1:])
            self.generations[slot] += np.uint64(2)
            renewed[flat == np.uint64(key)] = self.generations[slot] << np.uint64(32) | np.uint64(slot)
        return renewed.reshape(keys.shape)

    def priorities(self, keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
        """The priorities that leaves stand for; NaN for stale keys, and for all when alpha is 0."""
        slots = (keys & np.uint64(2**32 - 1)).astype(np.int64)
        stale = self.generations[slots] != keys >> np.uint64(32)
        if self.alpha == 0:
            return np.full(keys.shape, np.nan)
        with np.errstate(over="ignore"):
            values = self.leaves[slots].astype(np.float64) ** (1 / self.alpha) - _EPSILON
        return np.where(stale, np.nan, np.clip(values, 0.0, np.finfo(np.float32).max))

    def all_keys(self) -> npt.NDArray[np.uint64]:
        """The keys of all rows, oldest first."""
        slots = np.roll(np.arange(self.capacity), -self.next_slot)
        slots = slots[self.is_whole()[slots]]
        return self.generations[slots] << np.uint64(32) | slots.astype(np.uint64)

    def reloaded(self, capacity: int | None = None) -> "ReferenceReplay":
        """What `save` and `load` make of it: the newest rows moved together, oldest first.

        So do the frames of these rows; where a smaller replay cannot hold them, the oldest rows are dropped.
        The rows of a full replay stay in their slots if the capacity does.
        """
        other = copy.copy(self)
        other._size(capacity or self.capacity)
        stays = other.capacity == self.capacity and bool(self.is_whole().all())
        order = np.arange(self.capacity) if stays else np.roll(np.arange(self.capacity), -self.next_slot)
        order = order[self.is_whole()[order]][-other.capacity :]
        count = len(order)
        refs = [self.row_frames[int(slot)] for slot in order]
        for name, rows in self.rows.items():
            other.rows[name][:count] = rows[order]
        other.generations[:count], other.num_used = 2, count
        other.leaves[:count] = self.leaves[order]
        other.next_slot, other.num_dropped = self.next_slot if stays else count % other.capacity, 0
        numbers = {n: at for at, n in enumerate(sorted(set[int]().union(*refs)))}
        other.row_frames[:count] = [[numbers[n] for n in numbers_of_row] for numbers_of_row in refs]
        if other.frames:
            other.frames.num_taken = len(numbers)
            for slot in [slot for slot in range(count) if min(other.row_frames[slot]) < other.frames.oldest()]:
                other.generations[slot], other.leaves[slot] = 1, 0.0
                other.num_dropped += 1
        return other

    def leaf_of(self, priority: Any) -> Any:
        """(priority + 1e-6)^alpha, in the range of float32."""
        return np.minimum(power(np.float64(priority) + _EPSILON, self.alpha), 3.0e38)

    def units(self) -> npt.NDArray[np.uint64]:
        """The leaves as whole numbers of units."""
        return np.ldexp(self.leaves.astype(np.float64), -self.unit_exponent).astype(np.uint64)

    def _whole_slot(self, slot: int, word: int) -> int:
        """This slot of a uniform replay, or others drawn until one holds a row; in the end, the next."""
        num_used, tries = self.num_used, 0
        while not self.is_whole()[slot]:
            if tries < _MOST_TRIES:
                stream = np.random.Philox(key=2**64 - 1 - self.seed, counter=(word - 1) % 2**256)
                word = int(stream.random_raw())
                slot = word * num_used >> 64
            else:
                slot = (slot + 1) % num_used
            tries += 1
        return slot

    def _set_leaves(self, slots: Any, leaves: Any) -> None:
        leaves = np.asarray(leaves, np.float32)
        if math.ldexp(float(leaves.max()), -self.unit_exponent) > 2**self.leaf_bits:
            self.unit_exponent = self._unit_exponent_for(256.0 * float(leaves.max()))
            self.leaves = self._rounded(self.leaves)
        self.leaves[slots] = self._rounded(leaves)

    def _rounded(self, leaves: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """The nearest multiple of the unit, never 0 for a positive leaf."""
        units = np.rint(np.ldexp(leaves.astype(np.float64), -self.unit_exponent))
        units = np.where(leaves > 0, np.maximum(units, 1.0), 0.0)
        return np.ldexp(units, self.unit_exponent).astype(np.float32)

    def _unit_exponent_for(self, largest: float) -> int:
        return math.frexp(largest)[1] - self.leaf_bits

    def _shuffled_strata(self, num: int) -> list[int]:
        """The equal parts of the total priority, in the order in which the draws of a batch are of them."""
        [word] = self._random_words(1)
        first, step = word * num >> 64, -1 if word & 1 else 1
        return [(first + draw * step) % num for draw in range(num)]

    def _random_words(self, count: int) -> list[int]:
        words: list[int] = []
        for start in range(0, count, _MAX_BATCH):
            num = min(_MAX_BATCH, count - start)
            num_blocks = -(-num // _WORDS_PER_BLOCK)
            # NumPy counts up before it produces: block b comes after counter b - 1.
            stream = np.random.Philox(key=self.seed, counter=self.block - 1)
            words += stream.random_raw(num_blocks * _WORDS_PER_BLOCK)[:num].tolist()
            self.block += num_blocks
        return words


Finished = Callable[[int, dict[str, Any], Numbers, Numbers], list[dict[str, Any]]]


def add_step(
    replay: ReferenceReplay, chains: ReferenceChains | None, num_envs: int, step: dict[str, Any], finished: Finished
) -> None:
    """Add one step of every environment, as many at a time as frames allow.

    Args:
        replay: Is inserted into.
        chains: Find the frames of the observations; None where rows hold these themselves.
        num_envs: Environments of the writer.
        step: As users give it.
        finished: Of an environment, its step, the frames of obs and of next_obs: the rows that it completes.
    """
    flat = replay.schema.flatten(step)
    steps = [{name: np.copy(values[env]) for name, values in flat.items()} for env in range(num_envs)]
    per_hold = replay.frames.envs_per_hold if replay.frames else num_envs
    for first in range(0, num_envs, per_hold):
        together = steps[first : first + per_hold]
        none: list[tuple[Numbers, Numbers]] = [([], [])] * len(together)
        stacks = chains.take(together, first) if chains else none
        replay.end_rows()
        rows: list[dict[str, Any]] = []
        for env, (now, (of_obs, of_next)) in enumerate(zip(together, stacks, strict=True), first):
            rows += finished(env, now, of_obs, of_next)
        replay.insert(rows)


class ReferenceWriter:
    """The n-step windows of `num_envs` environments: lists of [first step, its frames, return, discount]."""

    def __init__(self, replay: ReferenceReplay, num_envs: int) -> None:
        self._replay = replay
        self._windows: list[list[list[Any]]] = [[] for _ in range(num_envs)]
        self._chains = ReferenceChains(replay.frames, num_envs) if replay.frames else None

    def add(self, **step: Any) -> None:
        """Add one step of every environment."""
        add_step(self._replay, self._chains, len(self._windows), step, self._finished)

    def _finished(self, env: int, now: dict[str, Any], of_obs: Numbers, of_next: Numbers) -> list[dict[str, Any]]:
        """Take a step of one environment; the rows that it completes."""
        replay, window, rows = self._replay, self._windows[env], list[dict[str, Any]]()
        window.append([now, of_obs, 0.0, 1.0])
        for entry in window:
            entry[2] += entry[3] * float(now["reward"])
            entry[3] *= replay.gamma
        ended = now["terminated"] or now["truncated"]
        while window and (ended or len(window) == replay.num_step):
            first, frames, returns, discount = window.pop(0)
            row: dict[str, Any] = {"frames": [*frames, *of_next]}
            for field in replay.schema.fields:
                if field.kind == REWARD:
                    row[field.name] = returns
                elif field.kind == DISCOUNT:
                    row[field.name] = 0.0 if now["terminated"] else discount
                else:
                    row[field.name] = (first if field.kind in (FIRST, FRAMES) else now)[field.name]
            if replay.initial_priority == "given":
                row["priority"] = first["priority"]
            rows.append(row)
        return rows
