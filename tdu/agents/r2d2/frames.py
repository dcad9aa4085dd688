"""Storage of observations in blocks of consecutive steps, each observation once.

Overlapping sequences share blocks. Of a stack of frames ([H, W, C], as in Atari) only the newest is stored, and the whole
stack where it does not continue the one before, byte by byte. Complete blocks can be compressed (zlib). Between processes
stacks are sent in the same form (`PackedStacks`): a stack of four takes about a quarter of the bytes.
"""

import math
import zlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tdu.types import EnvSpec

_LEVEL = 1
"""Level of zlib: the fastest. Higher levels save little on game frames."""

COMPRESSED_TO = 0.25
"""Share that compressed frames are expected to take; most games take far less."""


class PackedStacks(NamedTuple):
    """Stacks of frames [T, B, H, W, C] with every frame once."""

    newest: np.ndarray
    """[T, B, H, W]."""
    begins: np.ndarray
    """[n, 2] of int32: step and row of the stacks that do not continue the one before them."""
    older: np.ndarray
    """[n, H, W, C − 1]: their older frames."""


def pack(stacks: np.ndarray) -> PackedStacks:
    """Stacks [T, B, H, W, C] in the form in which they are sent."""
    begins = [
        (step, row)
        for row in range(stacks.shape[1])
        for step in range(len(stacks))
        if step == 0 or not _continues(stacks[step, row], stacks[step - 1, row])
    ]
    older = np.stack([stacks[at][..., :-1] for at in begins])
    return PackedStacks(np.ascontiguousarray(stacks[..., -1]), np.array(begins, np.int32), older)


def unpack(packed: PackedStacks) -> np.ndarray:
    """The stacks [T, B, H, W, C] of their packed form."""
    stacks = np.empty((*packed.newest.shape, packed.older.shape[-1] + 1), packed.newest.dtype)
    older: list[dict[int, np.ndarray]] = [{} for _ in range(stacks.shape[1])]
    for (step, row), frames in zip(packed.begins.tolist(), packed.older, strict=True):
        older[row][step] = frames
    for row, by_step in enumerate(older):
        _put_together(stacks[:, row], packed.newest[:, row], by_step.get)
    return stacks


class Frames:
    """Room for `blocks` blocks of `period` observations."""

    def __init__(self, spec: EnvSpec, *, blocks: int, period: int, compress: bool):
        shape, self._dtype = spec.carried_shape, np.dtype(spec.carried_dtype)
        self._stacked = spec.is_stacked
        self._shape, self._period, self._compress = shape, period, compress
        self._frame = shape[:2] if self._stacked else shape
        self._slab = None if compress else np.zeros((blocks, period, *self._frame), self._dtype)
        self._open: dict[int, np.ndarray] = {}
        """Incomplete blocks, where complete ones are compressed."""
        self._packed: dict[int, bytes] = {}
        self._older: dict[tuple[int, int], np.ndarray] = {}
        """Older frames of a stack that does not continue the one before, by block and step."""

    def write(self, block: int, at: int, observations: np.ndarray) -> None:
        """Writes observations [n, …] at steps at … at + n − 1 of a block, after its earlier steps."""
        count = len(observations)
        frames = self._writable(block)
        if self._stacked:
            before = self.read(block, at)[-1] if at else None
            for i, stack in enumerate(observations):
                if before is None or not _continues(stack, before):
                    self._older[block, at + i] = stack[..., :-1].copy()
                before = stack
            observations = observations[..., -1]
        frames[at : at + count] = observations
        if self._compress and at + count == self._period:
            self._packed[block] = zlib.compress(self._open.pop(block).tobytes(), _LEVEL)

    def read(self, block: int, count: int) -> np.ndarray:
        """The first `count` observations of a block."""
        if not self._stacked:
            return self._readable(block)[:count]
        stacks = np.empty((count, *self._shape), self._dtype)
        self._read_into(stacks, block)
        return stacks

    def read_many(self, blocks: np.ndarray, length: int) -> np.ndarray:
        """The first `length` steps of blocks [B, n], one after the other, as [length, B, …]."""
        if self._slab is not None and not self._stacked:
            rows = self._slab[blocks].reshape(len(blocks), -1, *self._shape)[:, :length]
            return np.ascontiguousarray(rows.swapaxes(0, 1))
        found = np.empty((length, len(blocks), *self._shape), self._dtype)
        for row, numbers in enumerate(blocks.tolist()):
            for i, block in enumerate(numbers):
                self._read_into(found[i * self._period : (i + 1) * self._period, row], block)
        return found

    def read_packed(self, blocks: np.ndarray, length: int) -> PackedStacks:
        """The same as packed stacks."""
        newest = np.empty((length, len(blocks), *self._frame), self._dtype)
        begins, older = [], []
        for row, numbers in enumerate(blocks.tolist()):
            for i, block in enumerate(numbers):
                at = i * self._period
                steps = min(self._period, length - at)
                newest[at : at + steps, row] = self._readable(block)[:steps]
                for step in range(steps):
                    frames = self._older.get((block, step))
                    if frames is not None:
                        begins.append((at + step, row))
                        older.append(frames)
        return PackedStacks(newest, np.array(begins, np.int32), np.stack(older))

    def _read_into(self, found: np.ndarray, block: int) -> None:
        """Fills [n, …], whose rows are contiguous, with a block's first n observations."""
        frames = self._readable(block)
        if not self._stacked:
            found[:] = frames[: len(found)]
            return
        _put_together(found, frames, lambda step: self._older.get((block, step)))

    def forget(self, block: int) -> None:
        self._packed.pop(block, None)
        self._open.pop(block, None)
        if self._stacked:
            for step in range(self._period):
                self._older.pop((block, step), None)

    def save(self, used: int) -> dict[str, np.ndarray]:
        """Arrays by name, large ones not copied; the first `used` blocks."""
        arrays = {} if self._slab is None else {"slab": self._slab[:used]}
        arrays |= {f"open.{block}": x for block, x in self._open.items()}
        arrays |= {f"packed.{block}": np.frombuffer(data, np.uint8) for block, data in self._packed.items()}
        arrays |= {f"older.{block}.{step}": x for (block, step), x in self._older.items()}
        return arrays

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Restores what `save` returned, and removes it from `arrays` on the way to save memory."""
        for name in list(arrays):
            x = arrays.pop(name)
            kind, _, place = name.partition(".")
            if kind == "slab" and self._slab is not None:
                self._slab[: len(x)] = x
            elif kind == "open":
                self._open[int(place)] = np.array(x)
            elif kind == "packed":
                self._packed[int(place)] = x.tobytes()
            else:
                block, _, step = place.partition(".")
                self._older[int(block), int(step)] = np.array(x)

    def _writable(self, block: int) -> np.ndarray:
        if self._slab is not None:
            return self._slab[block]
        if block not in self._open:
            self._open[block] = np.zeros((self._period, *self._frame), self._dtype)
        return self._open[block]

    def _readable(self, block: int) -> np.ndarray:
        if self._slab is not None:
            return self._slab[block]
        if block in self._packed:
            flat = np.frombuffer(zlib.decompress(self._packed[block]), self._dtype)
            return flat.reshape(self._period, *self._frame)
        return self._open[block]


def _put_together(stacks: np.ndarray, newest: np.ndarray, older: Callable[[int], np.ndarray | None]) -> None:
    """Fills stacks [n, H, W, C] from the newest frame of each, and the older ones of stacks that do not continue another."""
    for step, stack in enumerate(stacks):
        frames = older(step)
        if frames is None:  # all bytes of the stack before, one place forward; the last frame is overwritten
            stack.reshape(-1)[:-1] = stacks[step - 1].reshape(-1)[1:]
        else:
            stack[..., :-1] = frames
        stack[..., -1] = newest[step]


def _continues(stack: np.ndarray, before: np.ndarray) -> bool:
    """Whether a stack [H, W, C] shares its older frames with the one before: the same bytes, one place forward."""
    differs = stack.reshape(-1)[:-1] != before.reshape(-1)[1:]
    frames = stack.shape[-1]
    differs[frames - 1 :: frames] = False
    return not differs.any()


def block_bytes(spec: EnvSpec, period: int, *, compress: bool) -> float:
    """Memory of one block; a block of stacks begins with a whole stack."""
    size: float = math.prod(spec.carried_shape) * np.dtype(spec.carried_dtype).itemsize
    if spec.is_stacked:
        older = spec.observation_shape[2] - 1
        size = size / spec.observation_shape[2] * (period + older)
    else:
        size *= period
    return size * (COMPRESSED_TO if compress else 1.0)
