"""Text of others on a terminal: names, errors and paths may hold what a terminal would obey."""


def printable(text: str, *, keep: str = "") -> str:
    """The same text, in which whatever a terminal would obey, or cannot show, is an escape; but for `keep`."""
    return "".join(c if c.isprintable() or c in keep else ascii(c)[1:-1] for c in text)
