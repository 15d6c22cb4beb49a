"""What is asked for by parts of names, as `--only` has it in every bench."""

from collections.abc import Sequence

from drivetrain.core.errors import InvalidInput

ALL, SOME = 40, 12
"""Up to so many names are all listed where a part is in none of them, and of more about so many."""


def named(names: Sequence[str], asked: str, *, kind: str, flag: str = "--only") -> list[str]:
    """The names that contain the text, or, where none does, one of its parts between commas; empty: all names.

    The text as it stands comes first, since names may have commas themselves.

    Args:
        names: To choose from.
        asked: What the flag says.
        kind: What has such a name, for the refusal.
        flag: Where it was asked.

    Raises:
        InvalidInput: A part is in no name.
    """
    parts = [asked]
    if not any(asked in name for name in names):
        parts = [part for word in asked.split(",") if (part := word.strip())] or parts
    for part in parts:
        if part and not any(part in name for name in names):
            raise InvalidInput(f"{flag} {part!r} is in the name of no {kind}: {_listed(names)}")
    return [name for name in names if any(part in name for part in parts)]


def _listed(names: Sequence[str]) -> str:
    if len(names) <= ALL:
        return "; ".join(names)
    return f"of {len(names)} some are {'; '.join(names[:: -(-len(names) // SOME)])}"
