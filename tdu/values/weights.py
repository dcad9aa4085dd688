"""What is trained: the weights themselves. Noisy networks train more (`networks.noisy`)."""

import jax
import jax.numpy as jnp

from tdu.types import Weights

PLAIN = Weights(
    init=lambda key, networks: (),
    trainable=lambda params: params,
    trainable_rows=lambda rows: rows,
    draw=lambda noise, step, stream: (),
    drawn=lambda trained, draw: trained,
    drawn_rows=lambda rows, states, draw: rows,
)
"""The weights themselves are trained."""

FOLDED = PLAIN._replace(trainable=lambda params: jax.tree.map(jnp.abs, params), trainable_rows=jnp.abs)
"""The weights themselves are trained, and none of them is negative at first."""

ONES = PLAIN._replace(trainable_rows=jnp.ones_like, drawn=lambda trained, draw: jax.tree.map(jnp.zeros_like, trained))
"""For a one-hot ensemble without hidden layers: its rows are 1 at first, and its bias is always 0."""
