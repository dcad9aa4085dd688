"""Parts of a page: sections, and tables that can be sorted and copied. All text is escaped."""

import html
from collections.abc import Iterable, Sequence

from tdu.errors import printable
from tdu.report.text import rounded

Cell = str | float | None  # A text, a number, or None for an unknown value


class Html(str):
    """Text that is HTML already."""


def escaped(text: str) -> str:
    return text if isinstance(text, Html) else html.escape(printable(text))


def section(name: str, title: str, content: str) -> str:
    """A part of the page under its heading; empty without content."""
    return f'<section id="{name}"><h2>{escaped(title)}</h2>{content}</section>' if content else ""


def table(columns: Sequence[str], rows: Iterable[Sequence[Cell]], name: str) -> str:
    """A table that can be sorted and copied."""
    rows = list(rows)
    numeric = [all(not isinstance(row[i], str) or row[i] == "–" for row in rows) for i in range(len(columns))]
    right = [' class="number"' if here else "" for here in numeric]
    head = "".join(
        f'<th scope="col" aria-sort="none"{side}><button type="button">{escaped(c)}</button></th>'
        for c, side in zip(columns, right, strict=True)
    )
    body = "".join("<tr>" + "".join(map(_cell, row, right)) + "</tr>" for row in rows)
    above = (
        '<p class="above"><span class="hint" hidden>scroll for more columns →</span>'
        f'<button type="button" class="copy" aria-label="copy the table {escaped(name)}">copy</button></p>'
    )
    return (
        f'<div class="table">{above}<div class="scroll" tabindex="0"><table aria-label="{escaped(name)}"><thead><tr>{head}'
        f"</tr></thead><tbody>{body}</tbody></table></div></div>"
    )


def _cell(cell: Cell, right: str) -> str:
    if cell is None:
        return f"<td{right}>–</td>"
    if isinstance(cell, str):
        return f"<td{right}>{escaped(cell)}</td>"
    words = f"{cell:,}" if isinstance(cell, int) else rounded(cell)
    return f'<td{right} data-value="{cell}">{words}</td>'


def number_or_text(text: str) -> Cell:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text or None
