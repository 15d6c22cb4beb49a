"""Replaces a method of a class, or a function of a module, by the same, recorded."""

from collections.abc import Callable
from functools import lru_cache, partialmethod
from types import FunctionType, MethodDescriptorType
from typing import Any, cast

from drivetrain.scope._native import Wrapped
from drivetrain.scope.sites import Site
from drivetrain.scope.spans import span

_FUNCTIONS = (FunctionType, type(lru_cache(len)))
_BOUND_OTHERWISE: tuple[Any, ...] = (staticmethod, classmethod)


def record(
    owner: Any,
    name: str,
    site: Site,
    *,
    ends_step: int = -1,
    collapses: bool = False,
    tell: Callable[[], None] | None = None,
) -> None:
    """Record a Python function that a class or module has itself (not by inheritance); anything else is left alone.

    A static or class method, a partial method and one that remembers its results stay what they are.
    `tell` is called before each call of it.
    """

    def recorded(found: Any) -> Any:
        """The same, recorded; None where it is no function, or recorded already."""
        if type(found) in _FUNCTIONS:
            return Wrapped(found, span(site, ends_step=ends_step, collapses=collapses), tell)
        kind = cast(Any, type(found))
        if kind in _BOUND_OTHERWISE:
            inner = recorded(found.__func__)
            return inner and kind(inner)
        if kind is partialmethod:
            inner = recorded(found.func)
            return inner and partialmethod(inner, *found.args, **found.keywords)
        return None

    function = cast(dict[str, Any], vars(owner)).get(name)
    if not getattr(function, "__isabstractmethod__", False) and (wrapped := recorded(function)) is not None:
        setattr(owner, name, wrapped)


def record_native(owner: Any, name: str, site: Site, *, ends_step: int = -1) -> None:
    """Record a method of a class that pybind11 or nanobind made.

    These are of types of their own, which `inspect` takes neither for functions nor for builtins, before and after.
    Methods that Python itself made of C functions (type `method_descriptor`) are left alone.
    """
    method = cast(dict[str, Any], vars(owner)).get(name)
    is_routine = isinstance(method, FunctionType | MethodDescriptorType | staticmethod | classmethod)
    if callable(method) and not isinstance(method, Wrapped) and not is_routine:
        setattr(owner, name, Wrapped(method, span(site, ends_step=ends_step)))


_applied: list[tuple[type, Callable[[type], None]]] = []
"""What was asked of `for_subclasses`."""


def for_subclasses(base: type, apply: Callable[[type], None]) -> None:
    """Apply to a class, to all subclasses there are, and to those that will be defined."""
    _applied.append((base, apply))
    seen: set[type] = set()
    pending = [base]
    while pending:
        cls = pending.pop()
        if cls not in seen:
            seen.add(cls)
            apply(cls)
            pending += cls.__subclasses__()

    own: Any = vars(base).get("__init_subclass__")

    def init_subclass(cls: type, **keywords: Any) -> None:
        if own is None:
            super(base, cls).__init_subclass__(**keywords)
        else:
            own.__func__(cls, **keywords)
        apply(cls)

    base.__init_subclass__ = classmethod(init_subclass)  # pyright: ignore[reportAttributeAccessIssue]


def apply_to(cls: type) -> None:
    """Apply what holds for subclasses to one of them, whose methods were added after it had been defined."""
    for base, apply in _applied:
        if issubclass(cls, base):
            apply(cls)
