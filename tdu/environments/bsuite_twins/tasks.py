"""bsuite's small tasks: bandit, MNIST, catch, mountain car, and the chains of discounting, memory and umbrella."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tdu.environments import mnist_files, time_steps
from tdu.types import Array, Environment, EnvSpec, Key, TimeStep

_ARMS = 11


class BanditState(NamedTuple):
    regret: Array
    """Regret of the chosen arm; 0 before the choice."""


def bandit(*, mapping_seed: int) -> Environment:
    """`SimpleBandit`: episodes of one step, with eleven arms that pay 0, 0.1, … 1, in an order drawn as in bsuite."""
    order = np.random.RandomState(mapping_seed).choice(range(_ARMS), size=_ARMS, replace=False)
    rewards = np.linspace(0, 1, _ARMS)[order]
    paid, regrets = jnp.asarray(rewards, jnp.float32), jnp.asarray(1 - rewards, jnp.float32)
    observation = jnp.ones((1, 1))

    def reset(_: Key) -> tuple[BanditState, TimeStep]:
        return BanditState(jnp.zeros(())), time_steps.first(observation)

    def step(_: BanditState, action: Array, _key: Key) -> tuple[BanditState, TimeStep]:
        return BanditState(regrets[action]), time_steps.following(observation, paid[action], jnp.ones((), bool))

    spec = EnvSpec("bandit", (1, 1), num_actions=_ARMS, info_names=("total_regret",))
    return Environment(spec, reset, step, lambda state: {"total_regret": state.regret})


class MnistState(NamedTuple):
    digit: Array
    """Index of the image in the training set."""
    regret: Array
    """2 after a wrong answer."""


def mnist() -> Environment:
    """`MNISTBandit`: classify an image of a digit in one step that pays 1 or −1. The training set is in local files."""
    images, labels = mnist_files.training_digits(mnist_files.complete_folder("mnist", mnist_files.TRAINING_FILES))
    shape = images.shape[1:]
    pixels, classes = jnp.asarray(images), jnp.asarray(labels, jnp.int32)
    # Divided by NumPy as in bsuite; XLA would multiply by the inverse, which rounds differently.
    brightness = jnp.asarray(np.arange(-128, 128, dtype=np.float32) / 255)

    def reset(key: Key) -> tuple[MnistState, TimeStep]:
        digit = jax.random.randint(key, (), 0, len(labels))
        observation = brightness[pixels[digit].astype(int) + 128]
        return MnistState(digit, jnp.zeros((), jnp.int32)), time_steps.first(observation)

    def step(state: MnistState, action: Array, _: Key) -> tuple[MnistState, TimeStep]:
        right = action == classes[state.digit]
        after = time_steps.following(jnp.zeros(shape), jnp.where(right, 1.0, -1.0), jnp.ones((), bool))
        return MnistState(state.digit, jnp.where(right, 0, 2)), after

    spec = EnvSpec("mnist", shape, num_actions=10, info_names=("total_regret",))
    return Environment(spec, reset, step, lambda state: {"total_regret": state.regret})


_ROWS, _COLUMNS = 10, 5


class CatchState(NamedTuple):
    ball_row: Array
    ball_column: Array
    paddle: Array
    """Its column."""
    regret: Array
    """2 once the ball is missed."""


def catch() -> Environment:
    """`Catch`: move a paddle in the lowest row under a falling ball: left, stay or right. The last step pays 1 or −1."""

    def observe(state: CatchState) -> Array:
        board = jnp.zeros((_ROWS, _COLUMNS))
        return board.at[state.ball_row, state.ball_column].set(1.0).at[_ROWS - 1, state.paddle].set(1.0)

    def reset(key: Key) -> tuple[CatchState, TimeStep]:
        zero = jnp.zeros((), jnp.int32)
        state = CatchState(zero, jax.random.randint(key, (), 0, _COLUMNS), zero + _COLUMNS // 2, zero)
        return state, time_steps.first(observe(state))

    def step(state: CatchState, action: Array, _: Key) -> tuple[CatchState, TimeStep]:
        ball_row, paddle = state.ball_row + 1, jnp.clip(state.paddle + action - 1, 0, _COLUMNS - 1)
        last = ball_row == _ROWS - 1
        caught = paddle == state.ball_column
        state = CatchState(ball_row, state.ball_column, paddle, jnp.where(last & ~caught, 2, 0))
        reward = jnp.where(last, jnp.where(caught, 1.0, -1.0), 0.0)
        return state, time_steps.following(observe(state), reward, last)

    spec = EnvSpec("catch", (_ROWS, _COLUMNS), num_actions=3, info_names=("total_regret",))
    return Environment(spec, reset, step, lambda state: {"total_regret": state.regret})


_LOWEST, _HIGHEST, _GOAL = -1.2, 0.6, 0.5
_FASTEST, _FORCE, _GRAVITY = 0.07, 0.001, 0.0025
_MOST_STEPS = 1000


class MountainCarState(NamedTuple):
    position: Array
    """In single precision; bsuite uses double precision."""
    velocity: Array
    time: Array


def mountain_car() -> Environment:
    """`MountainCar` (Moore, 1990): a weak car must swing to leave a valley. Every step costs 1.

    Actions push left, not at all, or right. As in bsuite, the time limit terminates: its discount is 0.
    """
    times = jnp.asarray(np.arange(_MOST_STEPS + 1) / _MOST_STEPS, jnp.float32)

    def observe(state: MountainCarState) -> Array:
        return jnp.stack([state.position, state.velocity, times[state.time]])[None]

    def reset(key: Key) -> tuple[MountainCarState, TimeStep]:
        position = jax.random.uniform(key, minval=-0.6, maxval=-0.4)
        state = MountainCarState(position, jnp.zeros(()), jnp.zeros((), jnp.int32))
        return state, time_steps.first(observe(state))

    def step(state: MountainCarState, action: Array, _: Key) -> tuple[MountainCarState, TimeStep]:
        push = (action - 1) * _FORCE - jnp.cos(3 * state.position) * _GRAVITY
        velocity = jnp.clip(state.velocity + push, -_FASTEST, _FASTEST)
        position = jnp.clip(state.position + velocity, _LOWEST, _HIGHEST)
        velocity = jnp.where(position == jnp.float32(_LOWEST), jnp.maximum(velocity, 0.0), velocity)
        state = MountainCarState(position, velocity, state.time + 1)
        last = (position >= _GOAL) | (state.time >= _MOST_STEPS)
        return state, time_steps.following(observe(state), jnp.full((), -1.0), last)

    spec = EnvSpec("mountain_car", (1, 3), num_actions=3, info_names=("raw_return",))
    return Environment(spec, reset, step, lambda state: {"raw_return": -state.time})


_REWARD_STEPS = (1, 3, 10, 30, 100)


class DiscountingChainState(NamedTuple):
    context: Array
    """The first action; −1 before it."""
    time: Array


def discounting_chain(*, mapping_seed: int) -> Environment:
    """`DiscountingChain`: the first action chooses when the reward is paid, after 1, 3, 10, 30 or 100 steps.

    One of the five rewards is 1.1, the others are 1. Episodes have 100 steps.
    """
    chains, length = len(_REWARD_STEPS), _REWARD_STEPS[-1]
    rewards = jnp.ones(chains).at[mapping_seed % chains].set(1.1)
    reward_steps = jnp.asarray(_REWARD_STEPS, jnp.int32)
    times = jnp.asarray(np.arange(length + 1) / length, jnp.float32)

    def observe(state: DiscountingChainState) -> Array:
        return jnp.stack([state.context.astype(jnp.float32), times[state.time]])[None]

    def reset(_: Key) -> tuple[DiscountingChainState, TimeStep]:
        state = DiscountingChainState(jnp.full((), -1, jnp.int32), jnp.zeros((), jnp.int32))
        return state, time_steps.first(observe(state))

    def step(state: DiscountingChainState, action: Array, _: Key) -> tuple[DiscountingChainState, TimeStep]:
        context = jnp.where(state.time == 0, action, state.context).astype(jnp.int32)
        state = DiscountingChainState(context, state.time + 1)
        reward = jnp.where(state.time == reward_steps[context], rewards[context], 0.0)
        return state, time_steps.following(observe(state), reward, state.time == length)

    spec = EnvSpec("discounting_chain", (1, 2), num_actions=chains)
    return Environment(spec, reset, step, lambda state: {})


class MemoryChainState(NamedTuple):
    bits: Array
    """0 or 1, [num_bits]."""
    query: Array
    """Index of the queried bit."""
    time: Array
    perfect: Array
    """1 after a correct answer."""
    regret: Array
    """2 after a wrong answer."""


def memory_chain(*, memory_length: int, num_bits: int) -> Environment:
    """`MemoryChain`: bits are shown once; `memory_length` steps later the action must recall one of them, for 1 or −1.

    An observation is (time left, index of the queried bit, the bits). As in bsuite, the first step repeats the first
    observation, so an episode has `memory_length` + 1 steps.
    """
    times_left = jnp.asarray(1 - np.arange(memory_length + 1) / memory_length, jnp.float32)

    def observe(state: MemoryChainState) -> Array:
        query = jnp.where(state.time == memory_length - 1, state.query, 0).astype(jnp.float32)
        bits = jnp.where(state.time == 0, 2.0 * state.bits - 1.0, 0.0)
        return jnp.concatenate([jnp.stack([times_left[state.time], query]), bits])[None]

    def reset(key: Key) -> tuple[MemoryChainState, TimeStep]:
        key_bits, key_query = jax.random.split(key)
        zero = jnp.zeros((), jnp.int32)
        state = MemoryChainState(
            _bits(key_bits, num_bits), jax.random.randint(key_query, (), 0, num_bits), zero, zero, zero
        )
        return state, time_steps.first(observe(state))

    def step(state: MemoryChainState, action: Array, _: Key) -> tuple[MemoryChainState, TimeStep]:
        last = state.time == memory_length
        right = action == state.bits[state.query]
        reward = jnp.where(last, jnp.where(right, 1.0, -1.0), 0.0)
        after = time_steps.following(observe(state), reward, last)
        counts = {"perfect": jnp.where(last & right, 1, 0), "regret": jnp.where(last & ~right, 2, 0)}
        return state._replace(time=state.time + 1, **counts), after

    def info(state: MemoryChainState) -> dict[str, Array]:
        return {"total_perfect": state.perfect, "total_regret": state.regret}

    spec = EnvSpec("memory_chain", (1, num_bits + 2), num_actions=2, info_names=("total_perfect", "total_regret"))
    return Environment(spec, reset, step, info)


class UmbrellaChainState(NamedTuple):
    needed: Array
    taken: Array
    """Random until the first action."""
    time: Array
    regret: Array
    """2 after a wrong choice."""


def umbrella_chain(*, chain_length: int, n_distractor: int) -> Environment:
    """`UmbrellaChain`: the first action takes an umbrella or not; the last step pays 1 if that was right, else −1.

    Rewards in between are random, ±1. An observation is (needed, taken, time left, `n_distractor` random bits).
    """
    times_left = jnp.asarray(1 - np.arange(chain_length + 1) / chain_length, jnp.float32)

    def observe(state: UmbrellaChainState, distractors: Array) -> Array:
        own = jnp.stack([state.needed.astype(jnp.float32), state.taken.astype(jnp.float32), times_left[state.time]])
        return jnp.concatenate([own, distractors.astype(jnp.float32)])[None]

    def reset(key: Key) -> tuple[UmbrellaChainState, TimeStep]:
        bits = _bits(key, 2 + n_distractor)
        zero = jnp.zeros((), jnp.int32)
        state = UmbrellaChainState(bits[0], bits[1], zero, zero)
        return state, time_steps.first(observe(state, bits[2:]))

    def step(state: UmbrellaChainState, action: Array, key: Key) -> tuple[UmbrellaChainState, TimeStep]:
        bits = _bits(key, 1 + n_distractor)
        taken = jnp.where(state.time == 0, action, state.taken).astype(jnp.int32)
        time = state.time + 1
        last, right = time == chain_length, taken == state.needed
        reward = jnp.where(last, jnp.where(right, 1.0, -1.0), 2.0 * bits[0] - 1.0)
        state = UmbrellaChainState(state.needed, taken, time, jnp.where(last & ~right, 2, 0))
        return state, time_steps.following(observe(state, bits[1:]), reward, last)

    spec = EnvSpec("umbrella_chain", (1, 3 + n_distractor), num_actions=2, info_names=("total_regret",))
    return Environment(spec, reset, step, lambda state: {"total_regret": state.regret})


def _bits(key: Key, count: int) -> Array:
    return jax.random.bernoulli(key, 0.5, (count,)).astype(jnp.int32)
