"""What every page of `tdu report` is made of: sections, tables that can be sorted and copied, and the text of a README.

Of Markdown it knows what the pages of results/ are written in: headings, paragraphs, lists, code, tables, figures, emphasis,
links. Everything else stays the text that it is, and every text is escaped.
"""

import base64
import html
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any


class Html(str):
    """A text that is escaped already."""


def section(name: str, title: str, content: str) -> str:
    """A part of the page under its heading, or nothing if there is nothing to say."""
    if not content:
        return ""
    return f'<section id="{name}"><h2>{inline(title)}</h2>{content}</section>'


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], name: str) -> str:
    """A table that can be sorted and copied. A cell is a text, a number, or None for what is not known."""
    rows = list(rows)
    numeric = [all(_is_number(row[i]) or row[i] in (None, "–") for row in rows) for i in range(len(columns))]
    right = [' class="number"' if here else "" for here in numeric]
    head = "".join(
        f'<th scope="col" aria-sort="none"{side}><button type="button">{_escaped(c)}</button></th>'
        for c, side in zip(columns, right, strict=True)
    )
    body = "".join("<tr>" + "".join(map(_cell, row, right)) + "</tr>" for row in rows)
    return (
        f'<div class="table"><button type="button" class="copy" aria-label="copy the table {html.escape(name)}">copy'
        f'</button><div class="scroll" tabindex="0"><table aria-label="{html.escape(name)}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div></div>"
    )


def _is_number(cell: Any) -> bool:
    return isinstance(cell, int | float) and not isinstance(cell, bool)


def _cell(cell: Any, right: str) -> str:
    if cell is None:
        return f"<td{right}>–</td>"
    if not _is_number(cell):
        return f"<td{right}>{_escaped(cell if isinstance(cell, str) else str(cell))}</td>"
    words = str(cell) if isinstance(cell, int) else f"{cell:.4g}" if math.isfinite(cell) else "not a number"
    return f'<td{right} data-value="{cell}">{html.escape(words)}</td>'


def _escaped(text: str) -> str:
    return text if isinstance(text, Html) else html.escape(text)


def number_or_text(text: str) -> Any:
    """A cell of a file of rows."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text or None


# ------------------------------------------------------------------ the text of a README

_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_FIGURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
_INLINE = re.compile(r"`([^`]+)`|\*\*(.+?)\*\*|\*(?!\s)([^*]+)(?<!\s)\*|\[([^\]]+)\]\((\S+?)\)")
_ITEM = re.compile(r"(?:[-*+]|\d+\.) +")
_KINDS = {".svg": "image/svg+xml", ".png": "image/png"}


def figures_of(text: str) -> list[str]:
    """Names of the files that a text shows, those that lie beside it and that a page can hold."""
    names = (name for _, name in _FIGURE.findall(_COMMENT.sub("", text)))
    return [name for name in dict.fromkeys(names) if "/" not in name and "\\" not in name and _kind(name)]


def title_of(text: str, otherwise: str) -> tuple[str, str]:
    """A text's heading, and the rest of it."""
    text = _COMMENT.sub("", text).strip()
    first, _, rest = text.partition("\n")
    return (first.removeprefix("# ").strip(), rest) if first.startswith("# ") else (otherwise, text)


def prose(text: str, figures: Mapping[str, bytes], name: str) -> str:
    """A text as HTML, with its figures in it; its tables can be sorted and copied as all others."""
    return "".join(_block(lines, figures, name) for lines in _blocks(_COMMENT.sub("", text).splitlines()))


def inline(text: str) -> Html:
    """A line: code, emphasis and links of the web; a link to anything else is its text, for the page stands alone."""
    parts, at = [], 0
    for found in _INLINE.finditer(text):
        code, strong, soft, words, address = found.groups()
        parts.append(html.escape(text[at : found.start()]))
        at = found.end()
        if code is not None:
            parts.append(f"<code>{html.escape(code)}</code>")
        elif strong is not None:
            parts.append(f"<strong>{inline(strong)}</strong>")
        elif soft is not None:
            parts.append(f"<em>{inline(soft)}</em>")
        elif address.startswith(("https://", "http://")):
            parts.append(f'<a href="{html.escape(address)}" rel="noreferrer">{inline(words)}</a>')
        else:
            parts.append(inline(words))
    return Html("".join(parts) + html.escape(text[at:]))


def _blocks(lines: Iterable[str]) -> Iterator[list[str]]:
    """Lines that belong together: a code between fences, a line that stands alone, or what has no empty line within."""
    block: list[str] = []
    fenced = False
    for line in lines:
        fence = line.startswith("```")
        alone = not fenced and (fence or line.startswith("#") or _FIGURE.fullmatch(line.strip()) is not None)
        if (alone or (not fenced and not line.strip())) and block:
            yield block
            block = []
        if line.strip() or fenced:
            block.append(line)
        if (alone and not fence) or (fence and fenced):
            yield block
            block = []
        fenced ^= fence
    if block:
        yield block


def _block(lines: Sequence[str], figures: Mapping[str, bytes], name: str) -> str:
    first = lines[0]
    if first.startswith("```"):
        return f"<pre>{html.escape(chr(10).join(line for line in lines[1:] if not line.startswith('```')))}</pre>"
    if all(line.startswith("    ") for line in lines):
        return f"<pre>{html.escape(chr(10).join(line[4:] for line in lines))}</pre>"
    if first.startswith("#"):
        level = min(max(len(first) - len(first.lstrip("#")), 2), 5) + 1
        return f"<h{level}>{inline(first.lstrip('#').strip())}</h{level}>"
    if (figure := _FIGURE.fullmatch(first.strip())) is not None:
        return _figure(figure[1], figure[2], figures)
    if len(lines) > 1 and first.startswith("|") and set(lines[1]) <= set("|-: "):
        head, _, *rows = (
            [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]] for line in lines
        )
        cells = [[_table_cell(cell) for cell in [*row, *[""] * len(head)][: len(head)]] for row in rows]
        return table([inline(cell) for cell in head], cells, f"{name}: {', '.join(head)}")
    if _ITEM.match(first):
        return _list(lines)
    return f"<p>{inline(' '.join(line.strip() for line in lines))}</p>"


def _table_cell(text: str) -> Any:
    """A number if it is written as itself, so that nothing is rounded that the text does not round."""
    number = number_or_text(text)
    return number if isinstance(number, int) and str(number) == text else inline(text)


def _list(lines: Sequence[str]) -> str:
    items: list[str] = []
    for line in lines:
        if _ITEM.match(line.lstrip()):
            items.append(_ITEM.sub("", line.lstrip(), count=1))
        else:
            items[-1] += " " + line.strip()
    kind = "ol" if lines[0][0].isdigit() else "ul"
    return f"<{kind}>" + "".join(f"<li>{inline(item)}</li>" for item in items) + f"</{kind}>"


def _figure(words: str, name: str, figures: Mapping[str, bytes]) -> str:
    if name not in figures:
        return f'<p class="note">The figure {html.escape(name)} ({html.escape(words)}) is not there.</p>'
    source = f"data:{_kind(name)};base64,{base64.b64encode(figures[name]).decode()}"
    return (
        f'<figure class="drawn"><div class="wide" tabindex="0"><img alt="{html.escape(words)}" src="{source}"></div>'
        f"<figcaption>{html.escape(words)}</figcaption></figure>"
    )


def _kind(name: str) -> str | None:
    return next((kind for end, kind in _KINDS.items() if name.endswith(end)), None)
