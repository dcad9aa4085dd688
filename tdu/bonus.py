"""What explorers are paid for. Any trailing shape: `[K, B]` or `[K, T, B]` gives `[B]` or `[T, B]`."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from tdu.types import Array, Bonus, Exploit, State, Transition


def spread(x: Array, *, unbiased: bool = True) -> Array:
    """Standard deviation over the leading axis (the heads), without gradient; divisor K − 1 as in eq. 7, or K."""
    return jax.lax.stop_gradient(jnp.std(x, axis=0, ddof=int(unbiased)))


def td_uncertainty(beta: float, *, unbiased: bool = True) -> Bonus:
    """The paper's idea: r + β·σ, with σ the exploiters' disagreement about the TD error of the very transition."""

    def reward(_: State, batch: Transition, exploit: Exploit) -> tuple[Array, Array]:
        sigma = spread(exploit.td, unbiased=unbiased)
        return batch.r_t + beta * sigma, sigma

    return _stateless(reward)


def nothing() -> Bonus:
    """Explorers are paid the reward alone."""

    def reward(_: State, batch: Transition, exploit: Exploit) -> tuple[Array, Array]:
        del exploit
        return batch.r_t, jnp.zeros_like(batch.r_t)

    return _stateless(reward)


def _stateless(reward: Callable[[State, Transition, Exploit], tuple[Array, Array]]) -> Bonus:
    return Bonus(init=tuple, observe=lambda state, _: state, reward=reward, learn=lambda state, _: state)
