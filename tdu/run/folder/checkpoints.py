"""Checkpoints: a run's arrays in safetensors files beside a JSON manifest with checksums. No pickle anywhere.

    manifest.json               step, plain values, and the length and checksum of every file
    state-FIELD.safetensors     one for every top-level field of the state
    arrays.safetensors          arrays of any length
    segment-NAME.safetensors    data too large for memory; linked if the last checkpoint has the same segment

A checkpoint appears whole or not at all: it is written under another name, flushed to the disk and then renamed. The last
two are kept, so that a damaged one, found by its checksums, can be skipped. Arrays are written and read one at a time, so
that a checkpoint needs little memory beside the state itself.
"""

import dataclasses
import hashlib
import itertools
import json
import os
import re
import secrets
import shutil
import struct
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open

from tdu import files
from tdu.errors import RunError
from tdu.files import Json
from tdu.run.folder.log import Stamp
from tdu.run.folder.records import canonical
from tdu.run.runners.protocol import Gone, Saved

_KEPT = 2
_FORMAT = 6
_MANIFEST = "manifest.json"
_ARRAYS = "arrays.safetensors"
_MOST = 2**53  # largest number in a manifest
_NAME = re.compile(r"\d{12,13}", re.ASCII)  # names of complete checkpoints
_SEGMENT = re.compile(r"segment-([^/]+)\.safetensors")
_OURS = re.compile(r"manifest\.json|(state-\w+|arrays|segment-[^/]+)\.safetensors")
"""Names of the files of a checkpoint."""

Say = Callable[[str], None]
T = TypeVar("T")
Leaf = Any
"""A JAX or NumPy array."""


@dataclass(frozen=True)
class Manifest:
    """The content of manifest.json."""

    format: int
    step: int
    run: Json
    """The config of the run that it belongs to."""
    seconds: float
    """Time spent running."""
    plain: Json
    log: Stamp
    other_logs: dict[str, Stamp]
    """By file name."""
    parts: dict[str, Stamp]
    """The other files, by name."""
    versions: list[dict[str, str]]
    """Of packages, in the order in which the run used them."""

    @classmethod
    def read(cls, path: Path) -> "Manifest":
        """A manifest from its file; raises ValueError if it is not one."""
        content = files.read_json(path)
        claimed = content.pop("manifest_sha256", None)
        if hashlib.sha256(canonical(content)).hexdigest() != claimed:
            raise ValueError("its manifest was changed")
        if content.get("format") != _FORMAT:
            raise ValueError(
                f"another version of tdu wrote it, in format {content.get('format')}; this one reads format {_FORMAT}"
            )
        content["log"] = Stamp(**content["log"])
        for several in ("other_logs", "parts"):
            content[several] = {name: Stamp(**stamp) for name, stamp in content[several].items()}
        manifest = cls(**content)
        stamps = (manifest.log, *manifest.other_logs.values(), *manifest.parts.values())
        if not all(0 <= number <= _MOST for number in (manifest.step, manifest.seconds, *(s.bytes for s in stamps))):
            raise ValueError("a number in its manifest is out of range")
        if not all(map(_OURS.fullmatch, manifest.parts)):
            raise ValueError("its manifest lists unknown files")
        texts = [text for of_packages in manifest.versions for text in (*of_packages, *of_packages.values())]
        if not texts or not all(isinstance(text, str) for text in texts):
            raise ValueError("its manifest has no versions")
        return manifest

    def sha256(self) -> str:
        return hashlib.sha256(canonical(self._content())).hexdigest()

    def write(self, path: Path) -> None:
        files.write_flushed(path, canonical(self._content() | {"manifest_sha256": self.sha256()}))

    def _content(self) -> Json:
        content = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        content["log"] = self.log._asdict()
        for several, stamps in (("other_logs", self.other_logs), ("parts", self.parts)):
            content[several] = {name: stamp._asdict() for name, stamp in stamps.items()}
        return content


ReasonAgainst = Callable[[Manifest], str | None]
"""The reason why a manifest cannot be used, or None."""


def save(
    folder: Path,
    saved: Saved,
    *,
    step: int,
    run: Json,
    seconds: float,
    log: Stamp,
    other_logs: dict[str, Stamp],
    versions: list[dict[str, str]],
) -> Manifest:
    """Writes the checkpoint of a step."""
    folder.mkdir(exist_ok=True)
    for left_over in folder.glob(f"{files.WRITING}*"):
        _delete(left_over)
    unfinished = folder / f"{files.WRITING}{secrets.token_hex(8)}"
    final = folder / f"{step:012d}"
    replaced = None
    try:
        unfinished.mkdir()
        parts = {
            name: _write_tensors(unfinished / name, leaves)
            for name, leaves in (_state_parts(saved.state) | {_ARRAYS: saved.arrays}).items()
        }
        parts |= _write_segments(folder, unfinished, saved.segments)
        manifest = Manifest(
            format=_FORMAT,
            step=step,
            run=run,
            seconds=seconds,
            plain=saved.plain,
            log=log,
            other_logs=other_logs,
            parts=parts,
            versions=versions,
        )
        manifest.write(unfinished / _MANIFEST)
        files.flush_folder(unfinished)
        if final.exists() and _can_delete(final):
            os.rename(final, replaced := folder / f"{files.WRITING}{secrets.token_hex(8)}")
        os.rename(unfinished, final)
        if replaced is not None:
            _delete(replaced)
    except (OSError, Gone):
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    files.flush_folder(folder)
    return manifest


def delete_old(folder: Path) -> None:
    for old in _finished(folder)[:-_KEPT]:
        _delete(old)


def delete_all_but_best(best: Path, folder: Path) -> None:
    """Deletes the best agents that no checkpoint in `folder` needs. A checkpoint needs the last one up to its step."""
    saved = _finished(best)
    needed = {path for one in _finished(folder) for path in [p for p in saved if int(p.name) <= int(one.name)][-1:]}
    for old in {*saved[:-1]} - needed:
        _delete(old)


def delete_after(folder: Path, step: int) -> None:
    for path in _finished(folder):
        if int(path.name) > step:
            _delete(path)


def _delete(path: Path) -> None:
    if _can_delete(path):
        shutil.rmtree(path)


def _can_delete(path: Path) -> bool:
    """Whether a folder is a checkpoint and nothing else. A link, and a folder that holds anything else, is left alone."""
    return not path.is_symlink() and all(map(_OURS.fullmatch, os.listdir(path)))


def load_latest(
    folder: Path, like: Saved, reason_against: ReasonAgainst, say: Say, *, set_aside: bool = False
) -> tuple[Saved, Manifest] | None:
    """The newest usable checkpoint; None if there are none, and RunError if there are some and none can be used.

    `like` is a state of the same structure, shapes and types. `say` gets the reason for every checkpoint that is skipped;
    with `set_aside` it is renamed, so that it is not tried again.
    """
    return _latest(folder, lambda path: _load(path, like, reason_against), say, set_aside=set_aside)


def latest_manifest(folder: Path, reason_against: ReasonAgainst, say: Say) -> Manifest | None:
    """The manifest of `load_latest`, without reading the arrays."""
    return _latest(folder, lambda path: _manifest(path, reason_against), say, set_aside=False)


def verify(folder: Path, reason_against: ReasonAgainst) -> None:
    """Raises RunError if there are checkpoints and none of them matches its checksums."""
    _latest(folder, lambda path: _verified(path, reason_against), lambda words: None, set_aside=False)


def load_step(folder: Path, step: int, like: Saved, reason_against: ReasonAgainst) -> tuple[Saved, Manifest]:
    """The checkpoint of one step; raises RunError with the reason if it cannot be used."""
    try:
        return _load(folder / f"{step:012d}", like, reason_against)
    except _UNUSABLE as e:
        raise RunError(_reason(e)) from None


_UNUSABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, SafetensorError)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{Path(error.filename).name}: {(error.strerror or str(error)).lower()}"
    return str(error)


def _latest(folder: Path, use: Callable[[Path], T], say: Say, *, set_aside: bool) -> T | None:
    skipped: dict[Path, str] = {}
    for path in reversed(_finished(folder)):
        try:
            loaded = use(path)
        except _UNUSABLE as e:
            skipped[path] = _reason(e)
            continue
        for bad, why in skipped.items():
            say(f"checkpoint {bad.name} cannot be used ({why}); continuing from {path.name}.")
            if set_aside:
                bad.rename(files.unused(bad.with_name(f"{bad.name}.damaged")))
        return loaded
    if skipped:
        why = next(iter(skipped.values()))
        raise RunError(
            f"none of the checkpoints in {folder} can be used ({why}); move the folder away and start again."
        )
    return None


def _manifest(path: Path, reason_against: ReasonAgainst) -> Manifest:
    manifest = Manifest.read(path / _MANIFEST)
    if manifest.step != int(path.name):
        raise ValueError(f"its manifest is that of step {manifest.step}")
    if reason := reason_against(manifest):
        raise ValueError(reason)
    return manifest


def _verified(path: Path, reason_against: ReasonAgainst) -> Manifest:
    """The manifest of a checkpoint whose files match their checksums; segments are verified when they are read."""
    manifest = _manifest(path, reason_against)
    for name, stamp in manifest.parts.items():
        if not _SEGMENT.fullmatch(name) and files.sha256(path / name) != stamp:
            raise ValueError("its data do not match the manifest's checksum")
    return manifest


def _load(path: Path, like: Saved, reason_against: ReasonAgainst) -> tuple[Saved, Manifest]:
    manifest = _verified(path, reason_against)
    segments = {found[1]: name for name in manifest.parts if (found := _SEGMENT.fullmatch(name))}
    leaves: dict[str, Leaf] = {}
    for name, expected in _state_parts(like.state).items():
        if name not in manifest.parts:
            raise ValueError(f"it has no {name}; another version of tdu wrote it")
        with safe_open(path / name, framework="numpy") as tensors:
            there = set(tensors.keys())
            for leaf_name, leaf in expected.items():
                if leaf_name not in there:
                    raise ValueError(f"it has no {leaf_name}; another version of tdu wrote it")
                leaves[leaf_name] = _as_leaf(leaf_name, tensors.get_tensor(leaf_name), leaf)
    with safe_open(path / _ARRAYS, framework="numpy") as tensors:
        arrays = {name: tensors.get_tensor(name) for name in tensors.keys()}  # noqa: SIM118 (not a dictionary)
    state = jax.tree_util.tree_map_with_path(lambda path, _: leaves[jax.tree_util.keystr(path)], like.state)
    reading = {name: partial(_read_segment, path / file, manifest.parts[file]) for name, file in segments.items()}
    return Saved(state, arrays, manifest.plain, reading), manifest


def _write_segments(
    folder: Path, unfinished: Path, segments: Mapping[str, Callable[[], dict[str, np.ndarray]]]
) -> dict[str, Stamp]:
    """Writes segments; one that the last checkpoint has is linked."""
    before = next(reversed(_finished(folder)), None)
    try:
        known = Manifest.read(before / _MANIFEST).parts if before is not None and segments else {}
    except _UNUSABLE:
        known = {}
    stamps = {}
    for name, read in segments.items():
        file = f"segment-{name}.safetensors"
        if before is not None and file in known:
            try:
                os.link(before / file, unfinished / file)
                stamps[file] = known[file]
                continue
            except OSError:
                pass  # the file was deleted, or the file system has no links
        stamps[file] = _write_tensors(unfinished / file, read())
    return stamps


def _read_segment(path: Path, stamp: Stamp) -> dict[str, np.ndarray]:
    """A segment's arrays; raises RunError if it is damaged. Other segments can still be used."""
    try:
        if files.sha256(path) != stamp:
            raise ValueError("it does not match the manifest's checksum")
        with safe_open(path, framework="numpy") as tensors:
            return {name: tensors.get_tensor(name) for name in tensors.keys()}  # noqa: SIM118 (not a dictionary)
    except _UNUSABLE as e:
        raise RunError(_reason(e)) from None


def _state_parts(state: Any) -> dict[str, dict[str, Leaf]]:
    parts: dict[str, dict[str, Leaf]] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(state):
        field = re.sub(r"\W", "", jax.tree_util.keystr(path[:1])) or "whole"
        parts.setdefault(f"state-{field}.safetensors", {})[jax.tree_util.keystr(path)] = leaf
    return parts


_TYPES = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "uint16": "U16", "int16": "I16", "uint32": "U32", "int32": "I32",
    "uint64": "U64", "int64": "I64", "float16": "F16", "bfloat16": "BF16", "float32": "F32", "float64": "F64",
}  # fmt: skip
"""Names of types: NumPy's and safetensors'."""


def _write_tensors(path: Path, leaves: dict[str, Leaf]) -> Stamp:
    """Writes a safetensors file, one array at a time: the header's length in 8 bytes, the JSON header, the numbers."""
    header, end = {}, 0
    for name, leaf in leaves.items():
        raw = _raw(leaf)
        begin, end = end, end + raw.size * raw.dtype.itemsize
        header[name] = {"dtype": _TYPES[raw.dtype.name], "shape": list(raw.shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    digest, count = hashlib.sha256(), 0
    begun: list[bytes | memoryview] = [struct.pack("<Q", len(text)), text]
    with open(path, "wb") as f:
        for piece in itertools.chain(begun, map(_little_endian, leaves.values())):
            f.write(piece)
            digest.update(piece)
            count += len(piece)
        f.flush()
        os.fsync(f.fileno())
    return Stamp(count, digest.hexdigest())


def _raw(leaf: Leaf) -> Leaf:
    """An array as it is stored; a JAX key as its numbers."""
    is_key = isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    raw = jax.random.key_data(leaf) if is_key else leaf
    return raw if isinstance(raw, jax.Array) else np.asarray(raw)


def _little_endian(leaf: Leaf) -> memoryview:
    x = np.ascontiguousarray(_raw(leaf)).reshape(-1)
    if x.dtype.byteorder == (">" if sys.byteorder == "little" else "="):
        x = x.byteswap()
    return x.view(np.uint8).data


def _as_leaf(name: str, stored: np.ndarray, expected: Leaf) -> Leaf:
    """A stored array; raises ValueError if its shape or type is not the expected one."""
    raw = _raw(expected)
    if stored.shape != raw.shape or stored.dtype.name != raw.dtype.name:
        raise ValueError(f"{name} is {stored.dtype}{stored.shape}, not {raw.dtype}{raw.shape}")
    if raw is not expected and isinstance(expected, jax.Array):
        return jax.random.wrap_key_data(jnp.asarray(stored), impl=jax.random.key_impl(expected))
    return stored


def _finished(folder: Path) -> list[Path]:
    """The complete checkpoints, oldest first; none if there is no such folder. One out of reach is an error."""
    try:
        names = os.listdir(folder)
    except OSError as e:
        if isinstance(e, FileNotFoundError) and not folder.is_symlink():
            return []
        raise RunError(f"{folder} cannot be read ({e.strerror}); is its disk mounted?") from None
    return [p for name in sorted(filter(_NAME.fullmatch, names), key=int) if _is_checkpoint(p := folder / name)]


def _is_checkpoint(path: Path) -> bool:
    """Whether a folder with the name of a checkpoint is one, perhaps damaged, and not somebody's own folder."""
    try:
        names = os.listdir(path)
    except OSError as e:
        return not isinstance(e, NotADirectoryError)
    return _MANIFEST in names or all(map(_OURS.fullmatch, names))
