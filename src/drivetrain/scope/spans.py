"""Operations and phases: what a program says of itself, as context managers and decorators.

operation("inference") -> Span -> events of this thread
"""

import copyreg
import functools
import inspect
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from types import FunctionType, MethodType
from typing import Any, ParamSpec, TypeVar, cast

from drivetrain.core.errors import InvalidInput
from drivetrain.scope import _native
from drivetrain.scope._native import Span, Unbound, Wrapped
from drivetrain.scope.sites import CLASSES, Site, table

P = ParamSpec("P")
R = TypeVar("R")


class Operation(Span):
    """A site to be entered: `with` it, or decorate a function with it. One object serves all threads."""

    __slots__ = ()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """A function that is recorded whenever it runs. A coroutine is in the operation until it ends, and so is a
        generator, from where it is first asked for a value and also while it is suspended; what is wrong with their
        arguments is raised there, and not where they are called.

        Raises:
            InvalidInput: It is no function, but a class or a property, say.
        """
        _require_function(function)
        return recorded(function, self)

    def __reduce__(self) -> tuple[Callable[[Site], "Operation"], tuple[Site]]:
        """By its site: another process has other numbers."""
        return _of_site, (table.site(self.site),)


def operation(name: str) -> Operation:
    """Whatever runs inside belongs to this operation, unless an operation inside says otherwise.

    Nestable, recursive, and the same in all threads and processes of a session. Costs next to nothing while
    nothing records.

    Args:
        name: Free; `simulation`, `inference`, `replay`, `backpropagation`, `optimizer` join what is found by itself.

    Raises:
        InvalidInput: The name is empty, or no text.
    """
    return _operation(_checked(name, "operation"))


def phase(name: str) -> Operation:
    """Like `operation`, but beside it: a phase of training, over which breakdowns can be told apart.

    Holds for the thread that enters it.

    Args:
        name: As breakdowns show it.

    Raises:
        InvalidInput: The name is empty, or no text.
    """
    return _phase(_checked(name, "phase"))


def _of_site(site: Site) -> Operation:
    return Operation(table.number(site))


@functools.lru_cache(maxsize=1024)
def _operation(name: str) -> Operation:
    # Whoever enters an operation is Python code, wherever it was called from.
    return Operation(table.number(Site(name, operation=name, time_class="python")))


@functools.lru_cache(maxsize=1024)
def _phase(name: str) -> Operation:
    return Operation(table.number(Site(name, phase=name)))


def span(site: Site, *, ends_step: int = -1, collapses: bool = False, is_traced: bool = False) -> Span:
    """The span of a site, for hooks; its class of time must be one of `CLASSES`."""
    if site.time_class and site.time_class not in CLASSES:
        raise InvalidInput(f"site {site.name!r}: expected a class of {', '.join(CLASSES)}, got {site.time_class!r}")
    return Span(table.number(site), ends_step, collapses, site.time_class == "wait", is_traced)


def recorded(function: Callable[P, R], inside: Operation) -> Callable[P, R]:
    """The function, recorded as an operation while its own code runs.

    A generator is in it until it ends, also while it is suspended; a coroutine while asyncio runs its task
    (hooks/asyncio.py). A static or class method stays one.
    """
    if isinstance(function, staticmethod | classmethod):
        method: Any = cast(Any, function)
        return type(method)(recorded(method.__func__, inside))
    if inspect.iscoroutinefunction(function):
        return cast("Callable[P, R]", _recorded_coroutine(function, inside))
    if inspect.isasyncgenfunction(function):
        return cast("Callable[P, R]", _recorded_async_generator(function, inside))
    if inspect.isgeneratorfunction(function):
        return cast("Callable[P, R]", _recorded_generator(function, inside))
    return cast("Callable[P, R]", (Wrapped if binds(function) else Unbound)(function, inside))


def binds(found: object) -> bool:
    """Whether an attribute of a class becomes a method of its instances, as functions do, and builtins and methods of
    others do not.
    """
    return hasattr(type(found), "__get__") and not isinstance(found, MethodType)


def annotation_of(function: object) -> Operation | None:
    """The operation that the program has decorated a function with; None where it is a function, or recorded by a hook.

    Of coroutines and generators nothing is said: they hold it themselves.
    """
    inside = function.__span__ if isinstance(function, Unbound) else None
    return inside if isinstance(inside, Operation) else None


def _reduced(wrapped: Unbound) -> str | tuple[Any, ...]:
    """How it is copied and pickled: by its name, as functions are; or, where another has that name, or none could, by
    what is in it, with the operation that the program has decorated it with.
    """
    function = wrapped.__wrapped__
    path: str = getattr(function, "__qualname__", "")
    found: object = sys.modules.get(getattr(function, "__module__", ""))
    for name in path.split("."):
        found = getattr(found, name, None)
    if found is wrapped or (isinstance(function, FunctionType) and found is not function):
        return path
    return annotation_of(wrapped) or _itself, (function,)


def _itself(function: Callable[P, R]) -> Callable[P, R]:
    return function


copyreg.pickle(Unbound, _reduced)
copyreg.pickle(Wrapped, _reduced)


def _recorded_coroutine(function: Callable[..., Any], inside: Span) -> Callable[..., Any]:
    @functools.wraps(function)
    async def coroutine(*args: Any, **keywords: Any) -> Any:
        with inside:
            return await function(*args, **keywords)

    return coroutine


class _ThisThread(threading.local):
    """What tells a thread from all others, also from those that get its number once it has ended. In a forked child the
    thread that forked goes on as itself.
    """

    def __init__(self) -> None:
        self.mark = object()


_this_thread = _ThisThread()


class _Held:
    """A span that is left in the lane in which it was entered: another task may end what this one leaves suspended, as
    asyncio closes asynchronous generators after a `break`. One that another thread ends stays where it is: that thread
    may be in such a span of its own.
    """

    __slots__ = ("_inside", "_lane", "_thread")

    def __init__(self, inside: Span) -> None:
        self._inside = inside

    def __enter__(self) -> None:
        self._thread, self._lane = _this_thread.mark, _native.current_lane()
        self._inside.__enter__()

    def __exit__(self, *exception: object) -> None:
        if _this_thread.mark is not self._thread:
            return
        here = _native.current_lane()
        if here == self._lane:
            self._inside.__exit__(*exception)
        else:
            _native.lane(self._lane)
            self._inside.__exit__(*exception)
            _native.lane(here)


def _recorded_generator(function: Callable[..., Any], inside: Span) -> Callable[..., Any]:
    @functools.wraps(function)
    def generator(*args: Any, **keywords: Any) -> Generator[Any, Any, Any]:
        with _Held(inside):
            inner: Generator[Any, Any, Any] = function(*args, **keywords)
            return (yield from inner)

    return generator


def _recorded_async_generator(function: Callable[..., Any], inside: Span) -> Callable[..., Any]:
    @functools.wraps(function)
    async def generator(*args: Any, **keywords: Any) -> AsyncGenerator[Any, Any]:
        with _Held(inside):
            inner: AsyncGenerator[Any, Any] = function(*args, **keywords)
            ask = inner.asend(None)
            while True:  # what `yield from` does, which asynchronous generators lack
                try:
                    value = await ask
                except StopAsyncIteration:
                    return
                try:
                    ask = inner.asend((yield value))
                except GeneratorExit:
                    await inner.aclose()
                    raise
                except BaseException as error:  # the caller's, by athrow
                    ask = inner.athrow(error)

    return generator


def _require_function(found: object) -> None:
    if isinstance(found, type):
        what = f"the class {found.__name__}; decorate its methods"
    elif not callable(found) and not isinstance(found, classmethod):
        what = f"an object of class {type(found).__name__}; decorate the function in it, below @property and the like"
    else:
        return
    raise InvalidInput(f"operation: expected a function, got {what}")


def _checked(name: str, what: str) -> str:
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"{what}: expected a name as text, got {name!r}; write it as a str")
    if not name:
        raise InvalidInput(f"{what}: expected a name, got an empty one; say what the program does there")
    return name
