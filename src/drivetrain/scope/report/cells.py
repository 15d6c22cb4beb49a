"""Tables of the page."""


def table(headings: list[str], rows: list[list[str]], name: str = "") -> str:
    """A table of cells that are HTML already, as wide as it has to be."""
    head = "".join(f'<th scope="col">{heading}</th>' for heading in headings)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    called = f' id="{name}"' if name else ""
    # Wide tables scroll by themselves, by keyboard too.
    return (
        f'<div class="wide" tabindex="0"><table{called}><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )
