"""What a checkpoint says of an environment, in Gymnasium's words.

"BoxActions(low=(-2.0,), high=(2.0,), shape=(1,), dtype='float32')" -> "Box(-2.0, 2.0, (1,), float32)"
"""

import ast
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

_MOST_SHOWN = 8
_KINDS = {"observations": "its observation space", "actions": "its action space"}


class _Made(NamedTuple):
    """What was written as a call: a kind of observations or actions, and its fields."""

    kind: str
    fields: Mapping[str, Any]


def difference(name: str, was: str, now: str) -> str:
    """A sentence about what has changed of an interface.

    Args:
        name: The field of the interface.
        was: Its value before, as Python writes it.
        now: Its value now, which is another.
    """
    what, before, after = _KINDS.get(name, name), _parts(was), _parts(now)
    changed = next((part for part in {**before, **after} if before.get(part) != after.get(part)), None)
    if changed is None:  # what words leave out
        return f"{what} was {was}, and is {now}"
    if changed in before and changed in after:
        where = f"{what}, entry {changed!r}," if changed else what
        return f"{where} was {before[changed]}, and is {after[changed]}"
    return f"{what} was {_named(before)}, and is {_named(after)}"


def _named(parts: Mapping[str, str]) -> str:
    return parts.get("") or f"a Dict or Tuple of {', '.join(map(repr, parts))}"


def _parts(text: str) -> dict[str, str]:
    """Each entry in words, by name; of what has none, under ""."""
    try:
        value = _value(ast.parse(text, mode="eval").body)
        if isinstance(value, _Made) and value.kind == "Entries":
            return {name: _words(entry) for name, entry in value.fields["entries"]}
        return {"": _words(value)}
    except (ValueError, SyntaxError, KeyError, TypeError):  # of another version
        return {"": text}


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return _Made(node.func.id, {str(word.arg): _value(word.value) for word in node.keywords})
    if isinstance(node, ast.Tuple):
        return tuple(map(_value, node.elts))
    return ast.literal_eval(node)


def _words(value: Any) -> str:
    """One space, as Gymnasium writes it; of a Box of observations, whose bounds are not kept, shape and type."""
    if not isinstance(value, _Made):
        return str(value)
    kind, fields = value
    if kind == "DiscreteActions":
        return _discrete(fields["count"], fields["start"])
    if kind == "Categories" and len(fields["counts"]) == 1:
        return _discrete(*fields["counts"], *fields["starts"])
    if kind in ("MultiDiscreteActions", "Categories"):
        starts = f", start={_row(fields['starts'])}" if any(fields["starts"]) else ""
        return f"MultiDiscrete({_row(fields['counts'])}{starts})"
    if kind == "BoxActions":
        low, high = (_bound(fields[end]) for end in ("low", "high"))
        return f"Box({low}, {high}, {fields['shape']}, {fields['dtype']})"
    if kind == "Image":
        return f"Box(0, 255, {fields['shape']}, uint8)"
    if kind == "Vector" and fields["is_binary"]:
        return f"MultiBinary({math.prod(fields['shape'])})"
    if kind == "Vector":
        return f"a Box of {math.prod(fields['shape'])} numbers kept as {fields['dtype']}"
    return f"{kind}({', '.join(f'{name}={part}' for name, part in fields.items())})"


def _discrete(count: int, start: int) -> str:
    return f"Discrete({count}{f', start={start}' if start else ''})"


def _bound(numbers: Sequence[float]) -> str:
    return str(numbers[0]) if len(set(numbers)) == 1 else _row(numbers)


def _row(numbers: Sequence[float]) -> str:
    return f"[{', '.join(map(str, numbers[:_MOST_SHOWN]))}{', ...' if len(numbers) > _MOST_SHOWN else ''}]"
