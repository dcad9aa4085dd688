"""Pages."""

from typing import Any


def write(*a: Any) -> Any:
    return {}
