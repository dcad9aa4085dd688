"""What is trained in an ordinary ensemble: the weights themselves. Noisy networks train more (`networks/noisy.py`)."""

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
"""The weights themselves are trained, and their initial values are not negative."""

ONES = PLAIN._replace(trainable_rows=jnp.ones_like, drawn=lambda trained, draw: jax.tree.map(jnp.zeros_like, trained))
"""For a one-hot ensemble without hidden layers: rows start at 1, and the bias is always 0."""
