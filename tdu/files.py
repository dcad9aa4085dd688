"""Atomic and flushed writes, checksums, and unused names."""

import hashlib
import os
from pathlib import Path

_PIECE = 2**20


def write_flushed(path: Path, data: bytes) -> None:
    """Writes a file and flushes it to the disk."""
    with open(path, "wb") as f:
        f.write(data)
        f.flush()
        os.fsync(f.fileno())


def write_atomically(path: Path, data: bytes) -> None:
    """Replaces a file as a whole: a reader sees the old one or the new one, also after a crash."""
    temporary = path.with_name(f".{path.name}.writing")
    try:
        write_flushed(temporary, data)
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    flush_folder(path.parent)


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
    with open(path, "rb") as f:
        while piece := f.read(_PIECE if upto is None else min(_PIECE, upto - count)):
            digest.update(piece)
            count += len(piece)
    return count, digest.hexdigest()


def unused(path: Path) -> Path:
    """`path`, or the first of path-2, path-3 … that does not exist."""
    chosen, number = path, 1
    while chosen.exists():
        number += 1
        chosen = path.with_name(f"{path.name}-{number}")
    return chosen
