"""What networks see of observations, which travel raw: bytes become numbers from 0 to 1, everything else is as it is."""

import jax.numpy as jnp

from tdu.types import Array, EnvSpec


def scaled(spec: EnvSpec, observation: Array) -> Array:
    """An observation, or a batch of them, as numbers of float32."""
    numbers = observation.astype(jnp.float32)
    return numbers / 255 if spec.dtype == "uint8" else numbers


def is_image(spec: EnvSpec) -> bool:
    """Whether the observation has height, width and channels, and room for a window of 3×3."""
    return spec.num_states is None and len(spec.observation_shape) == 3 and min(spec.observation_shape[:2]) >= 3
