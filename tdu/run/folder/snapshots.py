"""The file record.jsonl of `--record`: a header line, then a line for each snapshot.

A line is JSON. Arrays are strings: base64 of the zlib-compressed, little-endian numbers. The file only grows, and a
checkpoint stores its length and checksum, as for the logs. So an interrupted and resumed run leaves the same bytes.
"""

import base64
import json
import math
import operator
import sys
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tdu import files
from tdu.errors import RunError, reading
from tdu.files import Json
from tdu.run.folder.log import Stamp, matches

FORMAT = 1
_MAX_BYTES = 2**30  # largest record that is read, and the largest size of its unpacked arrays together
_MAX_ARRAY = 2**24  # largest size of an array in bytes, and largest count
_TYPES = ("float16", "int32")


class Record(NamedTuple):
    """A run's record."""

    about: Json
    """The header: exploiters, explorers, and kind, rows, columns, cells and goal of the map, if there is one."""
    snapshots: list[Json]
    """In order, each with its episode and step; see `run.recording`."""

    def maps(self, name: str) -> np.ndarray:
        return np.stack([unpacked(s["maps"][name]) for s in self.snapshots])


def line(content: Json) -> bytes:
    return (json.dumps(content, separators=(",", ":"), allow_nan=False) + "\n").encode()


def packed(array: np.ndarray) -> Json:
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    text = base64.b64encode(zlib.compress(little.tobytes(), 6)).decode()
    return {"dtype": array.dtype.name, "shape": list(array.shape), "data": text}


def unpacked(content: Json) -> np.ndarray:
    """The array from its JSON form. It is not unpacked beyond its size."""
    dtype = np.dtype(_TYPES[_TYPES.index(content["dtype"])]).newbyteorder("<")
    size = math.prod(map(operator.index, content["shape"])) * dtype.itemsize
    if not 0 <= size <= _MAX_ARRAY:
        raise ValueError("an array is too large")
    data = zlib.decompressobj().decompress(base64.b64decode(content["data"], validate=True), size + 1)
    return np.frombuffer(data, dtype).reshape(content["shape"]).astype(content["dtype"])


def read(path: Path, *, upto: Stamp | None = None) -> Record | None:
    """A record from its file, up to a checkpoint's stamp if one is given; None if there is none.

    An incomplete last line is ignored.
    """
    if upto is not None and not matches(path, upto):
        raise RunError(f"{path} was changed after the run wrote it.")
    try:
        with reading(path):
            data = files.read_bytes(path, _MAX_BYTES)[: None if upto is None else upto.bytes]
    except FileNotFoundError:
        return None
    whole = data[: data.rfind(b"\n") + 1].splitlines()
    if not whole:
        return None
    try:
        about, *snapshots = map(files.parsed_json, whole)
        if about["format"] != FORMAT:
            raise RunError(f"{path} was made by another version of tdu.")
        _check_header(about)
        left = _MAX_BYTES
        for snapshot in snapshots:
            left -= _checked_size(about, snapshot)
            if left < 0:
                raise ValueError(f"its arrays are larger than {_MAX_BYTES:,} bytes")
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, zlib.error) as e:
        if isinstance(e, RunError):
            raise
        raise RunError(f"{path} is not a run's record ({e}).") from None
    return Record(about, snapshots)


def _check_header(about: Json) -> None:
    """Raises if a number of the header is out of range."""
    here = about["map"] or {"rows": 1, "columns": 1, "goal": 0, "cells": [], "layers": {}}
    _check_counts([about["exploiters"], about["explorers"], here["rows"], here["columns"]])
    _check_counts([here["goal"], *here["cells"]], most=min(here["rows"] * here["columns"], _MAX_ARRAY) - 1)
    if here["layers"] and here["layers"]["visits"] != [2, len(here["cells"])]:
        raise ValueError("its map has unknown layers")


def _check_counts(counts: list[object], most: int = _MAX_ARRAY) -> None:
    if not all(isinstance(count, int) and 0 <= count <= most for count in counts):
        raise ValueError("a number is out of range")


def _checked_size(about: Json, snapshot: Json) -> int:
    """The size of a snapshot's arrays; raises if it does not match the header."""
    _check_counts([snapshot["episode"], snapshot["steps"]], most=2**53)
    _check_counts(snapshot.get("path", []))
    for name in ("bonus", "td", "td_size"):
        if not all(abs(float(number)) <= sys.float_info.max for number in snapshot[name] or ()):
            raise ValueError(f"{name} is not finite")
    arrays = {name: unpacked(snapshot["maps"][name]) for name in (about["map"]["layers"] if about["map"] else {})}
    for name, array in arrays.items():
        if array.shape != tuple(about["map"]["layers"][name]):
            raise ValueError(f"{name} has the wrong shape")
    return sum(array.nbytes for array in arrays.values())
