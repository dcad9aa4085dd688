"""Prioritised replay of sequences, on the host (Schaul et al., 2016; Kapturowski et al., 2019).

A sequence is drawn with probability p^α / Σ p^α and its loss is weighted by (1 / (n · P))^β, divided by the largest such
weight of the batch. The newest sequence replaces the oldest. The caller gives the random generator.
"""

import bisect
from typing import TypedDict

import jax
import numpy as np

from tdu import memory as machine
from tdu.agents.r2d2 import frames
from tdu.agents.r2d2.config import Config
from tdu.agents.r2d2.sequences import Batch, Memory, Sequence, Steps, empty_steps
from tdu.errors import UserError
from tdu.types import EnvSpec

_SMALLEST = 1e-6
"""Smallest priority, so that every sequence can be drawn."""

_OTHER_FIELDS = tuple(name for name in Steps._fields if name != "observation")


class SumTree:
    """Weights [capacity], all 0 at first: draws indices in proportion to them, in log time, many at once.

    A node holds the sum of its two children; the leaves are the weights. Sums are always computed from the children, never
    by adding differences, so that rounding errors do not accumulate.
    """

    def __init__(self, capacity: int):
        self._leaves = 1 << max(capacity - 1, 0).bit_length()
        self._sums = np.zeros(2 * self._leaves)
        """Node n has the children 2n and 2n + 1; node 1 is the root."""
        self._capacity = capacity

    @property
    def total(self) -> float:
        return float(self._sums[1])

    def __getitem__(self, indices: np.ndarray) -> np.ndarray:
        return self._sums[self._leaves + np.asarray(indices)]

    def set(self, indices: np.ndarray, weights: np.ndarray) -> None:
        """Sets the weights of indices; of an index that occurs twice, the last weight counts."""
        nodes = self._leaves + np.asarray(indices, np.int64)
        self._sums[nodes] = weights
        while len(nodes) and nodes[0] > 1:
            nodes = nodes >> 1 if len(nodes) == 1 else np.unique(nodes >> 1)  # one node needs no sorting, which is slow
            self._sums[nodes] = self._sums[2 * nodes] + self._sums[2 * nodes + 1]

    def find(self, sums: np.ndarray) -> np.ndarray:
        """For every number in [0, total): the index at which the running sum of weights passes it."""
        nodes = np.ones(len(sums), np.int64)
        rest = np.array(sums, np.float64)
        while nodes[0] < self._leaves:
            left = self._sums[2 * nodes]
            # Rounding may lead to a child of weight 0; the other one then has some.
            right = ((rest >= left) & (self._sums[2 * nodes + 1] > 0)) | (left <= 0)
            rest = np.where(right, rest - left, rest)
            nodes = 2 * nodes + right
        return nodes - self._leaves

    def weights(self) -> np.ndarray:
        return self._sums[self._leaves : self._leaves + self._capacity].copy()


class ReplayCounts(TypedDict):
    oldest: int
    next: int
    """Ids of the oldest sequence and of the next one."""
    largest_priority: float


class Replay:
    """The last `capacity` sequences."""

    def __init__(self, spec: EnvSpec, config: Config, *, memory: Memory, streams: int = 1, capacity: int | None = None):
        """`memory` is an example of a network's memory; `streams` is the number of streams that are written at a time.

        `capacity` is the config's unless given.
        """
        shape, capacity = config.shape, capacity or config.replay_capacity
        self._shape, self._config, self._is_stacked = shape, config, spec.is_stacked
        self.capacity = capacity
        """Largest number of sequences."""
        self._blocks = capacity + streams * shape.blocks
        self._frames = frames.Frames(spec, blocks=self._blocks, period=shape.period, compress=config.compress)
        one = empty_steps(spec, 1)
        self._steps = {name: np.zeros((self._blocks, shape.period), getattr(one, name).dtype) for name in _OTHER_FIELDS}
        self._filled = np.zeros(self._blocks, np.int32)
        """Steps written in each block."""
        self._users = np.zeros(self._blocks, np.int32)
        """Sequences that use each block."""
        self._names = np.full((self._blocks, 2), -1, np.int64)
        """Stream and number in it of each block."""
        self._where: dict[tuple[int, int], int] = {}
        self._free = list(range(self._blocks))[::-1]
        self._used = 0
        """Blocks from this one on were never used."""
        self._tree = SumTree(capacity)
        self._slots = np.zeros((capacity, shape.blocks), np.int32)
        """Blocks of each sequence; its place is its id modulo the capacity."""
        self._mask = np.zeros((capacity, config.heads), np.float32)
        self._memory = jax.tree.map(lambda x: np.zeros((capacity, *np.shape(x)), np.asarray(x).dtype), memory)
        self._oldest = self._next = 0
        self.largest_priority = 1.0

    def __len__(self) -> int:
        return self._next - self._oldest

    def add(self, sequence: Sequence, priority: float | None = None) -> int:
        """Stores a sequence, in place of the oldest if the replay is full; returns its id.

        Without a priority it gets the largest so far, so that it is drawn soon.
        """
        period = self._shape.period
        if sequence.start % period or len(sequence.steps.action) != self._shape.length:
            raise ValueError(f"a sequence has {self._shape.length} steps and starts at a multiple of {period}")
        if len(self) == self.capacity:
            self._forget_oldest()
        first = sequence.start // period
        place = self._next % self.capacity
        for i in range(self._shape.blocks):
            block = self._block((sequence.stream, first + i))
            self._users[block] += 1
            self._slots[place, i] = block
            have = int(self._filled[block])
            upto = min(period, self._shape.length - i * period)
            if upto > have:
                new = slice(i * period + have, i * period + upto)
                self._frames.write(block, have, np.asarray(sequence.steps.observation[new]))
                for name, rows in self._steps.items():
                    rows[block, have:upto] = getattr(sequence.steps, name)[new]
                self._filled[block] = upto
        self._mask[place] = sequence.mask
        jax.tree.map(lambda rows, x: rows.__setitem__(place, x), self._memory, sequence.memory)
        id_, self._next = self._next, self._next + 1
        self.update_priorities(np.array([id_]), np.array([self.largest_priority if priority is None else priority]))
        return id_

    @property
    def ids(self) -> range:
        """Ids of the stored sequences, oldest first."""
        return range(self._oldest, self._next)

    def start_at(self, id_: int) -> None:
        """Sets the id of the first sequence of an empty replay."""
        if len(self):
            raise ValueError("the replay is not empty")
        self._oldest = self._next = id_

    def sequence(self, id_: int) -> Sequence:
        """A copy of a sequence, as it was added."""
        place, length = id_ % self.capacity, self._shape.length
        slots = self._slots[[place]]
        steps = {"observation": self._frames.read_many(slots, length)[:, 0]}
        steps |= {name: rows[slots].reshape(-1)[:length].copy() for name, rows in self._steps.items()}
        stream, first = self._names[slots[0, 0]].tolist()
        memory = jax.tree.map(lambda rows: rows[place].copy(), self._memory)
        return Sequence(stream, first * self._shape.period, Steps(**steps), memory, self._mask[place].copy())

    def sample(self, size: int, rng: np.random.Generator, *, packed: bool = False) -> Batch:
        """A batch of sequences, one from each of `size` equal parts of the sum of weights.

        With `packed`, stacks of frames have the form in which they are sent (`frames.PackedStacks`).
        """
        total = self._tree.total
        points = (np.arange(size) + rng.random(size)) * (total / size)
        places = self._tree.find(np.minimum(points, np.nextafter(total, 0.0)))
        probability = self._tree[places] / total
        weights = (len(self) * probability) ** -self._config.importance_exponent
        slots, length = self._slots[places], self._shape.length
        others = {name: rows[slots].reshape(size, -1)[:, :length] for name, rows in self._steps.items()}
        steps = {name: np.ascontiguousarray(x.swapaxes(0, 1)) for name, x in others.items()}
        ids = self._oldest + (places - self._oldest) % self.capacity
        read = self._frames.read_packed if packed and self._is_stacked else self._frames.read_many
        return Batch(
            steps=Steps(observation=read(slots, length), **steps),
            memory=jax.tree.map(lambda rows: rows[places], self._memory),
            mask=self._mask[places],
            weights=(weights / weights.max()).astype(np.float32),
            ids=ids,
        )

    def update_priorities(self, ids: np.ndarray, priorities: np.ndarray) -> None:
        """Sets the priorities of sequences; those that are no longer stored are ignored."""
        there = (ids >= self._oldest) & (ids < self._next)
        known = np.maximum(np.asarray(priorities, np.float64)[there], _SMALLEST)
        if len(known):
            self.largest_priority = max(self.largest_priority, float(known.max()))
            self._tree.set(ids[there] % self.capacity, known**self._config.priority_exponent)

    def priorities(self) -> np.ndarray:
        """Priorities of all sequences, oldest first."""
        places = np.arange(self._oldest, self._next) % self.capacity
        exponent = self._config.priority_exponent
        return (
            self._tree[places] ** (1 / exponent) if exponent else np.ones(len(places))
        )  # with exponent 0, priorities are not stored

    def _tables(self, used: int, filled: int) -> dict[str, np.ndarray]:
        """What is saved of the first `used` blocks and `filled` places, by name, as views."""
        tables = {f"steps.{name}": x[:used] for name, x in self._steps.items()}
        tables |= {f"memory.{i}": x[:filled] for i, x in enumerate(jax.tree.leaves(self._memory))}
        tables |= {"filled": self._filled[:used], "users": self._users[:used], "names": self._names[:used]}
        return tables | {"slots": self._slots[:filled], "mask": self._mask[:filled]}

    def save(self) -> tuple[dict[str, np.ndarray], ReplayCounts]:
        """Arrays by name, large ones not copied, and what JSON can hold."""
        filled, used = min(self._next, self.capacity), self._used
        arrays = {f"frames.{name}": x for name, x in self._frames.save(used).items()}
        arrays |= self._tables(used, filled) | {"weights": self._tree.weights()[:filled]}
        return arrays, {"oldest": self._oldest, "next": self._next, "largest_priority": self.largest_priority}

    def restore(self, arrays: dict[str, np.ndarray], plain: ReplayCounts) -> None:
        """Restores what `save` returned, into an empty replay; the arrays are removed from `arrays` on the way."""
        self._oldest, self._next = plain["oldest"], plain["next"]
        self.largest_priority = plain["largest_priority"]
        filled, used = len(arrays["slots"]), len(arrays["filled"])
        for name, x in self._tables(used, filled).items():
            x[:] = arrays.pop(name)
        self._tree.set(np.arange(filled), arrays.pop("weights"))
        names = [name for name in arrays if name.startswith("frames.")]
        self._frames.restore({name.removeprefix("frames."): arrays.pop(name) for name in names})
        self._used = used
        there = np.flatnonzero(self._users)
        self._where = {(int(s), int(n)): int(block) for block, (s, n) in zip(there, self._names[there], strict=True)}
        self._free = sorted(set(range(self._blocks)) - set(there.tolist()), reverse=True)

    def _block(self, name: tuple[int, int]) -> int:
        if name in self._where:
            return self._where[name]
        while not self._free:
            self._forget_oldest()
        block = self._free.pop()
        self._where[name] = block
        self._names[block] = name
        self._filled[block] = 0
        self._used = max(self._used, block + 1)
        return block

    def _forget_oldest(self) -> None:
        place = self._oldest % self.capacity
        self._tree.set(np.array([place]), np.zeros(1))
        for block in self._slots[place].tolist():
            self._users[block] -= 1
            if not self._users[block]:
                del self._where[tuple(self._names[block].tolist())]
                self._frames.forget(block)
                self._free.append(block)
        self._oldest += 1


def bytes_needed(
    spec: EnvSpec, config: Config, *, memory: Memory, streams: int = 1, capacity: int | None = None
) -> int:
    """Memory of a full replay in bytes, nearly all of it frames. `capacity` is the config's unless given."""
    shape, capacity = config.shape, config.replay_capacity if capacity is None else capacity
    blocks = capacity + streams * shape.blocks
    one = empty_steps(spec, 1)
    per_step = sum(getattr(one, name).dtype.itemsize for name in _OTHER_FIELDS)
    block = frames.block_bytes(spec, shape.period, compress=config.compress) + per_step * shape.period + 200
    per_memory = sum(np.asarray(x).nbytes for x in jax.tree.leaves(memory))
    return int(blocks * block + capacity * (per_memory + 4 * config.heads + 8 * shape.blocks + 32))


def check_room(spec: EnvSpec, config: Config, *, memory: Memory, streams: int = 1, available: int | None = None) -> str:
    """A sentence with the memory of the replay; refuses one that does not fit, with the largest that does."""
    room = (machine.available() if available is None else available) * machine.SHARE

    def needed(capacity: int) -> int:
        return bytes_needed(spec, config, memory=memory, streams=streams, capacity=capacity)

    capacity = config.replay_capacity
    size = machine.gigabytes(needed(capacity))
    if needed(capacity) > room:
        fits = bisect.bisect_right(range(capacity), room, key=needed) - 1
        hint = "" if config.compress else " or add compress"
        raise UserError(
            f"a replay of {capacity:,} sequences needs {size} of memory and {machine.gigabytes(room)} are available; the "
            f"largest replay_capacity that fits is {max(fits, 0)}{hint}."
        )
    about = "about " if config.compress else ""
    return f"the replay of {capacity:,} sequences will take {about}{size} of memory when it is full."
