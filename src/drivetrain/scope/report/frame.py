"""What pages of all kinds share: one HTML file with its style and scripts inside, and a color per operation.

title, facts, (heading, content) ... -> document
"""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from drivetrain.scope.report import chart

_STYLE = (Path(__file__).parent / "page.css").read_text()
_WITHOUT_SCRIPTS = (
    '<noscript><p class="quiet">Charts are drawn by JavaScript, which is off here: numbers are in the tables and '
    "lists.</p></noscript>"
)

# One hue per operation that is found by itself; a program's own operations take turns with the rest.
HUES = {"simulation": 145, "inference": 215, "replay": 35, "backpropagation": 0, "optimizer": 285, "other": None}
_MORE_HUES = (180, 60, 320, 250, 100, 20)


def document(title: str, facts: str, sections: Sequence[tuple[str, str]]) -> str:
    """A whole page: its title as text, a line of facts and sections (heading, content) as HTML.

    Its policy lets it ask for nothing, and run no script but its own two.
    """
    body = "".join(
        f'<section aria-labelledby="s{i}"><h2 id="s{i}">{heading}</h2>{content}</section>'
        for i, (heading, content) in enumerate(sections)
    )
    drawing, digests = chart.scripts()
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src {allowed}"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>"
        f'<body><main><h1>{escape(title)}</h1><p class="facts">{facts}</p>{_WITHOUT_SCRIPTS}{body}</main>'
        f"{drawing}</body></html>\n"
    )


def color_of(operations: list[str]) -> dict[str, str]:
    """A color per operation; custom properties of the page make it lighter or darker."""
    colors: dict[str, str] = {}
    more = 0
    for name in dict.fromkeys(operations):
        hue = HUES.get(name)
        if name not in HUES:
            hue, more = _MORE_HUES[more % len(_MORE_HUES)], more + 1
        colors[name] = f"hsl({hue} 55% var(--light))" if hue is not None else "hsl(220 8% var(--light))"
    return colors
