"""Tables and numbers as `tdu score` and the page print them; and the published numbers beside this file."""

import csv
import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path


@lru_cache
def published(file: str) -> dict[str, dict[str, float]]:
    """The numbers of a CSV file beside this one, by the first column's name and by column; empty cells are left out."""
    with open(Path(__file__).parent / file, newline="", encoding="utf-8") as f:
        names, *rows = csv.reader(f)
    return {
        row[0]: {name: float(x) for name, x in zip(names[1:], row[1:], strict=True) if x and name != "source"}
        for row in rows
    }


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
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
