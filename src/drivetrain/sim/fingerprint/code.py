"""What a function's bytecode names: the globals it reads, with the attributes taken from them at once, and all names.

A module is never a value here: whoever loads one has to take an attribute of it in the next instruction, or the code
escapes. So every module that a program can look into is found where its name is written.
"""

# Constants of code have any type.
# pyright: reportUnknownVariableType=false

import dis
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any

FAST = sys.version_info[:2] == (3, 11)
"""Whether instructions are read from their bytes, whose form changes with Python; `dis` reads any, much slower."""
ATTRIBUTES = {"LOAD_ATTR", "LOAD_METHOD"}
NAMES = {*ATTRIBUTES, "LOAD_SUPER_ATTR", "LOAD_SUPER_METHOD", "STORE_ATTR", "DELETE_ATTR", "LOAD_GLOBAL"}
"""Instructions with a name that are understood; any other one with a name escapes."""
ESCAPES = {
    "LOAD_BUILD_CLASS": "makes a class",
    "BUILD_SET": "makes a set, whose order differs between processes",
    "SET_ADD": "makes a set, whose order differs between processes",
    "LOAD_CLASSDEREF": "makes a class",
    "LOAD_LOCALS": "makes a class",
    "MATCH_CLASS": "matches by names of attributes that are data",
    "MATCH_KEYS": "matches the keys of a mapping, whose `get` nobody names",
}
HAS_NAME = frozenset(dis.opname[op] for op in dis.hasname)
FORMATS = frozenset({"format", "format_map"})
"""Methods that take attributes by the text that they are of."""
ORDERED = (int, float, complex, type(None))
"""What sets may hold whose order is looked at: hashes that are the same in every process."""


class Escape(Exception):
    """Something that a trace may depend on cannot be followed; the message says what."""


@dataclass(frozen=True)
class Named:
    """What a code object, and those inside it, name.

    Attributes:
        chains: Each global with the attributes that follow it at once: ("jnp", "zeros").
        names: Every attribute that is taken, set or deleted anywhere, also by a text's `format`.
    """

    chains: tuple[tuple[str, ...], ...]
    names: frozenset[str]


def named_by(code: CodeType) -> Named:
    """What a function's code names.

    Raises:
        Escape: It imports, makes classes or sets, writes globals, or does what this does not know.
    """
    chains: dict[tuple[str, ...], None] = {}
    names: set[str] = set()
    chain: tuple[str, ...] = ()
    for one in all_codes(code):
        members = False
        for name, argument in (fast if FAST else by_dis)(one):
            if members and name != "CONTAINS_OP":
                raise Escape(f"{one.co_qualname} goes through a set, whose order differs between processes")
            if chain and name not in ATTRIBUTES:
                chains[chain], chain = None, ()
            members = name == "LOAD_CONST" and disordered(argument)
            if name in ESCAPES or (name in HAS_NAME and name not in NAMES):
                raise Escape(f"{one.co_qualname} {ESCAPES.get(name, f'does {name} {argument}')}")
            if name not in NAMES:
                continue
            if name != "LOAD_GLOBAL":
                names.add(argument)
            if name == "LOAD_GLOBAL" or chain:
                chain = (*chain, str(argument))
        if chain:
            chains[chain], chain = None, ()
        if not FORMATS.isdisjoint(one.co_names):
            names |= formatted(one)
    return Named(tuple(chains), frozenset(names))


def formatted(code: CodeType) -> set[str]:
    """The words of a code object's texts, where no other text is formatted.

    Raises:
        Escape: One is that is no constant of the code.
    """
    before = ""
    for each in dis.get_instructions(code):
        if each.opname in ATTRIBUTES and each.argval in FORMATS and (each.is_jump_target or before != "LOAD_CONST"):
            raise Escape(f"{code.co_qualname} takes {each.argval} of what may be any text")
        before = each.opname
    return {word for text in code.co_consts if isinstance(text, str) for word in re.findall(r"\w+", text)}


def all_codes(code: CodeType) -> Iterator[CodeType]:
    """A code object and those of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from all_codes(constant)


def disordered(constant: Any) -> bool:
    """Whether the order of a constant's elements differs between processes."""
    return isinstance(constant, frozenset) and not all(isinstance(x, ORDERED) for x in constant)


def by_dis(code: CodeType) -> Iterator[tuple[str, Any]]:
    """Names and arguments of instructions, where they matter: the oracle of `fast`."""
    for instruction in dis.get_instructions(code):
        if instruction.opname != "EXTENDED_ARG":
            known = instruction.opcode in HASNAME or instruction.opcode == LOAD_CONST
            yield instruction.opname, instruction.argval if known else None


CACHE, EXTENDED_ARG, LOAD_CONST = (dis.opmap.get(name) for name in ("CACHE", "EXTENDED_ARG", "LOAD_CONST"))
LOAD_GLOBAL = dis.opmap["LOAD_GLOBAL"]
HASNAME = frozenset(dis.hasname)


def fast(code: CodeType) -> Iterator[tuple[str, Any]]:
    """The same from the bytes of Python 3.11: pairs of instruction and argument, of which LOAD_GLOBAL's has a flag."""
    pairs, names, extended = code.co_code, code.co_names, 0
    for op, low in zip(pairs[::2], pairs[1::2], strict=True):
        if op == CACHE:
            continue
        argument = low | extended
        extended = argument << 8 if op == EXTENDED_ARG else 0
        if op == EXTENDED_ARG:
            continue
        if op in HASNAME:
            yield dis.opname[op], names[argument >> 1 if op == LOAD_GLOBAL else argument]
        elif op == LOAD_CONST:
            yield "LOAD_CONST", code.co_consts[argument]
        else:
            yield dis.opname[op], None
