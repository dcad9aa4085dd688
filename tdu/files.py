"""Files of runs: reading that is bounded, writing that is atomic and follows no link, checksums, unused names."""

import errno
import hashlib
import json
import os
import secrets
import stat
import tempfile
from pathlib import Path
from typing import Any, BinaryIO, cast

Json = dict[str, Any]
"""A JSON object."""

_PIECE = 2**20
_MAX_JSON = 2**26  # Largest JSON file that is read
_MAX_DEPTH = 32  # Deepest nesting of JSON that is read
_SAFELY = os.O_NONBLOCK | os.O_CLOEXEC
WRITING = ".writing-"
"""What the names of temporary files and folders contain."""


def open_regular(path: Path) -> BinaryIO:
    """Opens a file for reading. Anything but a regular file is an OSError: a pipe or a device may have no end."""
    return open(_regular(os.open(path, os.O_RDONLY | _SAFELY), path), "rb")


def open_own(path: Path, *, append: bool = False, create: bool = True) -> BinaryIO:
    """Opens a regular file for writing, unbuffered. A symbolic link is an OSError."""
    flags = os.O_RDWR | os.O_NOFOLLOW | _SAFELY | (os.O_CREAT if create else 0) | (os.O_APPEND if append else 0)
    try:
        descriptor = os.open(path, flags, 0o666)
    except OSError as e:
        if e.errno == errno.ELOOP:
            raise OSError(e.errno, "it is a symbolic link", str(path)) from None
        raise
    return cast(BinaryIO, open(_regular(descriptor, path), "r+b", buffering=0))


def _regular(descriptor: int, path: Path) -> int:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return descriptor


def read_bytes(path: Path, limit: int) -> bytes:
    """The content of a regular file. A larger one is an OSError."""
    with open_regular(path) as f:
        if os.fstat(f.fileno()).st_size > limit:
            raise OSError(errno.EFBIG, f"it is larger than {limit:,} bytes", str(path))
        return f.read()


def read_json(path: Path) -> Json:
    """The JSON object in a file; an OSError or a ValueError if there is none."""
    return parsed_json(read_bytes(path, _MAX_JSON))


def parsed_json(text: bytes) -> Json:
    """A JSON object. Anything else, and very deep nesting, is a ValueError."""
    try:
        content = json.loads(text)
    except RecursionError:
        content = None
    if not isinstance(content, dict) or not _is_shallow(content, _MAX_DEPTH):
        raise ValueError("it is not a table in JSON")
    return content


def _is_shallow(content: object, depth: int) -> bool:
    inner = content.values() if isinstance(content, dict) else content if isinstance(content, list) else ()
    return depth > 0 and all(_is_shallow(one, depth - 1) for one in inner)


def write_flushed(path: Path, data: bytes) -> None:
    """Writes a new file and flushes it to the disk."""
    with open(path, "xb") as f:
        f.write(data)
        f.flush()
        os.fsync(f.fileno())


def write_atomically(path: Path, data: bytes) -> None:
    """Replaces a file as a whole: a reader sees the old one or the new one, also after a crash. A link is replaced too."""
    temporary = path.with_name(f".{path.name[:50]}{WRITING}{secrets.token_hex(8)}")
    try:
        write_flushed(temporary, data)
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    flush_folder(path.parent)


def try_to_write(folder: Path) -> None:
    """Raises an OSError if no file can be written there. It leaves nothing behind."""
    with tempfile.TemporaryFile(dir=folder):
        pass


def flush_folder(folder: Path) -> None:
    """Flushes a folder's entries to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256(path: Path, *, upto: int | None = None) -> tuple[int, str]:
    """A file's length and checksum; with `upto`, of its first bytes only. It is read in pieces."""
    digest, count = hashlib.sha256(), 0
    with open_regular(path) as f:
        while piece := f.read(_PIECE if upto is None else min(_PIECE, upto - count)):
            digest.update(piece)
            count += len(piece)
    return count, digest.hexdigest()


def unused(path: Path) -> Path:
    """`path`, or the first of path-2, path-3 … that does not exist."""
    chosen, number = path, 1
    while os.path.lexists(chosen):
        number += 1
        chosen = path.with_name(f"{path.name}-{number}")
    return chosen
