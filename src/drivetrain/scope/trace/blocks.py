"""Blocks of a thread: how long each took, what was done in it, and which instruments were muted.

events BLOCK, COUNT (cpp/include/drivetrain/event_log_blocks.hpp) -> Blocks
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drivetrain.scope.trace.events import BLOCK, COUNT, INSTRUMENTS, Thread

Ints = NDArray[np.int64]
NUM_STEP_KINDS = 3
MUTE_ALL = (1 << len(INSTRUMENTS)) - 1
"""All instruments that record spans."""
MUTE_GPU = 1 << 15
"""Beside these: what GPUs do was not recorded either, for no thread of the process."""
_ROUND_BEGINS, _BLOCKS_END = 1, 2  # BlockFlag
_FIRST_STEP_COUNT = 8  # Counter::kSteps
_NUM_COUNTS = 2 + len(INSTRUMENTS) + NUM_STEP_KINDS


@dataclass(frozen=True, eq=False)
class Blocks:
    """Those blocks of one thread that were finished, in order of time; leading axis [blocks]."""

    begin_ns: Ints
    end_ns: Ints
    cpu_ns: Ints
    """CPU time of the thread."""
    mask: Ints
    """Muted instruments, by bit; MUTE_GPU."""
    round: Ints
    """Blocks of one round are as many steps each, in random order."""
    spans: Ints
    """[blocks, instruments]: entered, recorded or not."""
    steps: Ints
    """[blocks, kinds of steps]."""

    def __len__(self) -> int:
        return len(self.mask)

    @property
    def muted(self) -> NDArray[np.bool_]:
        """[blocks, instruments]."""
        return (self.mask[:, None] >> np.arange(len(INSTRUMENTS)) & 1).astype(np.bool_)

    @property
    def all_muted(self) -> NDArray[np.bool_]:
        """[blocks]: no instrument recorded spans."""
        return self.mask & MUTE_ALL == MUTE_ALL

    @property
    def gpu_muted(self) -> NDArray[np.bool_]:
        """[blocks]: what GPUs did was not recorded."""
        return self.mask & MUTE_GPU != 0

    def where(self, wanted: NDArray[np.bool_]) -> "Blocks":
        """Some of them."""
        return Blocks(*(getattr(self, name)[wanted] for name in self.__dataclass_fields__))


def mask_of_events(thread: Thread) -> Ints | None:
    """Per event what is muted from there on, as `Blocks.mask`; None where nothing ever is."""
    at = np.flatnonzero(thread.kind == BLOCK)
    if not len(at) or not thread.site[at].any():
        return None
    return np.concatenate([[0], thread.site[at]])[np.searchsorted(at, np.arange(thread.num_events), side="right")]


def blocks_of(thread: Thread) -> Blocks:
    """The blocks of a thread; one that was cut off by a kill is left out."""
    begins = np.flatnonzero(thread.kind == BLOCK)
    counts = np.flatnonzero((thread.kind == COUNT) & (thread.value == 0))
    counts = counts[counts + _NUM_COUNTS <= thread.num_events]
    which = np.searchsorted(begins, counts) - 1
    of = begins[which] if len(begins) else np.zeros(0, np.int64)
    # 32 bits without sign, in a column with one.
    count = thread.site[counts[:, None] + np.arange(_NUM_COUNTS)].astype(np.int64) & 0xFFFFFFFF
    return Blocks(
        begin_ns=thread.time_ns[of],
        end_ns=thread.time_ns[counts],
        cpu_ns=count[:, 0] | count[:, 1] << 32,
        mask=thread.site[of].astype(np.int64),
        round=np.cumsum(thread.value[begins] & _ROUND_BEGINS)[which].astype(np.int64) if len(begins) else of,
        spans=count[:, 2 : 2 + len(INSTRUMENTS)],
        steps=count[:, 2 + len(INSTRUMENTS) :],
    )


def num_unwritten_steps(blocks: Blocks) -> Counter[int]:
    """Steps by kind that are in no event, because everything was muted."""
    hidden = blocks.steps[blocks.all_muted]
    return Counter({kind: int(hidden[:, kind].sum()) for kind in range(NUM_STEP_KINDS)})


def num_cut_off_steps(thread: Thread) -> Counter[int]:
    """Steps by kind of blocks that were not finished, and muted: counts that belong to no whole block."""
    at = np.flatnonzero(thread.kind == COUNT)
    whole = at[thread.value[at] == 0][:, None] + np.arange(_NUM_COUNTS)
    rest = np.setdiff1d(at, whole)
    kind, count = thread.value[rest] - _FIRST_STEP_COUNT, thread.site[rest].astype(np.int64) & 0xFFFFFFFF
    return Counter({number: int(count[kind == number].sum()) for number in range(NUM_STEP_KINDS)})
