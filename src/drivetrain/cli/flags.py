"""Flags from words, by tyro; what it says in a box becomes one sentence, as any mistake of the user's."""

import contextlib
import dataclasses
import difflib
import io
import json
import os
import re
import shutil
import sys
import typing
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType, NoneType
from typing import Any, TypeVar, cast

import tyro

from drivetrain.core.docstrings import explained
from drivetrain.core.errors import InvalidInput
from drivetrain.core.paths import NO_STREAM, given_path
from drivetrain.core.words import fraction

T = TypeVar("T")

_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_FRAME = "╭╮╰╯│─ "
_SEVERAL = re.compile(r"Could not find valid parse for arguments: \[(.*)\]$")
_NONE_OF_SEVERAL = re.compile(r"no type matching (.*) could be instantiated from \[(.*)\]")
_NO_VALUE = re.compile(r"Missing value for argument '[^-]")
_ABSENT = re.compile(r"^Missing from .*?: (\S+) (.*?)\.? \(required\)$")
_FLAG = re.compile(r"^(?:-\w(?: [A-Z]+)?, )?(--[\w-]+)", re.MULTILINE)
_TRUTH = re.compile(r"(?:: |, |=)(?:true|false|yes|no|on|off)(?=,|$)", re.IGNORECASE)
_RULE = re.compile(r"^-{3,}$")
_LEAST_WIDTH = 20
"""Columns below which help has no room for its frames, and tyro does not come to an end."""
_UNKNOWN = "Unrecognized options:"
_EMPTY = "an empty word is among the arguments, as of a shell's variable that is not set"
_DASHES = "flags stand before the word --, behind which there are names alone"
_ANY_WIDTH = "10000"  # words are not parted
_ONE_PANEL = "80"  # help stands in one column: each flag begins a line

_KINDS: Any = tyro.constructors.ConstructorRegistry()


def _whole_number(text: str) -> int:
    """As of "100_000" and of "1e5"."""
    with contextlib.suppress(ValueError):
        return int(text)
    with contextlib.suppress(ValueError):
        number = float(text)
        if number.is_integer() and abs(number) < 2**53:
            return int(number)
    raise ValueError(f"expected a whole number, as 100000, 100_000 or 1e5, got {text!r}")


def _real_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"expected a number, as 0.001 or 1e-3, got {text!r}") from None


def _fraction(text: str) -> Fraction:
    try:
        return fraction(text)
    except ZeroDivisionError:
        raise ValueError(f"expected a denominator above 0, got {text}") from None
    except ValueError:
        raise ValueError(f"expected a number or a fraction of two, as 4, 0.25 or 1/4, got {text!r}") from None


def _by_name(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
        json.dumps(found, allow_nan=False)  # Python reads and makes Infinity and NaN, which are none of JSON's
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ValueError(f"expected values by name as JSON has them, as '{{\"gravity\": 9.8}}', got {text!r}")
    return cast("dict[str, Any]", found)


def _path(text: str) -> Path:
    """Never an empty one, which would be the present folder; `~` is what shells leave of it in `--json=~/file`."""
    return given_path("path", text)


def _none(text: str) -> None:
    if text != "None":
        raise ValueError(f"expected None, got {text!r}")


_READERS: dict[Any, tuple[str, Callable[[str], Any]]] = {
    int: ("INT", _whole_number),
    float: ("FLOAT", _real_number),
    Fraction: ("FRACTION", _fraction),
    Path: ("PATH", _path),
    dict[str, Any]: ("JSON", _by_name),
    NoneType: ("None", _none),
}


def _read(info: Any) -> Any:
    """How tyro reads and shows numbers, values by name, and none at all."""
    kind: Any = info.type
    if kind not in _READERS:
        return None
    metavar, read = _READERS[kind]
    is_one = (int, float) if kind is float else typing.get_origin(kind) or kind
    shown: Callable[[Any], str] = json.dumps if is_one is dict else str
    return tyro.constructors.PrimitiveConstructorSpec[Any](
        nargs=1,
        metavar=metavar,
        instance_from_str=lambda args: read(args[0]),
        is_instance=lambda value: isinstance(value, is_one),
        str_from_instance=lambda value: [shown(value)],
    )


_KINDS.primitive_rule(_read)


def _lay_out_help(kind: Any) -> None:
    """Give tyro what a dataclass's fields are for, and those of dataclasses in it, a line for each paragraph.

    It finds the strings below them by itself, too, and ends a line of help wherever one of the source ends.
    """
    docs = [explained(owner) for owner in kind.__mro__]
    for field in dataclasses.fields(kind):
        if dataclasses.is_dataclass(field.type):
            _lay_out_help(field.type)
        text = next(filter(None, (of_class.get(field.name) for of_class in docs)), None)
        if text is not None:
            paragraphs = (" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text.strip()))
            field.metadata = MappingProxyType({**field.metadata, "help": "\n\n".join(paragraphs)})


def read_flags(
    kind: type[T],
    argv: list[str],
    *,
    prog: str,
    meant: Callable[[str], str | None] = lambda name: None,
    beside: Sequence[str] = (),
    otherwise: str | None = None,
    apart: str | None = None,
    **options: Any,
) -> T:
    """What `tyro.cli(kind, args=argv, prog=prog, **options)` returns; `--help` prints and exits as it does there.

    Numbers are read as people write them, as 1e5; values by name as JSON; no path is empty. `meant` guesses what an
    unknown flag's name is here, as learning_rate for lr, before names are compared. `beside` are flags that the command
    takes out of its words before they are read here, and an unknown one may have been, too. `otherwise` is said of
    unknown ones where nothing is guessed, and `apart` where all of them are names, which flags have parted from others.

    Raises:
        InvalidInput: A flag is unknown, or its value is none that it takes.
    """
    cli: Callable[..., T] = cast(Any, tyro).cli
    options["registry"] = _KINDS
    if "-h" in argv or "--help" in argv:
        _lay_out_help(kind)
        with _columns(str(max(_LEAST_WIDTH, shutil.get_terminal_size().columns))):
            return cli(kind, args=argv, prog=prog, **options)

    def read(words: list[str], width: str = _ANY_WIDTH) -> tuple[T | None, str]:
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said), _columns(width):
                return cli(kind, args=words, prog=prog, **options), said.getvalue()
        except SystemExit:
            return None, said.getvalue()

    flags, said = read(argv)
    if flags is not None:
        sys.stderr.write(said)
        return flags
    why = sentence(said)
    if _NO_VALUE.match(why):  # an unknown flag in front of it has swallowed the word; with another word it is named
        _, said = read([".", *argv])
        why = sentence(said) if _UNKNOWN in said else why
    if why.startswith(_UNKNOWN):
        with contextlib.redirect_stdout(io.StringIO()) as text:
            read(["--help"], _ONE_PANEL)
        guesses = _guesses(why, [*_FLAG.findall(_unboxed(text.getvalue())), *beside], meant)
        if not any(word.startswith("-") for word in why.removeprefix(_UNKNOWN).split()):
            otherwise = apart or otherwise
        why = "; ".join([why, *(guesses or filter(None, [otherwise]))])
    if "" in argv:
        why = f"{why}; {_EMPTY}"
    if any(word == "-" or word.endswith("=-") for word in argv) and NO_STREAM not in why:
        why = f"{why}; {NO_STREAM}"
    if "--" in argv:
        why = f"{why}; {_DASHES}"
    raise InvalidInput(f"{why}; `{prog} --help` lists the flags")


def sentence(box: str) -> str:
    """What a box of tyro's says is wrong, on one line: the first paragraph under its title.

    A value that a dataclass of ours has refused is in the words of the dataclass.
    """
    title, _, text = _unboxed(box).strip().partition("\n")
    first = " ".join(re.split(r"\n{2,}", text.strip())[0].split())
    said = re.sub(r"^Error parsing (-\S+: )?(\S+: )?", r"\1", first or title)
    said = _NONE_OF_SEVERAL.sub(_expected_one, said)
    said = _ABSENT.sub(r"expected \1 (\2), got nothing", said)
    said = _SEVERAL.sub(r"expected values as --help shows them, with spaces between them, got \1", said)
    return said.rstrip(".")


def _unboxed(text: str) -> str:
    """Without colours, frames and rules."""
    return "\n".join(_RULE.sub("", line.strip(_FRAME)) for line in _ESCAPES.sub("", text).splitlines())


def _guesses(why: str, known: list[str], meant: Callable[[str], str | None]) -> list[str]:
    """What unknown flags may have been, and what a switch's value is told: up to two parts of a sentence."""
    flags = re.findall(r"(?:^|, )(--[\w-]+)", why.removeprefix(_UNKNOWN).strip())
    unknown = [flag for flag in flags if flag not in known]  # one that is known stood behind --, or has a value
    found = {flag: names for flag in unknown if (names := _likely(flag, known, meant))}
    if len(unknown) == 1:
        parts = [name for names in found.values() for name in names]
    else:
        parts = [f"{' or '.join(names)} for {flag}" for flag, names in found.items()]
    told = [f"perhaps you meant: {', '.join(parts)}"] if parts else []
    return [*told, "switches take no value: --NAME, or --no-NAME"] if _TRUTH.search(why) else told


def _likely(flag: str, known: list[str], meant: Callable[[str], str | None]) -> list[str]:
    """Flags that an unknown one may be, by the first that tells: what is meant, its beginning, its letters, a word."""
    flag = flag.replace("_", "-")
    ours = meant(flag.removeprefix("--").replace("-", "_"))
    if ours is not None:
        return ["--" + ours.replace("_", "-")]
    longer = [name for name in known if name.startswith(flag)]
    alike = difflib.get_close_matches(flag, known, n=3, cutoff=0.75)
    sharing = [name for name in known if f"-{flag.strip('-')}-" in f"{name}-"]
    return longer or alike or sharing


_KIND_WORDS = {"INT": "a whole number", "FLOAT": "a number", "PATH": "a path"}


def _expected_one(match: re.Match[str]) -> str:
    """Of what tyro says where a value may be of several types."""
    kinds = [_KIND_WORDS.get(kind, kind.strip("{}").replace(",", " or ")) for kind in match[1].split("|")]
    return f"expected {' or '.join(sorted(kinds))}, got {match[2]}"


@contextmanager
def _columns(width: str) -> Generator[None, None, None]:
    """Have what asks for the terminal's width find this one."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = width
    try:
        yield
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
