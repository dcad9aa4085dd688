"""bsuite's reward wrappers: Gaussian noise (`*_noise` experiments) and a constant factor (`*_scale` experiments).

As in bsuite, the environment's totals (`info`) count the unchanged rewards.
"""

import jax

from tdu.types import Array, Environment, Key, State, TimeStep


def with_noise(env: Environment, noise_scale: float) -> Environment:
    """Adds `noise_scale` times a standard normal draw to every reward."""

    def step(state: State, action: Array, key: Key) -> tuple[State, TimeStep]:
        key_step, key_noise = jax.random.split(key)
        state, after = env.step(state, action, key_step)
        return state, after._replace(reward=after.reward + noise_scale * jax.random.normal(key_noise))

    return env._replace(step=step)


def with_scale(env: Environment, reward_scale: float) -> Environment:
    """Multiplies every reward by `reward_scale`."""

    def step(state: State, action: Array, key: Key) -> tuple[State, TimeStep]:
        state, after = env.step(state, action, key)
        return state, after._replace(reward=after.reward * reward_scale)

    return env._replace(step=step)
