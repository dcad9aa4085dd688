"""Rows of runs in a CSV file. A row is added as its run ends, and runs with a row are not repeated."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def read(path: Path) -> list[dict[str, str]]:
    """All rows of the file."""
    if not path.exists():
        return []
    with open(path, newline="") as f:
        return list(csv.DictReader(f))


def append(path: Path, columns: Sequence[str], row: dict[str, Any]) -> None:
    """Adds a row; the first one creates the file."""
    is_new = not path.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a", newline="") as f:
        writer = csv.DictWriter(f, columns, lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerow(row)
