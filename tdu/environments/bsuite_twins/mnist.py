"""bsuite's `MNISTBandit`: classify an image of a digit. The MNIST training set is read from local files."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tdu.environments import mnist_files, time_steps
from tdu.types import Array, Environment, EnvSpec, Key, TimeStep


class MnistState(NamedTuple):
    digit: Array
    """Index of the image in the training set."""
    regret: Array
    """2 after a wrong answer."""


def mnist() -> Environment:
    """Episodes of one step that pays 1 or −1."""
    images, labels = mnist_files.training_digits(mnist_files.complete_folder("mnist", mnist_files.TRAINING_FILES))
    shape = images.shape[1:]
    pixels, classes = jnp.asarray(images), jnp.asarray(labels, jnp.int32)
    # Divided by NumPy as in bsuite; XLA would multiply by the inverse, which rounds differently.
    brightness = jnp.asarray(np.arange(-128, 128, dtype=np.float32) / 255)

    def reset(key: Key) -> tuple[MnistState, TimeStep]:
        digit = jax.random.randint(key, (), 0, len(labels))
        return MnistState(digit, jnp.zeros((), jnp.int32)), time_steps.first(
            brightness[pixels[digit].astype(int) + 128]
        )

    def step(state: MnistState, action: Array, key: Key) -> tuple[MnistState, TimeStep]:
        del key
        right = action == classes[state.digit]
        after = time_steps.following(jnp.zeros(shape), jnp.where(right, 1.0, -1.0), jnp.ones((), bool))
        return MnistState(state.digit, jnp.where(right, 0, 2)), after

    spec = EnvSpec("mnist", shape, num_actions=10, info_names=("total_regret",))
    return Environment(spec, reset, step, lambda state: {"total_regret": state.regret})
