"""The README of a folder of results as HTML: Markdown with tables, and figures inside the page."""

import base64
import html
import re
from collections.abc import Iterator, Mapping, Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token

from tdu.report.page_parts import Html, number_or_text, table

_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_KINDS = {".svg": "image/svg+xml", ".png": "image/png"}


def figures_of(text: str) -> list[str]:
    """Names of the figures in a text that are files beside it."""
    images = (image for token in _parse(text) for image in token.children or () if image.type == "image")
    names = dict.fromkeys(str(image.attrs["src"]) for image in images)
    return [name for name in names if "/" not in name and "\\" not in name and _kind(name)]


def render(text: str, figures: Mapping[str, bytes], name: str) -> tuple[Html | None, Html]:
    """The text's title, if it begins with one, and the rest of it."""
    tokens, title = _parse(text), None
    if tokens and tokens[0].type == "heading_open" and tokens[0].tag == "h1":
        title, tokens = _inline(tokens[1]), tokens[3:]
    return title, Html(_MARKDOWN.renderer.render(list(_blocks(tokens, figures, name)), _MARKDOWN.options, {}))


def _parse(text: str) -> list[Token]:
    return _MARKDOWN.parse(_COMMENT.sub("", text))


def _blocks(tokens: Sequence[Token], figures: Mapping[str, bytes], name: str) -> Iterator[Token]:
    """The tokens with lower headings, and with our own HTML for tables and figures."""
    cells: list[list[Html]] | None = None
    skip = False
    for i, token in enumerate(tokens):
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(max(int(token.tag[1]), 2) + 1, 6)}"
        if token.type == "inline":
            token.children = _web_links(token.children or [])
        if token.type == "table_open":
            cells = []
        elif token.type == "table_close" and cells is not None:
            head, *rows = cells
            label = f"{name}: {', '.join(map(_plain, head))}"
            content = table(head, ([_cell(cell) for cell in row] for row in rows), label)
            cells = None
            yield Token("html_block", "", 0, content=content)
        elif cells is not None:
            if token.type == "tr_open":
                cells.append([])
            elif token.type == "inline":
                cells[-1].append(_inline(token))
        elif token.type == "paragraph_open" and all(
            child.type in ("image", "softbreak") for child in tokens[i + 1].children or ()
        ):
            skip = True
            images = [child for child in tokens[i + 1].children or () if child.type == "image"]
            yield Token("html_block", "", 0, content="".join(_figure(image, figures) for image in images))
        elif not skip:
            yield token
        elif token.type == "paragraph_close":
            skip = False


def _web_links(children: Sequence[Token]) -> list[Token]:
    """Without links to files: the page has no files beside it."""
    kept, depth = list[Token](), 0
    for child in children:
        if child.type == "link_open" and not str(child.attrs["href"]).startswith(("https://", "http://")):
            depth += 1
        elif child.type == "link_close" and depth:
            depth -= 1
        else:
            if child.type == "link_open":
                child.attrSet("rel", "noreferrer")
            kept.append(child)
    return kept


def _inline(token: Token) -> Html:
    inline = Token("inline", "", 0, children=_web_links(token.children or []))
    return Html(_MARKDOWN.renderer.render([inline], _MARKDOWN.options, {}))


def _plain(cell: Html) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", cell))


def _cell(cell: Html) -> Html | int:
    """A whole number as such; the README has rounded the others already."""
    number = number_or_text(cell)
    return number if isinstance(number, int) and str(number) == cell else cell


def _figure(image: Token, figures: Mapping[str, bytes]) -> str:
    name, caption = str(image.attrs["src"]), html.escape(image.content)
    if name not in figures:
        return f'<p class="note">The figure {html.escape(name)} ({caption}) is missing.</p>'
    source = f"data:{_kind(name)};base64,{base64.b64encode(figures[name]).decode()}"
    return (
        f'<figure class="drawn"><div class="wide" tabindex="0"><img alt="{caption}" src="{source}"></div>'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _kind(name: str) -> str | None:
    return next((kind for end, kind in _KINDS.items() if name.endswith(end)), None)
