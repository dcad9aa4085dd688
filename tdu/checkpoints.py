"""Checkpoints: a pytree of arrays in a safetensors file beside a JSON manifest with checksums. No pickle anywhere.

A checkpoint is a folder that appears whole or not at all: it is written under another name, flushed to the disk and then
renamed. The last two are kept, so that a damaged one can be told from its checksums and passed over.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from tdu.errors import RunError

KEPT = 2
_FORMAT = 2
_WRITING = ".writing-"


def save(folder: Path, step: int, arrays: Any, manifest: dict[str, Any]) -> None:
    """Writes checkpoint number `step` and removes all but the last `KEPT`."""
    folder.mkdir(exist_ok=True)
    for left_over in folder.glob(f"{_WRITING}*"):
        shutil.rmtree(left_over)
    data = save_tensors({name: np.asarray(x) for name, x in _named(arrays)})
    manifest = manifest | {"format": _FORMAT, "step": step, "bytes": len(data), "sha256": _sha256(data)}
    manifest["manifest_sha256"] = _sha256(_canonical(manifest))
    writing = folder / f"{_WRITING}{step:012d}"
    final = folder / f"{step:012d}"
    try:
        writing.mkdir()
        write_flushed(writing / "state.safetensors", data)
        write_flushed(writing / "manifest.json", _canonical(manifest))
        if final.exists():
            shutil.rmtree(final)
        os.rename(writing, final)
    except OSError:
        shutil.rmtree(writing, ignore_errors=True)
        raise
    flush_folder(folder)
    for old in sorted(_finished(folder))[:-KEPT]:
        shutil.rmtree(old)


def load_latest(
    folder: Path,
    like: Any,
    fits: Callable[[dict[str, Any]], str | None],
    say: Callable[[str], None],
    *,
    set_aside: bool = False,
) -> tuple[Any, dict[str, Any]] | None:
    """The newest checkpoint that is whole and of this run; None if there is none at all.

    Args:
        like: a pytree of arrays with the structure, shapes and types to expect.
        fits: what is wrong with a manifest, or None.
        say: told of every checkpoint that is passed over, and why.
        set_aside: rename those, so that they are neither tried again nor counted among the last.

    Raises:
        RunError: if there are checkpoints and none can be used.
    """
    passed_over: dict[Path, str] = {}
    for path in sorted(_finished(folder), reverse=True):
        try:
            found = _load(path, like, fits)
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as e:
            passed_over[path] = str(e)
            continue
        for bad, why in passed_over.items():
            say(f"checkpoint {bad.name} cannot be used ({why}); going on from {path.name}.")
            if set_aside:
                bad.rename(_unused(bad.with_name(f"{bad.name}.damaged")))
        return found
    if passed_over:
        why = next(iter(passed_over.values()))
        raise RunError(
            f"none of the checkpoints in {folder} can be used ({why}); move the folder away and start again."
        )
    return None


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


def _load(path: Path, like: Any, fits: Callable[[dict[str, Any]], str | None]) -> tuple[Any, dict[str, Any]]:
    manifest = json.loads((path / "manifest.json").read_text())
    if not isinstance(manifest, dict):
        raise ValueError("its manifest is none")
    claimed = manifest.pop("manifest_sha256")
    if _sha256(_canonical(manifest)) != claimed:
        raise ValueError("its manifest was changed")
    if manifest["format"] != _FORMAT:
        raise ValueError(f"its format is {manifest['format']}, not {_FORMAT}")
    if problem := fits(manifest):
        raise ValueError(problem)
    data = (path / "state.safetensors").read_bytes()
    if len(data) != manifest["bytes"] or _sha256(data) != manifest["sha256"]:
        raise ValueError("its data do not have the manifest's checksum")
    tensors = load_tensors(data)
    leaves = []
    for name, expected in _named(like):
        found = tensors.get(name)
        if found is None:
            raise ValueError(f"it has no {name}; another version of tdu made it")
        if found.shape != expected.shape or found.dtype != expected.dtype:
            raise ValueError(f"{name} is {found.dtype}{found.shape}, not {expected.dtype}{expected.shape}")
        leaves.append(found)
    return jax.tree.unflatten(jax.tree.structure(like), leaves), manifest


def _unused(path: Path) -> Path:
    number = 1
    while path.exists():
        number += 1
        path = path.with_name(f"{path.name}-{number}")
    return path


def _finished(folder: Path) -> list[Path]:
    return [p for p in folder.glob("*") if p.name.isdigit()] if folder.is_dir() else []


def _named(tree: Any) -> list[tuple[str, Any]]:
    return [(jax.tree_util.keystr(path), x) for path, x in jax.tree_util.tree_leaves_with_path(tree)]


def _canonical(manifest: dict[str, Any]) -> bytes:
    return json.dumps(manifest, sort_keys=True, indent=1).encode()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
