"""How objects of types that Python, NumPy and JAX bring are written down: all that they hold, and nothing else.

An exact type each; what derives from one of them may hold more, and is an instance like any other.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false

import builtins
import functools
import hashlib
import operator
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np

from drivetrain.sim.fingerprint import jax_state, trusted
from drivetrain.sim.fingerprint.code import FORMATS, Escape

ATOMS = (type(None), bool, int, float, complex, str, bytes)
DESCRIPTORS = (types.MemberDescriptorType, types.GetSetDescriptorType, types.WrapperDescriptorType,
               types.MethodDescriptorType, types.ClassMethodDescriptorType)  # fmt: skip

FIXED = getattr(builtins, "frozendict", types.MappingProxyType)
"""A mapping that nobody changes, as the metadata of fields is: from Python 3.15 on a type of its own."""


class Pair(NamedTuple):
    """Any named tuple."""

    first: int
    second: int


class Writing(Protocol):
    """What objects are written to; see `walk.Walk`."""

    fields: deque[Field[Any]]
    """Of dataclasses, whose types are written down where code asks for types."""

    def take(self, names: Iterable[str]) -> None:
        """Attributes of these names are taken of something."""
        ...

    def say(self, *what: Any) -> None:
        """Write down plain values."""
        ...

    def value(self, x: Any) -> None:
        """Write down anything."""
        ...

    def values(self, what: str, *parts: Any) -> None:
        """Write down several things, under a heading."""
        ...


def digest(data: bytes) -> str:
    """Of the elements of an array."""
    return hashlib.sha256(data).hexdigest()


def write_array(to: Writing, x: Any) -> bool:
    """An array of NumPy's or JAX's, or a type of their elements; whether it is one.

    Raises:
        Escape: It holds objects, or belongs to a trace.
    """
    kind = type(x)
    if isinstance(x, np.ndarray | np.generic) and kind.__module__ == "numpy":
        if x.dtype.hasobject:
            raise Escape("an array of objects")
        form = x.dtype.descr if x.dtype.names else x.dtype.str
        to.say("array", kind.__name__, form, x.shape, digest(x.tobytes()))
    elif isinstance(x, np.dtype):
        to.say("dtype", repr(x))
    elif isinstance(x, jax.Array):
        told, elements = jax_state.array(x)
        to.say("jax", told, digest(elements))
    else:
        return False
    return True


def write_set(to: Writing, x: Any) -> None:
    """A set whose elements are in the same order everywhere."""
    if not all(type(each) in ATOMS for each in x) or any(isinstance(each, str | bytes) for each in x):
        raise Escape("a set, whose order differs between processes")
    to.say(type(x).__name__, sorted(map(repr, x)))


def write_builtin(to: Writing, x: Any) -> None:
    """A method of a class that is built in, as `tuple.__new__`, which named tuples hold."""
    if not isinstance(x.__self__, type) or not trusted.is_trusted(x.__self__):
        raise Escape(f"{x.__module__ or type(x.__self__).__module__}.{x.__qualname__}")
    to.values("builtin", x.__self__, x.__name__)


def write_getter(to: Writing, x: Any) -> None:
    """`operator.methodcaller` and its like: attributes by name."""
    _, arguments = x.__reduce__()[:2]
    to.values(type(x).__name__, *arguments)
    names = {name for each in arguments if isinstance(each, str) for name in each.split(".")}
    if not FORMATS.isdisjoint(names):
        raise Escape("a getter that formats a text")
    to.take(names)


def write_field(to: Writing, x: Field[Any]) -> None:
    """A field of a dataclass; its type may be anything, and is left for when somebody asks for it."""
    flags = (x.init, x.repr, x.compare, x.hash, x.kw_only)
    to.values("field", x.name, x.default, x.default_factory, *flags, x.metadata)
    to.fields.append(x)


def items(x: Mapping[Any, Any]) -> list[Any]:
    """Keys and values in turn, in their order."""
    return [each for item in x.items() for each in item]


WRITERS: dict[Any, Callable[[Writing, Any], None]] = {
    list: lambda to, x: to.values("list", *x),
    dict: lambda to, x: to.values("dict", *items(x)),
    OrderedDict: lambda to, x: to.values("ordered", *items(x)),
    types.MappingProxyType: lambda to, x: to.values("mapping", *items(x)),
    FIXED: lambda to, x: to.values("mapping", *items(x)),
    types.SimpleNamespace: lambda to, x: to.values("namespace", *items(vars(x))),
    set: write_set,
    frozenset: write_set,
    slice: lambda to, x: to.values("slice", x.start, x.stop, x.step),
    range: lambda to, x: to.values("range", x.start, x.stop, x.step),
    property: lambda to, x: to.values("property", x.fget, x.fset, x.fdel),
    staticmethod: lambda to, x: to.values("staticmethod", x.__func__),
    classmethod: lambda to, x: to.values("classmethod", x.__func__),
    functools.cached_property: lambda to, x: to.values("cached_property", x.func, x.attrname),
    functools.partial: lambda to, x: to.values("partial", x.func, x.args, x.keywords, *items(vars(x))),
    functools.partialmethod: lambda to, x: to.values("partialmethod", x.func, x.args, x.keywords),
    types.MethodType: lambda to, x: to.values("method", x.__func__, x.__self__),
    Field: write_field,
    **dict.fromkeys(DESCRIPTORS, lambda to, x: to.say("descriptor", x.__objclass__.__qualname__, x.__name__)),
    **dict.fromkeys((operator.methodcaller, operator.attrgetter, operator.itemgetter), write_getter),
    types.BuiltinFunctionType: write_builtin,
    type(vars(Pair)["first"]): lambda to, x: to.say("item", x.__reduce__()[1][0]),
    jax.ShapeDtypeStruct: lambda to, x: to.say("shape", x.shape, str(x.dtype), x.weak_type, str(x.sharding)),
}
