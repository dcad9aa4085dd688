"""Tables and numbers as `tdu score` prints them."""

from collections.abc import Iterable, Sequence


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def number_words(value: float | None) -> str:
    """A number with three digits; a dash for None."""
    return "–" if value is None else f"{value:.3f}"
