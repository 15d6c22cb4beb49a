"""Numbers as people read and write them, in every message, report and argument."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fractions import Fraction

MOST_DIGITS = 100
"""Of a number that we read as text: Python refuses to read thousands of them."""
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def size(nbytes: float) -> str:
    """Bytes in the unit that suits: `1.50 GiB`."""
    if nbytes >= 2**70:
        return f"{int(nbytes) >> 60:,} EiB"  # not by floats, which end somewhere
    number, unit = nbytes, 0
    while number >= 1024 and unit + 1 < len(_UNITS):
        number, unit = number / 1024, unit + 1
    return f"{number:,.2f} {_UNITS[unit]}" if unit else f"{nbytes:.0f} B"


def duration(seconds: float) -> str:
    """Seconds in the unit that suits, with three digits at most: `1.5 ms`."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= 0.9995 * scale:  # which three digits round to 1
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def reward(amount: float) -> str:
    """A return, or a reward: one digit behind the point, or three that say something where it is below 1."""
    return f"{amount:.3g}" if 0 < abs(amount) < 1 else f"{amount:.1f}"


def fraction(text: str) -> "Fraction":
    """A number, or a fraction of two, as it is written: a decimal is no binary neighbour of it.

    Raises:
        ValueError: It is neither, or has more digits than anybody could read.
        ZeroDivisionError: Its denominator is 0.
    """
    digits, _, exponent = text.lower().partition("e")
    if max(len(digits), abs(int(exponent or 0))) > MOST_DIGITS:
        raise ValueError(f"expected at most {MOST_DIGITS} digits")
    from fractions import Fraction  # and decimals: only where one is read

    return Fraction(text)


def counted(count: int, noun: str) -> str:
    """As in "1 actor", "2 actors"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
