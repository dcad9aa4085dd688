"""Steps of experience as plain records, and the overlapping sequences that are cut from them.

A stream is all that one environment gives, episode after episode. A sequence is a piece of it of fixed length and may hold
the end of one episode and the beginning of the next: `first` says where, and there the network forgets everything. An end of
the task has discount 0, so that nothing after it counts. An episode that is only cut off (by a time limit) is followed by its
true last observation as a step of its own, which is not valid: its value is bootstrapped from, and nothing is learned on it.
"""

from typing import Any, NamedTuple

import jax
import numpy as np

from tdu.types import EnvSpec


class Steps(NamedTuple):
    """Consecutive steps of a stream, [n, …] each; or of a batch of sequences, [T, B, …]."""

    observation: Any
    previous_action: Any
    """int32; −1 where an episode begins."""
    previous_reward: Any
    """float32; 0 where an episode begins."""
    first: Any
    """bool, whether an episode begins here."""
    action: Any
    """int32, taken here."""
    reward: Any
    """float32, which it gave."""
    discount: Any
    """float32, 0 where the task ended with it."""
    valid: Any
    """bool, whether there is anything to learn here: not where the observation is the last of an episode that was cut off."""


class Sequence(NamedTuple):
    """A piece of a stream as it is stored: plain NumPy arrays, whoever made it."""

    stream: int
    """Which stream; sequences of one stream share their frames."""
    start: int
    """Number of its first step in the stream."""
    steps: Steps
    """[L + 1, …]: what is learned from, and one more to bootstrap from."""
    memory: Any
    """What the network remembered before the first step, a pytree without batch axis."""
    mask: np.ndarray
    """[H] of float32: which heads learn from it."""


class Shape(NamedTuple):
    """How sequences are cut."""

    burn_in: int
    """Steps that only bring the memory up to date."""
    trace: int
    """Steps that are learned from."""
    period: int
    """Steps between the starts of two sequences."""

    @property
    def length(self) -> int:
        """Steps in a sequence, with the one to bootstrap from."""
        return self.burn_in + self.trace + 1

    @property
    def blocks(self) -> int:
        """Pieces of `period` steps that a sequence touches."""
        return -(-self.length // self.period)


def nothing(spec: EnvSpec, count: int) -> Steps:
    """Room for so many steps."""
    return Steps(
        observation=np.zeros((count, *spec.carried_shape), spec.carried_dtype),
        previous_action=np.full(count, -1, np.int32),
        previous_reward=np.zeros(count, np.float32),
        first=np.zeros(count, bool),
        action=np.zeros(count, np.int32),
        reward=np.zeros(count, np.float32),
        discount=np.ones(count, np.float32),
        valid=np.zeros(count, bool),
    )


class Piece(NamedTuple):
    """Something cut from a stream, before a mask is drawn for it."""

    start: int
    steps: Steps
    memory: Any


class Writer:
    """Cuts one stream into sequences."""

    def __init__(self, shape: Shape, memory: Any):
        """`memory` is what is remembered before the stream's first step."""
        self._shape = shape
        self._start = 0
        """Number of the first step that is held."""
        self._held: Steps | None = None
        self._before = jax.tree.map(lambda x: np.asarray(x)[None], memory)
        """What was remembered before each step that is held, and after the last, [n + 1, …]."""

    def extend(self, steps: Steps, memory: Any) -> list[Piece]:
        """Takes the stream's next steps [n, …], with what was remembered after each; the sequences that are whole now."""
        held = steps if self._held is None else _joined(self._held, steps)
        before = _joined(self._before, memory)
        pieces, at = [], 0
        while at + self._shape.length <= len(held.action):
            piece = jax.tree.map(lambda x, at=at: x[at : at + self._shape.length].copy(), held)
            pieces.append(Piece(self._start + at, piece, jax.tree.map(lambda x, at=at: x[at].copy(), before)))
            at += self._shape.period
        self._held = jax.tree.map(lambda x: x[at:].copy(), held)
        self._before = jax.tree.map(lambda x: x[at:].copy(), before)
        self._start += at
        return pieces

    def save(self) -> tuple[dict[str, np.ndarray], int]:
        """What is held, as arrays by name, and the number of its first step."""
        arrays = {f"memory.{i}": x for i, x in enumerate(jax.tree.leaves(self._before))}
        if self._held is not None:
            arrays |= {f"steps.{name}": x for name, x in self._held._asdict().items()}
        return arrays, self._start

    def restore(self, arrays: dict[str, np.ndarray], start: int) -> None:
        """Puts back what `save` gave."""
        leaves = [arrays[f"memory.{i}"] for i in range(len(jax.tree.leaves(self._before)))]
        self._before = jax.tree.unflatten(jax.tree.structure(self._before), leaves)
        there = all(f"steps.{name}" in arrays for name in Steps._fields)
        self._held = Steps(**{name: arrays[f"steps.{name}"] for name in Steps._fields}) if there else None
        self._start = start


def _joined(a: Any, b: Any) -> Any:
    return jax.tree.map(lambda x, y: np.concatenate([x, np.asarray(y)]), a, b)
