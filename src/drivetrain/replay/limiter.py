"""The rate limiter: keeps updates per insert at a ratio, between threads and processes.

    producer.acquire(n) ──▶ writer.add ──▶ producer.commit(n) ─┐
                  ▲                                            ▼
                  └── consumer.commit(m) ◀── update ◀── consumer.acquire(m)

    due(i)  = floor(ratio * max(0, i - min_size))      updates that i inserts call for
    owed(i) = due(i) - updates

Producers wait while more than `tolerance` updates are owed for what was granted to them; consumers
wait until what they ask for is owed for what was inserted. All in integers, so that a run of any
length ends with exactly the ratio. `drivetrain.train` stands on the same rule and the same tally.
"""

import contextlib
import os
import threading
import weakref
from collections.abc import Generator
from dataclasses import dataclass
from fractions import Fraction
from numbers import Rational
from typing import Any, NoReturn

from drivetrain.core.docstrings import with_fields
from drivetrain.core.errors import Closed, InvalidInput, SegmentError, TimedOut
from drivetrain.core.segments import Segment, SegmentHandle
from drivetrain.replay.arguments import require_int, require_seconds
from drivetrain.replay.tally import Counts, Side, Tally

_KIND = "limiter"
_NAMES = {Side.PRODUCERS: ("producers", "inserts"), Side.CONSUMERS: ("consumers", "updates")}


@with_fields
@dataclass(frozen=True, kw_only=True)
class RateLimit:
    """The rule, without memory or processes."""

    updates_per_insert: Fraction
    """Updates that each insert calls for after the first `min_size`."""
    tolerance: int
    """Updates owed up to which inserts are still granted."""
    min_size: int
    """Inserts that call for no updates."""

    def due(self, inserts: int) -> int:
        """Updates that so many inserts call for, in exact arithmetic."""
        after = max(0, inserts - self.min_size)
        return after * self.updates_per_insert.numerator // self.updates_per_insert.denominator

    def owed(self, inserts: int, updates: int) -> int:
        """Updates still to do."""
        return self.due(inserts) - updates

    def allows_insert(self, granted: int, updates: int) -> bool:
        """Whether more inserts may be granted after `granted` inserts and `updates` updates."""
        return self.owed(granted, updates) <= self.tolerance


@dataclass(frozen=True, kw_only=True)
class LimiterHandle:
    """Names a live limiter; picklable, for any process of this user on this machine."""

    segment: SegmentHandle


class Limiter:
    """Holds inserts and updates to a ratio, across processes by `handle` and `attach`.

    Args:
        updates_per_insert: A ratio of integers: an int, or a Fraction such as `Fraction(1, 4)` for one
            update per four inserts. What counts as an update is the consumers' choice: a gradient
            step, a batch, a sampled row.
        tolerance: Updates owed up to which inserts are still granted: how far producers may run ahead.
            0 is lock-step. Consumers may take `tolerance + 1` updates at once at most.
        min_size: Inserts before the first update; with n-step windows, some more than a batch.
        num_participants: Most producers, and most consumers, registered at one time.

    Raises:
        InvalidInput: An argument does not fit.
    """

    def __init__(
        self,
        updates_per_insert: int | Fraction,
        *,
        tolerance: int,
        min_size: int = 0,
        num_participants: int = 64,
    ) -> None:
        ratio = _require_ratio(updates_per_insert)
        meta: dict[str, Any] = {
            "ratio": [ratio.numerator, ratio.denominator],
            "tolerance": require_int("tolerance", tolerance, least=0, most=2**62),
            "min_size": require_int("min_size", min_size, least=0, most=2**62),
            "num_participants": require_int("num_participants", num_participants, least=1, most=2**16),
        }
        nbytes = Tally.nbytes_for((meta["num_participants"],) * 2)
        self._open(Segment.create(_KIND, nbytes, meta), initialize=True)

    def _open(self, segment: Segment, *, initialize: bool = False) -> None:
        meta: dict[str, Any] = segment.meta
        self.rule = RateLimit(
            updates_per_insert=Fraction(*meta["ratio"]), tolerance=meta["tolerance"], min_size=meta["min_size"]
        )
        self._segment = segment
        self._held: Tally | None = Tally(segment, (meta["num_participants"],) * 2, initialize=initialize)
        self._closed = threading.Event()

    @classmethod
    def attach(cls, handle: LimiterHandle) -> "Limiter":
        """The limiter that `handle` names, in this process.

        Raises:
            OwnerDead: The process that created it has exited.
        """
        if not isinstance(handle, LimiterHandle):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"attach: expected what limiter.handle() returned, got {type(handle).__name__}")
        limiter = cls.__new__(cls)
        limiter._open(Segment.attach(handle.segment, _KIND))
        return limiter

    def handle(self) -> LimiterHandle:
        """What another process needs to `attach`; valid while this process holds the limiter."""
        return LimiterHandle(segment=self._segment.handle())

    def __reduce__(self) -> NoReturn:
        raise InvalidInput("a Limiter cannot be pickled or copied; send limiter.handle(), which Limiter.attach takes")

    def producer(self) -> "Participation":
        """Register this process as one that inserts. One thread at a time; `close` it, or use `with`.

        Raises:
            SegmentError: `num_participants` live ones are registered.
        """
        return Participation(self.rule, self._tally, Side.PRODUCERS, self._closed)

    def consumer(self) -> "Participation":
        """Register this process as one that updates; as `producer`."""
        return Participation(self.rule, self._tally, Side.CONSUMERS, self._closed)

    def counts(self) -> Counts:
        """Inserts granted and committed, updates done and taken, now."""
        return self._tally.counts()

    def stop(self) -> None:
        """End all waits, here and elsewhere: they and later ones raise Closed."""
        self._tally.stop()

    def close(self) -> None:
        """Let go of the memory; later calls raise Closed, and so do waits of this view's participations, which can
        still commit what they were granted.
        """
        self._closed.set()
        if self._held is not None:
            self._held.wake_all()
        self._held = None
        self._segment.close()

    @property
    def _tally(self) -> Tally:
        if self._held is None:
            raise Closed("this limiter is closed")
        return self._held

    def __enter__(self) -> "Limiter":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class Participation:
    """One producer's or consumer's part in a limiter, made by `Limiter.producer` or `.consumer`.

    If its process dies, the others notice within a second, and what it was granted and had not
    committed is granted to others; so it is, at once, when this is closed or collected.
    """

    def __init__(self, rule: RateLimit, tally: Tally, side: Side, closed: threading.Event) -> None:
        self._rule, self._tally, self._side, self._closed = rule, tally, side, closed
        index = tally.register(side)
        if index is None:
            raise SegmentError(
                f"the limiter has no room for more {_NAMES[side][0]}: registered are {self._describe(side)}; "
                "close some, or use a larger num_participants"
            )
        self._index: int | None = index
        self._end = weakref.finalize(self, _end, tally, side, index, os.getpid())
        self._end.atexit = False  # a thread of this process may still take part then

    def acquire(self, amount: int = 1, *, timeout_s: float | None = None) -> None:
        """Wait for leave to insert so many rows, or to do so many updates; all at once.

        Args:
            amount: Inserts or updates; none, as where `add_some` marks no environment, are granted at once.
            timeout_s: Seconds after which to give up, finite; None waits for as long as it takes.

        Raises:
            TimedOut: Nothing was granted; the message says who waits for whom.
            Closed: The limiter was stopped, or its view here or this participation closed.
            InvalidInput: More updates than `tolerance + 1`, for which producers would never go on.
        """
        index, rule = self._own_index(), self._rule
        amount = require_int("amount", amount, least=0, most=2**62)
        patience_s = None if timeout_s is None else require_seconds("timeout_s", timeout_s)  # a NaN would never be over
        if self._side is Side.CONSUMERS and amount > rule.tolerance + 1:
            raise InvalidInput(
                f"amount: expected at most tolerance + 1 = {rule.tolerance + 1} updates, got {amount}: producers wait "
                f"before more are owed; use a tolerance of at least {amount - 1}"
            )

        def decide(counts: Counts) -> bool | None:
            if self._tally.stopping or self._closed.is_set() or self._index is None:
                return False
            if self._side is Side.PRODUCERS:
                granted = not amount or rule.allows_insert(counts.granted, counts.updates)
            else:
                granted = rule.owed(counts.committed, counts.taken) >= amount
            if granted:
                self._tally.grant(self._side, index, amount)
                # Another thread may have closed this meanwhile, and have given back what there was by then.
                if self._index is None:  # pyright: ignore[reportUnnecessaryComparison]
                    self._tally.revoke(self._side, index)
                    return False
            return granted or None

        before = self._tally.unfinished(self._side, index)
        try:
            granted = self._tally.wait(self._side, decide, patience_s)
        except BaseException:  # Ctrl-C, and it was granted just before
            if self._index is not None:  # else it was given back, and the line may be another's
                self._tally.give_back(self._side, index, but=before)
            raise
        if granted is None:
            raise TimedOut(self._why(amount, timeout_s))
        if not granted:
            self._own_index()  # says that this participation was closed
            raise Closed("this limiter is closed" if self._closed.is_set() else "the limiter was stopped")

    def commit(self, amount: int = 1) -> None:
        """Report that granted inserts are in the replay, or granted updates done."""
        index = self._own_index()
        unfinished = self._tally.unfinished(self._side, index)
        amount = require_int("amount", amount, least=0)
        if amount > unfinished:
            raise InvalidInput(
                f"amount: expected at most the {unfinished} acquired and not committed, got {amount}; acquire first"
            )
        if not self._tally.commit_granted(self._side, index, amount):
            raise Closed("this participation was closed by another thread, and gave back what was to be committed")
        self._tally.wake(Side.CONSUMERS if self._side is Side.PRODUCERS else Side.PRODUCERS)

    @contextlib.contextmanager
    def turn(self, amount: int = 1, *, timeout_s: float | None = None) -> Generator[None, None, None]:
        """`acquire`, then the block, then `commit`. An exception in the block gives the grant back; one behind it does
        not, as of Ctrl-C: what is done counts.
        """
        before = self._tally.unfinished(self._side, self._own_index())
        try:
            self.acquire(amount, timeout_s=timeout_s)
            yield
        except BaseException:
            with contextlib.suppress(Closed, InvalidInput):  # it was closed meanwhile, or this is a forked child
                self._tally.give_back(self._side, self._own_index(), but=before)
            raise
        try:
            self.commit(amount)
        except BaseException:  # Ctrl-C: what the block has done counts
            with contextlib.suppress(Closed, InvalidInput):
                self._tally.finish(self._side, self._own_index(), but=before)
            raise

    def close(self) -> None:
        """End the participation, and its wait in another thread; what was granted and not committed goes to others.

        In a forked child it ends nothing: it is the parent's.
        """
        self._index = None  # first: whoever is woken by the end asks
        self._end()

    def __enter__(self) -> "Participation":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise InvalidInput("a Participation cannot be pickled or copied; send limiter.handle(), and register there")

    def _own_index(self) -> int:
        if self._index is None:
            raise Closed(f"this participation is closed; register again with limiter.{_NAMES[self._side][0][:-1]}()")
        if not self._tally.is_mine(self._side, self._index):
            raise InvalidInput(
                "a participation belongs to the process that registered it; attach and register in this one"
            )
        return self._index

    def _why(self, amount: int, timeout_s: float | None) -> str:
        if keeper := self._tally.keeper():
            return (
                f"process {os.getpid()} waited {timeout_s} s for the limiter, whose lock is held by process {keeper}, "
                "which does not go on; let it go on (SIGCONT), or kill it"
            )
        counts, rule = self._tally.counts(), self._rule
        other = Side.CONSUMERS if self._side is Side.PRODUCERS else Side.PRODUCERS
        state = (
            f"{counts.committed} inserts done of {counts.granted} granted, {counts.updates} updates done of "
            f"{counts.taken} granted; {rule.updates_per_insert} updates per insert after the first {rule.min_size}"
        )
        if self._side is Side.PRODUCERS:
            owed = rule.owed(counts.granted, counts.updates)
            expected = f"expected at most {rule.tolerance} updates owed before {amount} more inserts, got {owed}"
        else:
            owed = rule.owed(counts.committed, counts.taken)
            expected = f"expected {amount} updates to be owed, got {owed}"
        return (
            f"process {os.getpid()} waited {timeout_s} s for the {_NAMES[other][0]}: {expected} ({state}); "
            f"{_NAMES[other][0]}: {self._describe(other)}; look why they do not go on, or wait longer"
        )

    def _describe(self, side: Side) -> str:
        people = [
            f"process {someone.pid} ("
            + ("" if someone.is_alive else "dead, ")
            + f"{someone.num_unfinished} {_NAMES[side][1]} granted and not committed)"
            for someone in self._tally.participants(side)
        ]
        return ", ".join(people) or "none registered: they have ended or never began"


def _end(tally: Tally, side: Side, index: int, pid: int) -> None:
    if os.getpid() == pid:
        tally.unregister(side, index)


def _require_ratio(value: Any) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, Rational) or value < 0:  # NumPy's integers are rational too
        raise InvalidInput(
            f"updates_per_insert: expected a ratio of integers >= 0, an int or a Fraction, got {value!r}; "
            "write 0.25 as Fraction(1, 4)"
        )
    return Fraction(int(value.numerator), int(value.denominator))
