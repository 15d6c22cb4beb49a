"""From an environment through everything that its trace can reach, as text that is the same in every process.

object ─attributes─▶ values · class ─its line of parents─▶ functions ─bytecode─▶ globals, closures, defaults ─▶ ...

What is met is written down in the order in which it is met, each thing once and by number from then on. Of a class
those attributes count that Python takes by itself (`__names__`) or whose name stands in code that was met; of a module
those that code takes. What cannot be followed raises, and the environment is traced.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import dataclasses
import enum
import hashlib
import importlib
import types
from abc import ABCMeta
from collections import deque
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

from drivetrain.sim.fingerprint import jax_state, trusted
from drivetrain.sim.fingerprint.code import Escape, named_by
from drivetrain.sim.fingerprint.values import ATOMS, WRITERS, write_array

TAKEN = frozenset({"reset", "step", "action_space", "sample", "name", "shape", "dtype", "ndim", "size", "aval",
                   "_fields", "_missing_", "keys"})  # fmt: skip
"""Attributes that we, JAX and Python (of what is given to `dict` or behind `**`) take of an environment, of its spaces
and of leaves, besides those with underscores."""
TAKEN_BY_NUMPY = frozenset({name for name in dir(np.ndarray) if not name.startswith("_")}
                           | {name for name, x in vars(np).items() if isinstance(x, np.ufunc)})  # fmt: skip
"""What functions of NumPy call of objects that are no arrays, as `np.amax(x)` calls `x.max`."""
UNREAD = frozenset({"__doc__", "__module__", "__dict__", "__weakref__", "__annotations__", "__annotate__",
                    "__annotate_func__", "__abstractmethods__", "_abc_impl", "__orig_bases__", "__parameters__",
                    "__dataclass_params__", "__match_args__", "__slots__", "__static_attributes__", "__firstlineno__",
                    "__protocol_attrs__", "__non_callable_proto_members__", "__type_params__",
                    "__annotations_cache__", "__classdictcell__"})  # fmt: skip
"""What nothing that runs in a trace asks a class for; code that does escapes."""
MAKING = frozenset({"__init_subclass__", "__set_name__", "__class_getitem__", "__prepare__"})
"""What is only asked for when a class is made, which only code that calls `type` can do."""
DENIED = frozenset({"__globals__", "__builtins__", "__dict__", "__subclasses__", "__code__", "__closure__",
                    "__import__", "__getattribute__", "__getattr__", "__loader__", "__spec__", "__self__",
                    "__module__", "__wrapped__", "f_globals", "f_builtins", "f_locals", "f_back", "gi_frame",
                    "cr_frame", "ag_frame", "tb_frame", "__reduce__", "__reduce_ex__", "__defaults__",
                    "__kwdefaults__"} | UNREAD)  # fmt: skip
"""Attributes that lead from a value to what nobody has named, or that are not written down."""
CACHED = "_inverted_"
"""What Python keeps in a member of a flag once somebody has asked for its inverse."""


class Walk:
    """What was met so far, and what is still to be looked into."""

    def __init__(self, names: Iterable[str] = TAKEN) -> None:
        """Nothing was met.

        Args:
            names: Attributes that are taken by others than the code that is met.
        """
        self.parts: list[str] = []
        self.numbers: dict[int, int] = {}
        self.alive: list[Any] = []
        self.functions: deque[types.FunctionType] = deque()
        self.fields: deque[dataclasses.Field[Any]] = deque()
        self.classes: dict[type[Any], set[str]] = {}
        self.names: set[str] = set(names)
        self.listed = trusted.listed()

    def hexdigest(self, *roots: Any) -> str:
        """The hash of everything that can be reached from these.

        Raises:
            Escape: Something cannot be followed.
        """
        for root in roots:
            self.value(root)
        while True:
            while self.functions:
                self.look_into(self.functions.popleft())
            taken = (self.take_named(kind, done) for kind, done in list(self.classes.items()))
            if not (self.take_types() or any(taken)):
                return hashlib.sha256("\n".join(self.parts).encode()).hexdigest()

    def say(self, *what: Any) -> None:
        """Write down plain values."""
        try:
            self.parts.append(repr(what))
        except ValueError as error:  # Python writes no number of thousands of digits
            raise Escape(f"what cannot be written down: {error}") from error

    def value(self, x: Any) -> None:
        """Anything."""
        if type(x) in ATOMS:
            self.say(type(x).__name__, x)
            return
        if type(x) is tuple:  # never by number: which tuples are one object depends on how modules were loaded
            self.values("tuple", *x)
            return
        if id(x) in self.numbers:
            self.say("met", self.numbers[id(x)])
            return
        self.numbers[id(x)] = len(self.numbers)
        self.alive.append(x)  # so that no other object gets its number
        if isinstance(x, types.FunctionType):
            self.function(x)
        elif id(x) in self.listed:
            self.known(x)
        elif (write := WRITERS.get(type(x))) is not None:
            write(self, x)
        elif isinstance(x, type):
            self.kind(x)
        elif not write_array(self, x):
            self.thing(x)

    def values(self, what: str, *parts: Any) -> None:
        """Several, under a heading."""
        self.say(what, len(parts))
        for part in parts:
            self.value(part)

    def known(self, x: Any) -> None:
        """What is taken at its word."""
        place = self.listed[id(x)]
        told = trusted.described(x, place)
        if told is None:
            raise Escape(f"{place} has been replaced")
        self.say("trusted", told, *registered(x))
        if place == "builtins.type":
            self.names |= MAKING
        if place.startswith("numpy") and not isinstance(x, type):
            self.names |= TAKEN_BY_NUMPY

    def thing(self, x: Any) -> None:
        """An object without a form of its own: what JAX makes of functions, or an instance of a class."""
        kind = type(x)
        if isinstance(x, jax_state.JITTED):
            function, told = jax_state.jitted(x)
            self.values("jitted", told, function)
        elif isinstance(x, jax.custom_jvp | jax.custom_vjp):
            self.values(kind.__name__, *vars(x).items())
        elif trusted.is_trusted(kind):
            raise Escape(f"an object of {kind.__module__}.{kind.__qualname__}")
        else:
            self.instance(x)

    def instance(self, x: Any) -> None:
        """An object of a class that is followed: all that it holds."""
        kind = type(x)
        self.values("instance", kind)
        if isinstance(x, enum.Enum):
            self.values("member", x.name, x.value, {name: y for name, y in vars(x).items() if name != CACHED})
            return
        if isinstance(x, tuple):
            self.values("items", *x)
        elif not holds_only_attributes(kind):
            raise Escape(f"an object of {kind.__qualname__}, which is more than its attributes")
        self.value(dict(getattr(x, "__dict__", {})))
        for parent in kind.__mro__:
            for name, slot in vars(parent).items():
                if isinstance(slot, types.MemberDescriptorType):
                    self.values(name, *([getattr(x, name)] if hasattr(x, name) else []))

    def kind(self, x: type[Any]) -> None:
        """A class: its name, its parents, how JAX flattens it; its attributes follow when their names have been met."""
        if trusted.is_trusted(x):
            raise Escape(f"{x.__module__}.{x.__qualname__}")
        self.classes[x] = set(UNREAD)
        self.say("class", x.__module__, x.__qualname__, *registered(x))
        self.values("made by", type(x), *x.__mro__[1:])
        self.values("flattened by", *jax_state.registration(x))
        if isinstance(x, enum.EnumMeta):
            self.values("members", *x.__members__.items())

    def take_named(self, kind: type[Any], done: set[str]) -> bool:
        """Attributes of a class that are asked for and were not written down yet; whether there were any."""
        wanted = [name for name in vars(kind) if name not in done and (name in self.names or is_own(name))]
        for name in wanted:
            done.add(name)
            self.say("attribute", self.numbers[id(kind)], name)
            if not (isinstance(kind, enum.EnumMeta) and name in kind.__members__):
                self.value(vars(kind)[name])
        return bool(wanted)

    def take_types(self) -> bool:
        """Types of dataclasses' fields, if they are asked for; whether there were any that were not written down."""
        asked = list(self.fields) if "type" in self.names else []
        for field in asked:
            self.values("type", field.type)
            self.fields.popleft()
        return bool(asked)

    def take(self, names: Iterable[str]) -> None:
        """Attributes of these names are taken of something.

        Raises:
            Escape: One of them leads to what is not written down.
        """
        if not DENIED.isdisjoint(names):
            raise Escape(f"takes {min(DENIED.intersection(names))}")
        self.names.update(names)

    def function(self, x: types.FunctionType) -> None:
        """A function; its code follows later unless it is trusted."""
        if not trusted.is_trusted(x):
            self.functions.append(x)
        elif id(x) in self.listed:
            self.known(x)
        elif may_be_held(x):
            self.say("made by", x.__globals__["__name__"], x.__code__.co_qualname, x.__code__.co_firstlineno)
            self.held(x)
        else:
            raise Escape(f"{x.__globals__.get('__name__')}.{x.__qualname__}")

    def held(self, x: types.FunctionType) -> None:
        """What a function closes over, its defaults and attributes."""
        for cell in x.__closure__ or ():
            try:
                self.value(cell.cell_contents)
            except ValueError:
                self.say("empty")
        self.values("defaults", x.__defaults__, x.__kwdefaults__, dict(vars(x)))

    def look_into(self, x: types.FunctionType) -> None:
        """A function that is followed: its code, what it closes over, and the globals that it names."""
        self.say("function", self.numbers[id(x)], x.__name__, x.__qualname__)
        self.code(x.__code__)
        self.held(x)
        named = named_by(x.__code__)
        try:
            self.take([chain[0] for chain in named.chains if chain[0] in DENIED])
            self.take(named.names)
        except Escape as escape:
            raise Escape(f"{x.__qualname__} {escape}") from escape
        for chain in named.chains:
            if chain != ("hash",) or x.__name__ != "__hash__":  # what finds a key decides nothing: sets escape
                self.follow(x, chain)

    def code(self, code: types.CodeType) -> None:
        """Everything that decides what a code object does; lines and files do not."""
        self.say("code", code.co_name, code.co_flags, code.co_argcount, code.co_posonlyargcount,
                 code.co_kwonlyargcount, code.co_code, code.co_exceptiontable, code.co_names, code.co_varnames,
                 code.co_freevars, code.co_cellvars)  # fmt: skip
        self.constants(code.co_consts)

    def constants(self, x: Any) -> None:
        """Constants of code, with their types: 1, 1.0 and True are equal."""
        if isinstance(x, types.CodeType):
            self.code(x)
        elif isinstance(x, tuple):
            self.say("constants", len(x))
            for each in x:
                self.constants(each)
        elif isinstance(x, frozenset):
            self.say("frozenset", sorted((type(each).__name__, repr(each)) for each in x))
        else:
            self.say(type(x).__name__, x)

    def follow(self, x: types.FunctionType, chain: tuple[str, ...]) -> None:
        """A global that a function names, through modules to the first thing that is none."""
        self.say(*chain)
        scope: dict[str, Any] = x.__globals__
        if chain[0] not in scope:
            scope = x.__builtins__
        if chain[0] not in scope:
            self.say("absent")
            return
        found, rest = scope[chain[0]], list(chain[1:])
        while isinstance(found, types.ModuleType):
            if not rest:
                raise Escape(f"{x.__qualname__} passes on the module {found.__name__}")
            name = rest.pop(0)
            if name not in vars(found):
                raise Escape(f"{x.__qualname__} takes {found.__name__}.{name}, which is not there yet")
            found = vars(found)[name]
        if found is jax.config and rest and (rest[0] == "read" or rest[0].startswith("jax_")):
            return  # all of it is in the settings
        try:
            self.value(found)
        except Escape as escape:
            raise Escape(f"{x.__qualname__} uses {'.'.join(chain)}: {escape}") from escape


def is_own(name: str) -> bool:
    """Whether Python, or a library, takes an attribute of this name by itself."""
    return name.startswith("__") and name.endswith("__") and name not in MAKING


def may_be_held(x: types.FunctionType) -> bool:
    """Whether a trusted function is of those that users' objects hold: JAX's transformations, decorators, methods."""
    module = x.__globals__["__name__"]
    inside = "<locals>" in x.__code__.co_qualname
    return module == "enum" or (inside and (trusted.root(module) == "jax" or module in trusted.CLOSURES))


def registered(x: Any) -> list[str]:
    """Classes that somebody has declared to be subclasses of an abstract one.

    Left out are a library's among those of a library, which declares them as it is imported.
    """
    if not isinstance(x, ABCMeta):
        return []
    kinds = [kind for reference in importlib.import_module("_abc")._get_dump(x)[0] if (kind := reference())]
    shown = [kind for kind in kinds if not (trusted.is_trusted(x) and trusted.is_trusted(kind))]
    return sorted(f"{kind.__module__}.{kind.__qualname__}" for kind in shown)


def holds_only_attributes(kind: type[Any]) -> bool:
    """Whether instances are no containers, arrays or the like below their attributes."""
    return all(x.__basicsize__ == object.__basicsize__ for x in kind.__mro__ if trusted.is_trusted(x))
