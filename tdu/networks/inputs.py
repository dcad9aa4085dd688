"""Raw observations as network inputs: bytes are divided by 255, other numbers are unchanged."""

import jax
import jax.numpy as jnp

from tdu.types import Array, EnvSpec


def scaled(spec: EnvSpec, observation: Array) -> Array:
    """An observation, or a batch of them, in float32."""
    numbers = observation.astype(jnp.float32)
    return numbers / 255 if spec.dtype == "uint8" else numbers


def flat(spec: EnvSpec, observation: Array) -> Array:
    """Observations [...] as vectors [..., D]; one-hot observations are written out."""
    if spec.num_states is not None:
        return jax.nn.one_hot(observation, spec.num_states)
    x = scaled(spec, observation)
    return x.reshape(*x.shape[: x.ndim - len(spec.observation_shape)], -1)


def is_image(spec: EnvSpec) -> bool:
    """Whether the observation has height, width and channels, and is at least 3×3."""
    return spec.num_states is None and len(spec.observation_shape) == 3 and min(spec.observation_shape[:2]) >= 3
