"""The file record.jsonl of `--record`: a header line, then a line for each snapshot.

A line is JSON. Arrays are strings: base64 of the zlib-compressed, little-endian numbers. The file only grows, and a
checkpoint stores its length and checksum, as for the logs. So an interrupted and resumed run leaves the same bytes.
"""

import base64
import json
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tdu.errors import RunError
from tdu.run.folder.log import Stamp, matches

Json = dict[str, Any]
FORMAT = 1


class Record(NamedTuple):
    """A run's record."""

    about: Json
    """The header: exploiters, explorers, and kind, rows, columns, cells and goal of the map, if there is one."""
    snapshots: list[Json]
    """In order, each with its episode and step; see `run.recording`."""

    def maps(self, name: str) -> np.ndarray:
        """An array over all snapshots, [T, …]."""
        return np.stack([unpacked(s["maps"][name]) for s in self.snapshots])


def line(content: Json) -> bytes:
    """A line of the file."""
    return (json.dumps(content, separators=(",", ":"), allow_nan=False) + "\n").encode()


def packed(array: np.ndarray) -> Json:
    """An array as JSON."""
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    text = base64.b64encode(zlib.compress(little.tobytes(), 6)).decode()
    return {"dtype": array.dtype.name, "shape": list(array.shape), "data": text}


def unpacked(content: Json) -> np.ndarray:
    """The array from its JSON form."""
    dtype = np.dtype(content["dtype"]).newbyteorder("<")
    numbers = np.frombuffer(zlib.decompress(base64.b64decode(content["data"], validate=True)), dtype)
    return numbers.reshape(content["shape"]).astype(np.dtype(content["dtype"]))


def read(path: Path, *, upto: Stamp | None = None) -> Record | None:
    """A record from its file, up to a checkpoint's stamp if one is given; None if there is none.

    An incomplete last line is ignored.
    """
    if upto is not None and not matches(path, upto):
        raise RunError(f"{path} was changed after the run wrote it.")
    try:
        data = path.read_bytes()[: None if upto is None else upto.bytes]
    except FileNotFoundError:
        return None
    except OSError as e:
        raise RunError(f"{path} cannot be read ({e.strerror or e}).") from None
    whole = data[: data.rfind(b"\n") + 1].splitlines()
    if not whole:
        return None
    try:
        about, *snapshots = map(json.loads, whole)
        if about["format"] != FORMAT:
            raise RunError(f"{path} was made by another version of tdu.")
        for snapshot in snapshots:
            _check(about, snapshot)
    except (ValueError, KeyError, TypeError, AttributeError, zlib.error) as e:
        if isinstance(e, RunError):
            raise
        raise RunError(f"{path} is not a run's record ({e}).") from None
    return Record(about, snapshots)


def _check(about: Json, snapshot: Json) -> None:
    """Raises if a snapshot does not match the header."""
    if not all(isinstance(snapshot[name], int) for name in ("episode", "steps")):
        raise ValueError("a snapshot has no moment")
    layers = about["map"]["layers"] if about["map"] else {}
    for name, shape in layers.items():
        if unpacked(snapshot["maps"][name]).shape != tuple(shape):
            raise ValueError(f"{name} has another shape")
