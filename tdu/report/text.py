"""Tables and numbers as `tdu score` and the page print them."""

import math
from collections.abc import Iterable, Sequence


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def number_words(value: float | None) -> str:
    """A number with three decimals; a dash for None."""
    return "–" if value is None else f"{value:,.3f}"


def rounded(value: float, digits: int = 4) -> str:
    """A number with `digits` significant digits and thousands separators; whole numbers keep all theirs."""
    if not math.isfinite(value):
        return "not a number"
    size = math.floor(math.log10(abs(value))) if value else 0
    if not -4 <= size < 15:
        return f"{value:.{digits}g}"
    text = f"{value:,.{max(digits - 1 - size, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
