"""Files that are whole or not there: atomic and flushed writes, checksums of any length, names that are free."""

import hashlib
import os
from pathlib import Path

_PIECE = 2**20


def write_flushed(path: Path, data: bytes) -> None:
    """Writes a file and waits until the disk has it."""
    with open(path, "wb") as f:
        f.write(data)
        f.flush()
        os.fsync(f.fileno())


def write_atomically(path: Path, data: bytes) -> None:
    """Replaces a file as a whole: a reader, or a crash, sees the old one or the new one."""
    temporary = path.with_name(f".{path.name}.writing")
    try:
        write_flushed(temporary, data)
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    flush_folder(path.parent)


def flush_folder(folder: Path) -> None:
    """Waits until the disk has the folder's entries."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256(path: Path, *, upto: int | None = None) -> tuple[int, str]:
    """How many bytes a file has and their checksum; with `upto`, of its first bytes only. It is read piece by piece."""
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
