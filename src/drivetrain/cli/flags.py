"""Flags from words, by tyro; what it says in a box becomes one sentence, as any mistake of the user's."""

import contextlib
import io
import os
import re
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import tyro

from drivetrain.core.errors import InvalidInput

T = TypeVar("T")

_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_FRAME = "╭╮╰╯│─ "
_RULE = re.compile(r"^-{3,}$")
_ANY_WIDTH = "10000"  # words are not parted


def read_flags(kind: type[T], argv: list[str], *, prog: str, **options: Any) -> T:
    """What `tyro.cli(kind, args=argv, prog=prog, **options)` returns; `--help` prints and exits as it does there.

    Raises:
        InvalidInput: A flag is unknown, or its value is none that it takes.
    """
    cli: Callable[..., T] = cast(Any, tyro).cli
    if "-h" in argv or "--help" in argv:
        return cli(kind, args=argv, prog=prog, **options)
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), _wide():
            flags = cli(kind, args=argv, prog=prog, **options)
    except SystemExit:
        raise InvalidInput(f"{sentence(said.getvalue())}; `{prog} --help` lists the flags") from None
    sys.stderr.write(said.getvalue())
    return flags


def sentence(box: str) -> str:
    """What a box of tyro's says is wrong, on one line: the first paragraph under its title, and what it guesses.

    A value that a dataclass of ours has refused is in the words of the dataclass.
    """
    lines = [_RULE.sub("", line.strip(_FRAME)) for line in _ESCAPES.sub("", box).splitlines()]
    title, _, text = "\n".join(lines).strip().partition("\n")
    first, *others = [" ".join(paragraph.split()) for paragraph in re.split(r"\n{2,}", text.strip())]
    guesses = [f"p{paragraph[1:]}" for paragraph in others if paragraph.startswith("Perhaps")]
    said = re.sub(r"^Error parsing (--\S+: )?(\S+: )?", r"\1", first or title)
    return "; ".join([said, *guesses]).rstrip(".")


@contextmanager
def _wide() -> Generator[None, None, None]:
    """Have what asks for the terminal's width find one without end."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = _ANY_WIDTH
    try:
        yield
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
