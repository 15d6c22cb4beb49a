"""Times, shares and names as reports write them."""

_LONGEST_NAME = 160


def seconds(ns: float) -> str:
    """With a unit that suits the size."""
    for limit, unit, scale in ((1e9, "s", 1e9), (1e6, "ms", 1e6), (1e3, "µs", 1e3)):
        if abs(ns) >= 0.9995 * limit:  # what rounds to a whole one
            number = ns / scale
            return f"{number:.3g} {unit}" if abs(number) < 999.5 else f"{number:,.0f} {unit}"
    return f"{ns:.0f} ns"


def part(ns: float, whole_ns: float) -> str:
    """Of a whole, in percent."""
    return f"{ns / whole_ns:.1%}" if whole_ns else "0%"


def others(num: int) -> str:
    """The row that rows without room are together."""
    return f"{num} other" + "s" * (num != 1)


def brief(name: str) -> str:
    """A name that a program gives may be as long as it likes; a label, or a cell of a terminal, may not."""
    return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…"
