"""Steps of experience, the streams that they form, and the overlapping sequences that are cut from a stream.

    Roll [T, B, …]  →  Steps [n, …] of each stream  →  Sequence [L + 1, …]  →  Batch [L + 1, B, …]

A stream holds all steps of one environment, episode after episode. A sequence is a piece of it of fixed length, which may
contain the end of one episode and the beginning of the next. `first` marks the beginning, where the network's memory is
reset. Where the task ends, the discount is 0. Where an episode is cut off by a time limit, its true last observation follows
as a step of its own that is not `valid`: it is bootstrapped from and not learned on.
"""

from typing import NamedTuple, TypedDict, TypeVar

import jax
import numpy as np

from tdu.types import EitherArray, EnvSpec

Tree = TypeVar("Tree")


class Steps(NamedTuple):
    """Consecutive steps [n, …] of a stream, or [T, B, …] of several. The network is fed the first four fields.

    The others are None where the step has yet to be taken.
    """

    observation: EitherArray
    previous_action: EitherArray
    """int32; −1 where an episode begins."""
    previous_reward: EitherArray
    """float32; 0 where an episode begins."""
    first: EitherArray
    """bool, whether an episode begins here."""
    action: EitherArray = None
    """int32."""
    reward: EitherArray = None
    """float32, for that action."""
    discount: EitherArray = None
    """float32, 0 where the task ended with that action."""
    valid: EitherArray = None
    """bool, whether the action was taken, so that this step can be learned on."""


class LstmState(NamedTuple):
    """State of an LSTM, with leading axes `[]` or `[B]`."""

    h: EitherArray
    c: EitherArray


class Memory(NamedTuple):
    """The memory of a network and of its prior."""

    trained: LstmState
    prior: LstmState | tuple[()] = ()


class Roll(NamedTuple):
    """T steps of B environments by their actors, [T, B, …] each."""

    steps: Steps
    next_observation: EitherArray
    """The true last one where the episode ended."""
    last: EitherArray
    """Whether the episode ended."""
    memory: Memory
    """The network's memory after each step."""
    head: EitherArray


class Sequence(NamedTuple):
    """A piece of a stream, as the replay stores it: NumPy arrays."""

    stream: int
    """Number of the stream; sequences of one stream share their frames."""
    start: int
    """Number of its first step in the stream."""
    steps: Steps
    """[L + 1, …]: the steps to learn from, and one more to bootstrap from."""
    memory: Memory
    """The network's memory before the first step, a pytree without batch axis."""
    mask: np.ndarray
    """[H] of float32: the heads that learn from it."""


class Batch(NamedTuple):
    """Sequences for one learning step."""

    steps: Steps
    """[L + 1, B, …]."""
    memory: Memory
    """[B, …], before the first step."""
    mask: EitherArray
    """[B, H]."""
    weights: EitherArray
    """[B] of float32, importance weights."""
    ids: EitherArray = None
    """[B] of int64, by which the replay takes new priorities."""


class Shape(NamedTuple):
    burn_in: int
    """Steps that only bring the memory up to date."""
    trace: int
    """Steps that are learned from."""
    period: int
    """Steps between the starts of two sequences."""

    @property
    def length(self) -> int:
        """Steps in a sequence, including the one to bootstrap from."""
        return self.burn_in + self.trace + 1

    @property
    def blocks(self) -> int:
        """Blocks of `period` steps that a sequence touches."""
        return -(-self.length // self.period)


def empty_steps(spec: EnvSpec, *shape: int) -> Steps:
    """Steps of that leading shape, not valid."""
    return Steps(
        observation=np.zeros((*shape, *spec.carried_shape), spec.carried_dtype),
        previous_action=np.full(shape, -1, np.int32),
        previous_reward=np.zeros(shape, np.float32),
        first=np.zeros(shape, bool),
        action=np.zeros(shape, np.int32),
        reward=np.zeros(shape, np.float32),
        discount=np.ones(shape, np.float32),
        valid=np.zeros(shape, bool),
    )


def empty_batch(spec: EnvSpec, shape: Shape, size: int, *, heads: int, memory: Memory) -> Batch:
    """A batch to compile a learning step on. `memory` is an example of a network's memory."""
    return Batch(
        steps=empty_steps(spec, shape.length, size),
        memory=jax.tree.map(lambda x: np.zeros((size, *x.shape), x.dtype), memory),
        mask=np.ones((size, heads), np.float32),
        weights=np.ones(size, np.float32),
        ids=np.zeros(size, np.int64),
    )


def stream_steps(roll: Roll, row: int) -> tuple[Steps, Memory]:
    """The steps of one environment as its stream has them, and the memory after each.

    A step that ended an episode at a time limit is followed by the true last observation, as a step that is not valid.
    """
    steps = roll.steps
    taken = steps.valid[:, row]
    cut_off = taken & roll.last[:, row] & (steps.discount[:, row] > 0)
    times = np.repeat(np.arange(len(taken)), np.where(taken, 1 + cut_off, 0))
    ends = np.append(False, times[1:] == times[:-1])[: len(times)]  # the second of two entries of one step

    def column(x: np.ndarray) -> np.ndarray:
        return x[times, row]

    observation = column(steps.observation)
    observation[ends] = roll.next_observation[times[ends], row]
    found = Steps(
        observation=observation,
        previous_action=np.where(ends, column(steps.action), column(steps.previous_action)).astype(np.int32),
        previous_reward=np.where(ends, column(steps.reward), column(steps.previous_reward)).astype(np.float32),
        first=np.where(ends, False, column(steps.first)),
        action=np.where(ends, 0, column(steps.action)).astype(np.int32),
        reward=np.where(ends, 0, column(steps.reward)).astype(np.float32),
        discount=np.where(ends, 0, column(steps.discount)).astype(np.float32),
        valid=~ends,
    )
    return found, jax.tree.map(column, roll.memory)


class StreamCounts(TypedDict):
    sequences: int
    """Cut so far."""
    numbers: list[int]
    """Of the streams."""
    starts: list[int]
    """Number of the first step that each stream holds."""


class Streams:
    """The streams of B environments, cut into sequences, each with a mask drawn from (seed, number of the sequence).

    `memory` is the network's at the beginning of an episode; a head learns from a sequence with probability `mask_prob`.
    """

    def __init__(
        self, shape: Shape, memory: Memory, *, numbers: range, heads: int, mask_prob: float, seed: tuple[int, ...]
    ):
        self._shape, self._heads, self._mask_prob, self._seed = shape, heads, mask_prob, seed
        self._count = 0
        """Sequences cut so far."""
        self._numbers, self._starts = list(numbers), [0] * len(numbers)
        """Of the streams, and of the first step that is held of each."""
        self._held: list[Steps | None] = [None] * len(numbers)
        self._memory = [jax.tree.map(lambda x: np.asarray(x)[None], memory)] * len(numbers)
        """Before each step that is held, and after the last, [n + 1, …]."""

    def cut(self, roll: Roll) -> list[Sequence]:
        """Adds the steps of a roll; returns the sequences that are now complete."""
        return [found for row in range(len(self._numbers)) for found in self.extend(row, *stream_steps(roll, row))]

    def extend(self, row: int, steps: Steps, memory: Memory) -> list[Sequence]:
        """Adds a stream's next steps [n, …] and the memory after each; returns the sequences that are now complete."""
        earlier = self._held[row]
        held, before = steps if earlier is None else _joined(earlier, steps), _joined(self._memory[row], memory)
        found, at = [], 0
        while at + self._shape.length <= len(held.action):
            piece = jax.tree.map(lambda x, at=at: x[at : at + self._shape.length].copy(), held)
            remembered = jax.tree.map(lambda x, at=at: x[at].copy(), before)
            found.append(Sequence(self._numbers[row], self._starts[row] + at, piece, remembered, self._draw_mask()))
            at += self._shape.period
        self._held[row] = jax.tree.map(lambda x: x[at:].copy(), held)
        self._memory[row] = jax.tree.map(lambda x: x[at:].copy(), before)
        self._starts[row] += at
        return found

    def _draw_mask(self) -> np.ndarray:
        mask = np.ones(self._heads, np.float32)
        if self._mask_prob < 1:
            draws = np.random.default_rng([*self._seed, self._count]).random(self._heads)
            mask = (draws < self._mask_prob).astype(np.float32)
        self._count += 1
        return mask

    def save(self) -> tuple[dict[str, np.ndarray], StreamCounts]:
        """The steps that are held, as arrays by name, and what JSON can hold."""
        arrays: dict[str, np.ndarray] = {}
        for row, (memory, held) in enumerate(zip(self._memory, self._held, strict=True)):
            arrays |= {f"{row}.memory.{i}": x for i, x in enumerate(jax.tree.leaves(memory))}
            if held is not None:
                arrays |= {f"{row}.steps.{name}": x for name, x in held._asdict().items()}
        return arrays, {"sequences": self._count, "numbers": list(self._numbers), "starts": list(self._starts)}

    def restore(self, arrays: dict[str, np.ndarray], plain: StreamCounts, *, exact: bool) -> None:
        """Restores what `save` returned; where the environments were not restored exactly, new streams begin."""
        self._count = plain["sequences"]
        self._numbers = [number + (0 if exact else len(self._numbers)) for number in plain["numbers"]]
        if not exact:
            return
        self._starts = list(plain["starts"])
        for row, memory in enumerate(self._memory):
            leaves = [arrays[f"{row}.memory.{i}"] for i in range(len(jax.tree.leaves(memory)))]
            self._memory[row] = jax.tree.unflatten(jax.tree.structure(memory), leaves)
            names = {name: f"{row}.steps.{name}" for name in Steps._fields}
            there = all(name in arrays for name in names.values())
            self._held[row] = Steps(**{field: arrays[name] for field, name in names.items()}) if there else None


def _joined(a: Tree, b: Tree) -> Tree:
    return jax.tree.map(lambda x, y: np.concatenate([x, np.asarray(y)]), a, b)
